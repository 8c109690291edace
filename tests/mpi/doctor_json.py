"""doctor_json.py - is it JSON of schema "treering-doctor", version 1, as docs/doctor.md has it?

    doctor_json.py FILE RANKS EXIT_CODE [CHECK=VERDICT...]

Exit status 0, or 1 with what is wrong.
"""

import json
import sys

VERDICTS = {"ok", "not applicable", "warning", "problem"}
TRIALS = ["shared_memory", "private_writes", "gpu_stores", "gpu_copies", "gpu_loads"]
TRANSPORTS = {"none", "shared memory", "same GPU", "NVLink", "PCIe"}


def expect(condition, what):
    if not condition:
        sys.exit(what)


def expect_fields(thing, fields, what):
    expect(set(thing) == set(fields), f"{what} has the fields {sorted(thing)}")


def check_checks(checks, nranks):
    expect(len({check["name"] for check in checks}) == len(checks) > 20, "names of checks")
    for check in checks:
        expect_fields(check, ["name", "verdict", "finding", "action", "ranks"], "a check")
        expect(check["verdict"] in VERDICTS, f"verdict {check['verdict']}")
        expect(isinstance(check["finding"], str) and check["finding"], "a finding is a text")
        bad = check["verdict"] in ("warning", "problem")
        expect((check["action"] is not None) == bad, f"{check['name']}: an action where something is to be done")
        for place in check["ranks"]:
            expect_fields(place, ["rank", "host"], "a place")
            expect(0 <= place["rank"] < nranks, "a place's rank")


def check_pairs(pairs, nranks):
    wanted = [(f, t) for f in range(nranks) for t in range(nranks) if f != t]
    expect([(pair["from"], pair["to"]) for pair in pairs] == wanted, "every ordered pair")
    for pair in pairs:
        expect_fields(pair, ["from", "to", "transport", "why"] + TRIALS, "a pair")
        expect(pair["transport"] in TRANSPORTS, f"transport {pair['transport']}")
        expect(all(pair[trial] in (True, False, None) for trial in TRIALS), "a trial is true, false or null")


def main(path, nranks, code, *verdicts):
    with open(path, encoding="utf-8") as file:
        result = json.load(file)
    fields = ["schema", "schema_version", "treering", "nranks", "verdict", "exit_code", "checks", "ranks", "pairs"]
    expect_fields(result, fields, "the result")
    expect((result["schema"], result["schema_version"]) == ("treering-doctor", 1), "schema")
    expect((result["nranks"], result["exit_code"]) == (int(nranks), int(code)), "nranks and exit_code")
    expect((result["verdict"] == "problem") == (int(code) == 4), "verdict and exit code")
    expect([rank["rank"] for rank in result["ranks"]] == list(range(int(nranks))), "ranks")
    for rank in result["ranks"]:
        expect_fields(rank, ["rank", "host", "pid", "cpus", "gpus_visible", "gpu"], "a rank")
    check_checks(result["checks"], int(nranks))
    check_pairs(result["pairs"], int(nranks))
    found = {check["name"]: check["verdict"] for check in result["checks"]}
    for wanted in verdicts:
        name, verdict = wanted.split("=")
        expect(found[name] == verdict, f"{name} is {found[name]}")


main(*sys.argv[1:])

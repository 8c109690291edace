"""schema_test.py - what the benches and treering fit write now, and all that results/ keeps, is as the schemas say:
strictly.
"""
import json
import os
import pathlib
import subprocess
import tempfile

import tap

try:
    import jsonschema
except ImportError:
    tap.skip_all("this Python has no jsonschema (Debian package python3-jsonschema)")

WORK = pathlib.Path(tempfile.mkdtemp(prefix="treering-schema-"))
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.getuid() == 0 else {}
SCHEMAS = {"treering-bench": "results", "treering-p2p": "p2p", "treering-model": "model"}


def validator_of(name):
    schema = json.loads((tap.SOURCE / "docs" / f"{name}.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


VALIDATORS = {schema: validator_of(name) for schema, name in SCHEMAS.items()}


def errors_in(data):
    found = VALIDATORS[data["schema"]].iter_errors(data)
    return [f"{'/'.join(map(str, e.absolute_path))}: {e.message[:200]}" for e in found]


def valid(path, version, what):
    data = json.loads(path.read_text(encoding="utf-8"))
    errors = errors_in(data)
    tap.ok(not errors and data["schema_version"] in version, what, *errors[:5], f"version {data['schema_version']}")
    return data


def launch(ranks, program, *options):
    command = [
        "mpirun",
        "--oversubscribe",
        "--bind-to",
        "none",
        "-n",
        str(ranks),
        tap.BUILD / program,
        "-M",
        "host",
        *options,
    ]
    ran = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        timeout=150,
        stdin=subprocess.DEVNULL,
        check=False,
        env={**os.environ, **ROOT, "TREERING_MODEL": "none"},
    )
    if ran.returncode not in (0, 3):
        print("\n".join(f"# {line}" for line in ran.stderr.splitlines()[-10:]))
    return ran.returncode


def test_benches():
    quick = ("-b", "8", "-e", "4K", "-f", "8", "--rounds", "3", "-n", "2")
    runs = [
        ("allreduce_bench", 2, (*quick, "-p", "LL,direct")),
        ("allreduce_bench", 3, (*quick, "-d", "f16,u8", "-o", "avg")),
        ("allreduce_bench", 1, ("-b", "4", "-e", "8", "-n", "1", "--time-limit", "0.05", "-I")),
        ("reduce_scatter_bench", 2, ("-b", "8", "-e", "24", "-i", "8", "--rounds", "3", "-B", "plain")),
        ("allgather_bench", 2, ("-b", "8", "-e", "64", "-f", "8", "--time-limit", "0.1")),
        ("p2p_bench", 3, ("-b", "1K", "-e", "4K", "-f", "2", "--rounds", "3")),
    ]
    for place, (program, ranks, options) in enumerate(runs):
        path = WORK / f"{place}.json"
        code = launch(ranks, program, *options, "-J", path)
        if code not in (0, 3) or not path.exists():
            tap.ok(False, f"{program} on {ranks} ranks writes a file", f"exit code {code}, options {options}")
        else:
            valid(path, (1,) if program == "p2p_bench" else (2,), f"{program} on {ranks} ranks, {' '.join(options)}")


def test_baseline():
    first, second = WORK / "0.json", WORK / "baseline.json"
    launch(
        2,
        "allreduce_bench",
        "-b",
        "8",
        "-e",
        "64",
        "-f",
        "8",
        "--rounds",
        "3",
        "-n",
        "2",
        "--baseline",
        first,
        "--tolerance",
        "1000%",
        "-J",
        second,
    )
    data = valid(second, (2,), "a comparison with a baseline") if second.exists() else None
    tap.ok(data and data["baseline"]["compared"] > 0, "  and it compared something")


def test_model():
    path = WORK / "model.json"
    source = tap.SOURCE / "results" / "epyc-2-cores" / "allreduce_registered.json"
    subprocess.run(
        [tap.BUILD / "treering", "fit", source, "-o", path], stdout=subprocess.DEVNULL, timeout=300, check=False
    )
    tap.ok(path.exists() and not errors_in(json.loads(path.read_text(encoding="utf-8"))), "what treering fit writes")


def test_kept():
    for path in tap.results():
        valid(path, (1, 2), str(path.relative_to(tap.SOURCE)))
    for path in sorted((tap.SOURCE / "docs" / "models").glob("*.json")):
        valid(path, (1,), str(path.relative_to(tap.SOURCE)))


def without(data, path):
    copied = json.loads(json.dumps(data))
    *way, last = path
    inner = copied
    for step in way:
        inner = inner[step]
    del inner[last]
    return copied


def test_strictness():
    """A schema that accepts anything would pass all of the above."""
    data = json.loads((WORK / "0.json").read_text(encoding="utf-8"))
    fields = [
        ("sampling",),
        ("points", 0, "regret"),
        ("points", 0, "results", 0, "time_us", "p99"),
        ("ranks", 0, "numa_node"),
        ("fits", 0, "segments"),
        ("options", "drift"),
        ("environment", "host"),
    ]
    tap.same([f for f in fields if not errors_in(without(data, f))], [], "a field that is missing is an error")
    data["points"][0]["results"][0]["time_us"]["extra"] = 1
    tap.ok(errors_in(data), "a field too many is an error")
    del data["points"][0]["results"][0]["time_us"]["extra"]
    data["environment"]["variables"]["HOME"] = "/root"
    tap.ok(errors_in(data), "a variable outside the allow-list is an error")


for test in (test_kept, test_benches, test_baseline, test_model, test_strictness):
    test()
subprocess.run(["rm", "-rf", WORK], check=False)
tap.done()

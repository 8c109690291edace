"""load_test.py - files that are malformed, truncated or hostile are refused with file, line and field; exit codes;
outputs.
"""
import json
import os
import pathlib
import subprocess
import tempfile
import time

import fixtures
import tap

WORK = pathlib.Path(tempfile.mkdtemp(prefix="treering-load-"))
FILE = WORK / "file.json"
GOOD = (tap.SOURCE / "tests" / "data" / "bench_h200_v1.json").read_text(encoding="utf-8")
MEDIAN = '"median": 6.45910185'  # line 221, the second contender of the first point


def report(*arguments, **options):
    return subprocess.run(
        [tap.BUILD / "treering", "report", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        stdin=subprocess.DEVNULL,
        **options,
    )


def refused(content, line, words, what):
    FILE.write_bytes(content if isinstance(content, bytes) else content.encode())
    ran = report(FILE, "--markdown")
    sentence = f"treering report: {FILE}:{line}: "
    good = (
        ran.returncode == 1 and ran.stderr.startswith(sentence) and words in ran.stderr and ran.stderr.count("\n") == 1
    )
    tap.ok(good and not ran.stdout, f"{what}: refused at line {line}", ran.stderr, f"exit code {ran.returncode}")


def test_malformed():
    refused("", 1, "no JSON", "an empty file")
    refused(GOOD[:5000], 181, "no JSON", "a truncated file")
    refused(GOOD[:-3], GOOD.count("\n") + 1 - GOOD[-3:].count("\n"), "no JSON", "a file without its end")
    refused(b'{"a":\n"\xff"}', 2, "no UTF-8", "bytes that are no text")
    refused("[" * 100000, 1, "nested deeper", "brackets without end")
    refused('{"schema": 1' + "0" * 5000 + "}", 1, "not finite", "an endless number")
    refused('{"a": NaN,\n "b', 2, "no JSON", "a number that is none, in a truncated file")
    refused("[1]", 1, "field schema is null", "no object")
    refused('{"schema": "treering-doctor"}', 1, "not one of treering-bench", "another schema")
    refused('{"schema": {}}', 1, "field schema", "a schema that is no text")


def test_fields():
    name = "field points[0].results[1]"
    changes = [
        ('"median": -1', 221, f"{name}.time_us.median is -1, less than 0", "a negative time"),
        ('"median": 1e999', 221, f"{name}.time_us.median", "an infinite time"),
        ('"median": NaN', 221, f"{name}.time_us.median", "a time that is no number"),
        ('"median": "6"', 221, f"{name}.time_us.median is text", "a time as text"),
        ('"median": true', 221, f"{name}.time_us.median is a boolean", "a time as a boolean"),
        ('"n": 15, "median": 6.46', 221, f"{name}.time_us.n stands there twice", "a field twice"),
        (
            '"median": 99.5',
            219,
            f"{name}.time_us has a value of 99.5 outside its interval",
            "a median outside its interval",
        ),
    ]
    for change, line, words, what in changes:
        refused(GOOD.replace(MEDIAN, change, 1), line, words, what)
    refused(GOOD.replace('"tree"', '"ring"', 1), 213, f'{name}.contender is "ring" a second time', "a contender twice")
    refused(GOOD.replace('"count": 2,', "", 1), 179, "field points[0] lacks 'count'", "a field that is not there")
    refused(
        GOOD.replace('"schema_version": 1', '"schema_version": 99', 1),
        3,
        "field schema_version is 99",
        "a later version",
    )
    refused(GOOD.replace('"nranks": 8', '"nranks": 7', 1), 65, "field ranks has 8 items", "a rank too many")
    refused(GOOD.replace('"f32"', '"f8"', 1), 183, "field points[0].datatype", "an unknown datatype")


def test_other_schemas():
    data = fixtures.pairs(4)
    data["pairs"][1]["from"] = 9
    refused(
        json.dumps(data, indent=1),
        next(n for n, text in enumerate(json.dumps(data, indent=1).splitlines(), 1) if '"from": 9' in text) - 1,
        "field pairs[1] is from rank 9",
        "a pair of ranks that are not there",
    )
    model = json.loads((tap.SOURCE / "tests" / "data" / "model_v1.json").read_text(encoding="utf-8"))
    model["parameters"][0]["alpha_us"]["value"] = None
    text = json.dumps(model, indent=1)
    refused(
        text,
        next(n for n, line in enumerate(text.splitlines(), 1) if '"value": null' in line),
        "field parameters[0].alpha_us.value is null",
        "a model without an alpha",
    )


def test_no_files():
    for path in ("/dev/zero", WORK, WORK / "none.json"):
        ran = report(path, "--markdown")
        (
            tap.ok(
                ran.returncode == 1 and str(path) in ran.stderr and ran.stderr.count("\n") == 1,
                f"{path.name if path != WORK else 'a folder'} is refused",
                ran.stderr,
            )
            if isinstance(path, pathlib.Path)
            else tap.ok(ran.returncode == 1 and "no regular file" in ran.stderr, f"{path} is refused", ran.stderr)
        )
    pipe = WORK / "pipe"
    os.mkfifo(pipe)
    began = time.monotonic()
    tap.ok(
        report(pipe, "--markdown").returncode == 1 and time.monotonic() - began < 200,
        "a pipe that nobody writes to is refused",
    )


def test_tolerated():
    FILE.write_text(GOOD.replace('"memory":', '"later": {"a": 1}, "memory":', 1), encoding="utf-8")
    tap.same(report(FILE, "--markdown").returncode, 0, "a field of a later version is ignored")


def test_outputs():
    FILE.write_text(json.dumps(fixtures.bench()), encoding="utf-8")
    tap.same(report(FILE).returncode, 2, "nothing to write: exit code 2")
    tap.same(report("--nonsense").returncode, 2, "an unknown option: exit code 2")
    helped = report("--help")
    tap.ok(helped.returncode == 0 and "--svg" in helped.stdout, "--help")
    output = WORK / "page.html"
    output.write_text("before", encoding="utf-8")
    broken = WORK / "broken.json"
    broken.write_text(GOOD[:700], encoding="utf-8")
    tap.ok(
        report(broken, "-o", output).returncode == 1 and output.read_text(encoding="utf-8") == "before",
        "a refused file leaves the output as it was",
    )
    tap.same(report(FILE, "-o", WORK / "none" / "page.html").returncode, 1, "a folder that is not there: exit code 1")
    ran = report(FILE, "-o", output, "--svg", WORK / "svg")
    first = output.read_bytes()
    tap.ok(
        ran.returncode == 0 and first.startswith(b"<!DOCTYPE html>") and first.endswith(b"</html>\n"),
        "a page",
        ran.stderr,
    )
    tap.same(sorted(p.name for p in WORK.glob(".treering-*")), [], "no temporary file stays")
    names = sorted(p.name for p in (WORK / "svg").iterdir())
    tap.same(
        names,
        [f"{k:02}-allreduce-f32-sum-{what}.svg" for k, what in enumerate(("time", "busbw", "ratio", "regret"), 1)],
        "SVG files",
    )
    report(FILE, "-o", output, "--svg", WORK / "svg")
    tap.ok(output.read_bytes() == first, "the same files give the same page")


def test_markdown():
    path = tap.SOURCE / "results" / "xeon-2-of-16-cores" / "allreduce_registered.json"
    lines = report(path, "--markdown").stdout.splitlines()
    tap.same(lines[2], "| 8 | 0.34 (oneshot/LL) | 0.34 (oneshot/LL) | 0.73 (mpi) | 2.15 |", "Markdown: a row")
    tap.same(
        lines[-1],
        "wrong elements: 0; best of ours against the best peer: at least 1.65 times as fast, geometric mean 4.21",
        "Markdown: the sum",
    )


def main():
    for test in (test_malformed, test_fields, test_other_schemas, test_no_files, test_tolerated, test_markdown):
        test()
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        tap.skip("outputs", "this Python has no matplotlib (Debian package python3-matplotlib)")
    else:
        test_outputs()
    subprocess.run(["rm", "-rf", WORK], check=False)
    tap.done()


try:
    import jsonschema  # noqa: F401
except ImportError:
    tap.skip_all("this Python has no jsonschema (Debian package python3-jsonschema)")
main()

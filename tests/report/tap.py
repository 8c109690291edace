"""tap.py - what the Python tests say, as TAP, and where things are."""
import pathlib
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path.cwd()  # tests run in the build's root
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "src" / "report"))

_tests = _failed = 0


def ok(good, what, *details):
    global _tests, _failed
    _tests += 1
    _failed += not good
    print(f"{'ok' if good else 'not ok'} {_tests} - {what}")
    for detail in details if not good else ():
        for line in str(detail).splitlines()[:20]:
            print(f"# {line}")
    sys.stdout.flush()


def same(got, wanted, what):
    ok(got == wanted, what, f"got {got!r}", f"wanted {wanted!r}")


def skip(what, why):
    global _tests
    _tests += 1
    print(f"ok {_tests} - {what} # SKIP {why}")


def skip_all(why):
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


def done():
    print(f"1..{_tests}")
    sys.exit(_failed > 0)


def results():
    """The result files that the repository keeps."""
    return sorted((SOURCE / "results").glob("*/*.json"))

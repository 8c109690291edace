#!/usr/bin/python3
"""report.py - `treering report`: result files, p2p_bench files and models as one HTML page, or as Markdown.

Exit codes are those of src/tool/tool.h: 1 a file that cannot be read, used or written, 2 an option, 4 a Python
package that is not there.
"""
import argparse
import os
import pathlib
import stat
import sys
import tempfile

sys.dont_write_bytecode = True  # the folder of an installation is no place to write to

EPILOG = """\
Files are told apart by their "schema": results of allreduce_bench, reduce_scatter_bench and allgather_bench (-J), of
p2p_bench (-J), and models (treering fit, treering tune). Fits and predicted crossovers come from the result file, or
from a model of the same machine and ranks.

  treering report allreduce.json allgather.json p2p.json model.json -o report.html
  treering report allreduce.json --svg figures      the figures alone, as SVG files for papers
  treering report allreduce.json --markdown         a table on standard output
"""


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog="treering report",
        description="Make one self-contained HTML page of what was measured.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "files", metavar="FILE", nargs="+", help="JSON that the benches, treering fit or treering tune wrote"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write the page to FILE")
    parser.add_argument(
        "--svg", metavar="DIR", help="write each figure as a static SVG file into DIR, which is made if need be"
    )
    parser.add_argument(
        "--markdown", action="store_true", help="write tables of the sweeps to standard output as Markdown"
    )
    arguments = parser.parse_args()
    if not (arguments.output or arguments.svg or arguments.markdown):
        parser.error("nothing to write: give -o FILE, --svg DIR or --markdown")
    return arguments


def write_atomically(path, content):
    """Under a temporary name beside what `path` leads to, then renamed; what is no regular file is written straight
    to.
    """
    path = os.path.realpath(path)
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        pathlib.Path(path).write_text(content, encoding="utf-8")
        return
    mask = os.umask(0)
    os.umask(mask)
    handle, temporary = tempfile.mkstemp(prefix=".treering-", dir=os.path.dirname(path))
    try:
        with open(handle, "w", encoding="utf-8") as stream:
            stream.write(content)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def write_page(arguments, documents):
    import report_page  # it needs matplotlib, which the other outputs do not

    folder = None
    if arguments.svg:
        folder = pathlib.Path(arguments.svg)
        folder.mkdir(parents=True, exist_ok=True)
    style = (pathlib.Path(__file__).resolve().parent / "report.css").read_text(encoding="utf-8")
    content = report_page.build(documents, style, folder)
    if arguments.output:
        write_atomically(arguments.output, content)


def run(arguments):
    import report_load
    import report_markdown
    import report_sweep

    try:
        documents = [report_load.load(path) for path in arguments.files]
    except report_load.Refused as refusal:
        fail(1, report_load.clean(str(refusal)))
    if arguments.markdown:
        sweeps = [s for d in documents if d.kind == "results" for s in report_sweep.sweeps_of(d)]
        sys.stdout.write(report_markdown.text_of(sweeps))
    if arguments.output or arguments.svg:
        write_page(arguments, documents)
    sys.stdout.flush()


def fail(code, sentence):
    print(f"treering report: {sentence}", file=sys.stderr)
    sys.exit(code)


def main():
    arguments = parse_arguments()
    try:
        run(arguments)
    except ImportError as error:
        package = (error.name or "matplotlib").split(".")[0]
        fail(
            4,
            (
                f"the Python package {package} cannot be used ({error}): install Debian's python3-{package}, or give"
                " ./configure PYTHON=PROGRAM"
            ),
        )
    except OSError as error:
        fail(
            1,
            (
                f"cannot write {error.filename or 'standard output'}: {error.strerror}: free space there, or give"
                " another path"
            ),
        )


main()

"""report_load.py - the JSON files that Treering writes, read as from somebody who may mean harm.

A file is held against its schema (docs/*.schema.json), then against what a schema cannot say. The first thing that is
not as wanted is refused with file, line and field. Fields that a newer version added are ignored. Text comes back
without characters that would control a terminal, a page or the direction of writing.
"""
import hashlib
import json
import math
import os
import pathlib
import stat
import unicodedata

import jsonschema
import report_places as places

MOST_BYTES = 32 << 20
LONGEST_TEXT = 2000
SCHEMAS = {"treering-bench": "results", "treering-p2p": "p2p", "treering-model": "model"}
REMEDIES = {
    "results": "measure again, or give another file",
    "p2p": "measure again, or give another file",
    "model": "write it anew with treering fit or treering tune",
}


class Refused(Exception):
    """A sentence about a file that cannot be used."""


class Document:
    """A file: its path, its kind ("results", "p2p" or "model"), what it holds, and the SHA-256 of its bytes."""

    def __init__(self, path, kind, data, digest):
        self.path, self.kind, self.data, self.digest = path, kind, data, digest
        self.name = clean(path)


# ---- Bytes and text ----------------------------------------------------------------------------------------------


def read_bytes(path):
    """A regular file's bytes; nothing is waited for."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with open(handle, "rb") as stream:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise Refused(f"{path} is no regular file: give the path of a JSON file")
            if status.st_size > MOST_BYTES:
                raise Refused(
                    f"{path} has {status.st_size} bytes, more than the {MOST_BYTES} of any such file: give another"
                )
            return stream.read(MOST_BYTES)
    except (OSError, ValueError) as error:
        why = os.strerror(error.errno) if getattr(error, "errno", None) else str(error)
        raise Refused(f"cannot read {path}: {why}: give the path of a file that can be read") from error


def decode(path, content):
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Refused(f"{path}:{line}: byte {error.start} is no UTF-8: give a JSON file") from error


def clean(value):
    """The same without control characters, halves of surrogates and bidirectional controls; long texts are cut."""
    if isinstance(value, str):
        if value.isascii() and value.isprintable():
            return value[:LONGEST_TEXT]
        return "".join(_clean_character(c) for c in value[:LONGEST_TEXT])
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    return [clean(item) for item in value] if isinstance(value, list) else value


def _clean_character(character):
    if character in "\n\t":
        return " "
    forbidden = unicodedata.category(character) in ("Cc", "Cs", "Cn", "Co") or 0xFFFE <= ord(character) <= 0xFFFF
    directs = unicodedata.bidirectional(character) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    return "\N{REPLACEMENT CHARACTER}" if forbidden or directs else character


# ---- JSON --------------------------------------------------------------------------------------------------------


class _Unusable(Exception):
    """JSON's grammar allows it, its readers differ about it."""


def _is_bad_number(text):
    return len(text) > 400 or not math.isfinite(float(text)) or (text.lstrip("-").isdigit() and len(text) > 20)


def _number(convert):
    def parse(text):
        if _is_bad_number(text):
            raise _Unusable
        return convert(text)

    return parse


def _unique(pairs):
    members = dict(pairs)
    if len(members) < len(pairs):
        raise _Unusable
    return members


def _is_unusable(keys, key, value):
    return key in keys or (isinstance(value, places.Number) and _is_bad_number(value))


def parse(path, text):
    try:
        places.check(text)
        return json.loads(
            text,
            object_pairs_hook=_unique,
            parse_int=_number(int),
            parse_float=_number(float),
            parse_constant=_number(float),
        )
    except json.JSONDecodeError as error:
        raise Refused(
            f"{path}:{error.lineno}: column {error.colno}: this is no JSON: {error.msg}: give a JSON file"
        ) from error
    except RecursionError as error:
        raise Refused(f"{path}:1: it is nested deeper than any file of Treering: give another") from error
    except _Unusable:
        refuse_unusable(path, text)


def refuse_unusable(path, text):
    where = places.find(text, _is_unusable)
    if where is None:
        raise Refused(f"{path}:1: it is a number that cannot be used: give a JSON file")
    line = places.line_of(text, places.offset_of(text, where))
    raise Refused(
        f"{path}:{line}: field {clean(places.name_of(where))} stands there twice, or is a number that is not finite: "
        "give another file"
    )


# ---- Schema ------------------------------------------------------------------------------------------------------


def schema_folder():
    """Beside this script in a build folder and once installed, in docs/ in the sources."""
    here = pathlib.Path(__file__).resolve().parent
    return here if (here / "results.schema.json").exists() else here.parents[1] / "docs"


def read_schema(kind):
    with open(schema_folder() / f"{kind}.schema.json", encoding="utf-8") as stream:
        return json.load(stream)


def _short(value):
    text = json.dumps(clean(value), ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def _name_type(value):
    names = (
        (bool, "a boolean"),
        (str, "text"),
        (int, "an integer"),
        (float, "a number"),
        (dict, "an object"),
        (list, "an array"),
    )
    return next((name for kind, name in names if isinstance(value, kind)), "null")


def _missing(error):
    wanted = error.validator_value
    if error.validator == "dependentRequired":
        wanted = [name for key, names in wanted.items() if key in error.instance for name in names]
    return f"lacks {next(name for name in wanted if name not in error.instance)!r}"


def _wrong_type(error):
    wanted = error.validator_value
    wanted = wanted if isinstance(wanted, str) else " or ".join(wanted)
    return f"is {_name_type(error.instance)}, not of type {wanted}"


SENTENCES = {
    "required": _missing,
    "dependentRequired": _missing,
    "type": _wrong_type,
    "enum": lambda e: f"is {_short(e.instance)}, not one of {', '.join(map(_short, e.validator_value))}",
    "const": lambda e: f"is {_short(e.instance)}, where it must be {_short(e.validator_value)}",
    "minimum": lambda e: f"is {_short(e.instance)}, less than {e.validator_value}",
    "exclusiveMinimum": lambda e: f"is {_short(e.instance)}, not more than {e.validator_value}",
    "maximum": lambda e: f"is {_short(e.instance)}, more than {e.validator_value}",
    "minItems": lambda e: f"has {len(e.instance)} items, fewer than {e.validator_value}",
    "maxItems": lambda e: f"has {len(e.instance)} items, more than {e.validator_value}",
    "minLength": lambda e: "is an empty text",
    "maxLength": lambda e: f"is a text of {len(e.instance)} characters, more than {e.validator_value}",
}


# what a newer version may add without a new schema_version
GROWS = ("additionalProperties", "pattern")


class Judge:
    """Refuses a document at the place of what is wrong with it."""

    def __init__(self, path, text, kind):
        self.path, self.text, self.kind = path, text, kind

    def refuse(self, where, what):
        where = tuple(where)
        line = places.line_of(self.text, places.offset_of(self.text, where))
        field = f"field {clean(places.name_of(where))}" if where else "the file"
        raise Refused(f"{self.path}:{line}: {field} {what}: {REMEDIES[self.kind]}")

    def check_schema(self, data):
        validator = jsonschema.Draft202012Validator(read_schema(self.kind))
        errors = (e for e in validator.iter_errors(data) if e.validator not in GROWS)
        error = next(errors, None)
        if error is not None:
            self.refuse(
                error.absolute_path, SENTENCES.get(error.validator, lambda e: "is not as its schema says")(error)
            )


# ---- What a schema cannot say ------------------------------------------------------------------------------------


def check_interval(judge, where, value, low, high):
    """None stands for infinity."""
    low, value, high = (math.inf if x is None else x for x in (low, value, high))
    if not low <= value <= high:
        judge.refuse(where, f"has a value of {value:g} outside its interval from {low:g} to {high:g}")


def check_time(judge, where, time):
    if time:
        check_interval(judge, where, time["median"], time["ci95_low"], time["ci95_high"])


def check_results(judge, data):
    if len(data["ranks"]) != data["nranks"]:
        judge.refuse(("ranks",), f"has {len(data['ranks'])} items, where nranks is {data['nranks']}")
    for p, point in enumerate(data["points"]):
        names = set()
        for r, result in enumerate(point["results"]):
            where = ("points", p, "results", r)
            if result["contender"] in names:
                judge.refuse(where + ("contender",), f"is {_short(result['contender'])} a second time")
            names.add(result["contender"])
            check_time(judge, where + ("time_us",), result["time_us"])
    for f, fit in enumerate(data.get("fits", [])):
        check_segments(judge, ("fits", f, "segments"), fit["segments"])


def check_pairs(judge, data):
    seen = set()
    for p, pair in enumerate(data["pairs"]):
        ends = pair["from"], pair["to"]
        if max(ends) >= data["nranks"] or ends[0] == ends[1] or ends in seen:
            judge.refuse(
                ("pairs", p),
                (
                    f"is from rank {ends[0]} to {ends[1]}, which is no pair of {data['nranks']} ranks, or "
                    "stands there twice"
                ),
            )
        seen.add(ends)
        for r, result in enumerate(pair["results"]):
            check_time(judge, ("pairs", p, "results", r, "time_us"), result["time_us"])


def check_segments(judge, where, segments):
    end = -1
    for s, segment in enumerate(segments):
        first, last = segment["from_bytes"], segment["to_bytes"]
        if not end < first <= (math.inf if last is None else last):
            judge.refuse(where + (s,), f"begins at {first} bytes, not after the one before it or not before its end")
        end = math.inf if last is None else last
        for name in ("alpha_us", "beta_gbps", "half_bytes"):
            check_interval(
                judge, where + (s, name), segment[name]["value"], segment[name]["low"], segment[name]["high"]
            )


def check_model(judge, data):
    for c, curve in enumerate(data["curves"]):
        check_segments(judge, ("curves", c, "segments"), curve["segments"])
    for p, parameters in enumerate(data["parameters"]):
        for name in ("launch_us", "alpha_us", "overhead_us", "beta_gbps", "gamma_gbps"):
            interval = parameters[name]
            check_interval(judge, ("parameters", p, name), interval["value"], interval["low"], interval["high"])


CHECKS = {"results": check_results, "p2p": check_pairs, "model": check_model}


def load(path):
    """Read a file. Raises Refused."""
    content = read_bytes(path)
    text = decode(path, content)
    data = parse(path, text)
    schema = data.get("schema") if isinstance(data, dict) else None
    kind = SCHEMAS.get(schema) if isinstance(schema, str) else None
    if kind is None:
        raise Refused(
            f"{path}:1: field schema is {_short(schema)}, not one of {', '.join(SCHEMAS)}: give a file that Treering"
            " wrote"
        )
    judge = Judge(path, text, kind)
    judge.check_schema(data)
    CHECKS[kind](judge, data)
    return Document(path, kind, clean(data), hashlib.sha256(content).hexdigest())

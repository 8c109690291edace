"""report_places.py - on which line of a JSON text a field stands, for sentences about files that need not be
trusted.
"""
import json

WHITE = " \t\r\n"


class Number(str):
    """A number as it stands in the text."""


_decoder = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=Number)


def check(text):
    """Raises what json raises for text that is no JSON."""
    _decoder.decode(text)


def _skip(text, offset):
    while offset < len(text) and text[offset] in WHITE:
        offset += 1
    return offset


def members(text, offset):
    """The (key or index, offset, value) of each member of the object or array at `offset`; of text that json has
    accepted.
    """
    closing = "}" if text[offset] == "{" else "]"
    offset = _skip(text, offset + 1)
    index = 0
    while text[offset] != closing:
        key = index
        if closing == "}":
            key, offset = _decoder.raw_decode(text, offset)
            offset = _skip(text, _skip(text, offset) + 1)
        value, end = _decoder.raw_decode(text, offset)
        yield key, offset, value
        offset = _skip(text, end)
        if text[offset] == ",":
            offset = _skip(text, offset + 1)
        index += 1


def offset_of(text, path):
    """Where the value at `path` (keys and indices) begins, or the last container on the way to it."""
    offset = _skip(text, 0)
    for step in path:
        found = [place for key, place, _ in members(text, offset) if key == step]
        if not found:
            break
        offset = found[-1]
    return offset


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def find(text, is_wanted):
    """The path of the first value that is_wanted(container's keys so far, key, value) accepts; None: there is none."""
    pending = [((), _skip(text, 0))]
    while pending:
        path, offset = pending.pop()
        if text[offset] not in "{[":
            continue
        inner, keys = [], set()
        for key, place, value in members(text, offset):
            if is_wanted(keys, key, value):
                return path + (key,)
            keys.add(key)
            inner.append((path + (key,), place))
        pending.extend(reversed(inner))
    return None


def name_of(path):
    """points[3].results[0].time_us"""
    name = ""
    for step in path:
        name += f"[{step}]" if isinstance(step, int) else f".{step}" if name else str(step)
    return name

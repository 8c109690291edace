"""report_text.py - numbers as people read them, each with its unit, and names."""
import math

DASH = "\N{EN DASH}"
THIN = "\N{NARROW NO-BREAK SPACE}"
UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
COLLECTIVES = {
    "allreduce": "All-reduce",
    "reduce_scatter": "Reduce-scatter",
    "allgather": "All-gather",
    "broadcast": "Broadcast",
    "reduce": "Reduce",
    "sendrecv": "Send and receive",
}


def size(count):
    """Exact: "64 KiB" only where it is that, "37,748,744 B" otherwise."""
    if count is None:
        return "\N{INFINITY}"
    for unit, name in UNITS:
        if count >= unit and count % unit == 0:
            return f"{count // unit:g}{THIN}{name}"
    return f"{count:,.0f}{THIN}B"


def rough_size(count):
    """Three digits, for what was fitted."""
    if count is None or math.isinf(count):
        return "\N{INFINITY}"
    for unit, name in UNITS:
        if count >= unit:
            return f"{digits(count / unit)}{THIN}{name}"
    return f"{digits(count)}{THIN}B"


def digits(value):
    """Three significant digits at least; whole numbers in full."""
    if value is None or math.isinf(value):
        return "\N{INFINITY}"
    if value == 0:
        return "0"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(decimals, 6)}f}"


def us(value):
    return f"{digits(value)}{THIN}\N{MICRO SIGN}s"


def rate(value):
    return f"{digits(value)}{THIN}GB/s"


def percent(share):
    value = 100 * share
    return f"{value:.1f}{THIN}%" if value < 9.95 else f"{value:.0f}{THIN}%"


def times(ratio):
    return f"{digits(ratio)}\N{MULTIPLICATION SIGN}"


def interval(values, low="low", high="high"):
    """A fitted value and its 95% interval: "3.1 (2.9 to 3.3)"."""
    return f"{digits(values['value'])} ({digits(values[low])} to {digits(values[high])})"


def count(number, one, many=None):
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def listed(words, most=6):
    words = list(words)
    if len(words) > most:
        words = words[: most - 1] + [f"{len(words) - most + 1} more"]
    return ", ".join(words[:-1]) + " and " + words[-1] if len(words) > 1 else "".join(words)


def short(name, most=26):
    return name if len(name) <= most else name[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"

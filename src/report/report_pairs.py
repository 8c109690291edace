"""report_pairs.py - what follows from a p2p_bench file: matrices of pairs, and what they come to a method."""
import dataclasses
import statistics

import report_text as text

# figure -> its title and the kinds of tests in it
FIGURES = {
    "latency": ("Latency of a flag and of messages", ("flag", "message")),
    "one-way": ("Bandwidth one way", ("one_way",)),
    "two-way": ("Bandwidth both ways at once, of one direction", ("two_way",)),
}


@dataclasses.dataclass
class Matrix:
    """One test over all ordered pairs; cells by (from, to)."""

    method: str
    kind: str
    bytes: int
    times: dict  # microseconds
    rates: dict  # GB/s; empty for a latency
    outliers: set
    wrong: set

    @property
    def is_latency(self):
        return self.kind in ("flag", "message")

    @property
    def values(self):
        return self.times if self.is_latency else self.rates

    @property
    def unit(self):
        return "\N{MICRO SIGN}s" if self.is_latency else "GB/s"

    @property
    def title(self):
        return self.method if self.kind == "flag" else f"{self.method}, {text.size(self.bytes)}"

    def slowness(self, cell):
        """Time over the median of all pairs: 2 is twice as slow."""
        return self.times[cell] / statistics.median(self.times.values())


def add(matrices, pair, result):
    key = result["kind"], result["method"], result["bytes"]
    matrix = matrices.setdefault(key, Matrix(result["method"], result["kind"], result["bytes"], {}, {}, set(), set()))
    cells = [(pair["from"], pair["to"])]
    if result["kind"] == "two_way":
        cells.append(cells[0][::-1])
    for cell in cells:
        if result["state"] == "wrong":
            matrix.wrong.add(cell)
        elif result["time_us"]["median"] > 0:
            matrix.times[cell] = result["time_us"]["median"]
            if result["gbps"] is not None:
                matrix.rates[cell] = result["gbps"]
        if result["outlier"]:
            matrix.outliers.add(cell)


def all_matrices(document):
    matrices = {}
    for pair in document.data["pairs"]:
        for result in pair["results"]:
            add(matrices, pair, result)
    return list(matrices.values())


def shown(matrices, kind):
    """One matrix a method: of the largest size."""
    largest = {}
    for matrix in matrices:
        if matrix.kind == kind and (matrix.method not in largest or largest[matrix.method].bytes < matrix.bytes):
            largest[matrix.method] = matrix
    return list(largest.values())


def transports(document):
    """transport -> number of ordered pairs"""
    found = {}
    for pair in document.data["pairs"]:
        name = pair["transport"] or "unknown"
        found[name] = found.get(name, 0) + 1
    return found


def fits(document):
    """method -> [fit of each pair]"""
    found = {}
    for pair in document.data["pairs"]:
        for fit in pair["fits"]:
            found.setdefault(fit["method"], []).append(fit)
    return found


def fastest_link(document):
    """The highest median over pairs of a bandwidth both ways at once between two GPUs; None: no such pairs."""
    data = document.data
    if data["memory"] != "cuda" or any(pair["same_gpu"] for pair in data["pairs"]):
        return None
    matrices = [m for m in all_matrices(document) if m.kind == "two_way" and m.rates]
    return max(matrices, key=lambda m: statistics.median(m.rates.values()), default=None)

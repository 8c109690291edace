"""report_sweep.py - what follows from a sweep: the points of one result file of one datatype and operation."""
import dataclasses
import math
import statistics

import report_text as text


@dataclasses.dataclass
class Fit:
    """T(m) = alpha + m / beta, in pieces."""

    name: str  # of the contender, or algorithm/protocol of a model's curve
    contender: str  # whose points it describes
    segments: list
    median_residual: float
    largest_residual: float

    def at(self, size):
        """Microseconds; beyond the points the outer pieces go on, between pieces as src/model/fit.h has it."""
        place = sum(size >= segment["from_bytes"] for segment in self.segments[1:])
        segment, later = self.segments[place], self.segments[place + 1 : place + 2]
        end = segment["to_bytes"]
        if not later or end is None or size <= end:
            return line_at(segment, size)
        start, first, last = later[0]["from_bytes"], line_at(segment, end), line_at(later[0], later[0]["from_bytes"])
        if min(end, first, last) <= 0:
            return first
        return first * (last / first) ** (math.log(size / end) / math.log(start / end))


def line_at(segment, size):
    beta = segment["beta_gbps"]["value"]
    return segment["alpha_us"]["value"] + (0 if beta is None else size / beta * 1e-3)


class Sweep:
    """`points` by size; `names` of contenders in the file's order."""

    def __init__(self, document, datatype, op, points):
        self.document, self.datatype, self.op = document, datatype, op
        self.data = document.data
        self.points = sorted(points, key=lambda point: point["bytes"])
        self.names = list(dict.fromkeys(r["contender"] for p in self.points for r in p["results"]))
        self.peers = {r["contender"] for p in self.points for r in p["results"] if r["peer"]}
        self.kind = f"{datatype} {op}" if op else datatype

    # ---- Names

    @property
    def machine(self):
        if self.data["memory"] == "cuda":
            return self.data["ranks"][0].get("device_name") or "GPU of unknown name"
        return self.data["environment"].get("cpu") or "CPU of unknown name"

    @property
    def host(self):
        return self.data["environment"]["host"] or "unknown host"

    @property
    def collective(self):
        return text.COLLECTIVES[self.data["collective"]]

    @property
    def who(self):
        return text.count(self.data["nranks"], "GPU rank" if self.data["memory"] == "cuda" else "CPU rank")

    @property
    def calls(self):
        options = self.data["options"]
        words = [f"{options['buffers']} buffers", "in place" if options["in_place"] else "out of place"]
        if options["graph_launches"]:
            words.append("replayed CUDA graph")
        elif self.data["memory"] == "cuda":
            words.append("launched one by one" if not options["blocking"] else "launched and waited for one by one")
        return ", ".join(words)

    @property
    def title(self):
        return f"{self.collective}, {self.who} on {self.machine}"

    # ---- Results

    def series(self, name):
        """(point, result) of each size at which the contender was measured."""
        pairs = ((p, r) for p in self.points for r in p["results"] if r["contender"] == name)
        return [(p, r) for p, r in pairs if is_measured(r)]

    def results(self):
        return [(p, r) for p in self.points for r in p["results"]]

    @property
    def sizes(self):
        return [p["bytes"] for p in self.points]

    @property
    def range(self):
        if not self.points:
            return "no size"
        if len(self.points) == 1:
            return text.size(self.sizes[0])
        return f"{text.size(self.sizes[0])} to {text.size(self.sizes[-1])}"


def sweeps_of(document):
    groups = {}
    for point in document.data["points"]:
        groups.setdefault((point["datatype"], point["op"]), []).append(point)
    return [Sweep(document, datatype, op, points) for (datatype, op), points in groups.items()]


# ---- One point ---------------------------------------------------------------------------------------------------


def is_measured(result):
    """Points without elements, or with a clock that saw nothing, have no place on a logarithmic axis."""
    return result["state"] == "measured" and result["time_us"]["median"] > 0


def median(result):
    return result["time_us"]["median"]


def best(point, peer):
    results = [r for r in point["results"] if r["peer"] == peer and is_measured(r)]
    return min(results, key=median, default=None)


def find(point, name):
    return next((r for r in point["results"] if r["contender"] == name and is_measured(r)), None)


def way(result):
    """What ran: "ring/LL"; a peer's name."""
    if result["peer"] or not result["protocol"]:
        return result["contender"]
    return f"{result['algorithm']}/{result['protocol']}"


def described(result):
    """Its name, and what AUTO came to where the name does not say it."""
    ran = way(result)
    return ran if result["contender"].startswith(ran) else f"{result['contender']}: {ran}"


# ---- Over the sizes ----------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Ratio:
    """How many times as fast: `value`, and what the two intervals leave possible."""

    bytes: int
    value: float
    low: float
    high: float


def ratio_of(size, ours, peer):
    a, b = ours["time_us"], peer["time_us"]
    lowest = a["ci95_low"] or a["median"]
    return Ratio(size, b["median"] / a["median"], b["ci95_low"] / a["ci95_high"], b["ci95_high"] / lowest)


def ratios(sweep, peer=None):
    """The time of a peer (None: the best at each size) over our best's."""
    found = []
    for point in sweep.points:
        ours = best(point, False)
        other = find(point, peer) if peer else best(point, True)
        if ours and other:
            found.append(ratio_of(point["bytes"], ours, other))
    return found


def mean_ratio(found):
    return math.exp(statistics.fmean(math.log(r.value) for r in found))


@dataclasses.dataclass
class Regret:
    """T(auto) / T(best of ours) - 1; `low`: what of it the intervals leave no doubt of."""

    bytes: int
    value: float
    low: float


def regret_of(point):
    if "regret" in point:
        known = point["regret"]
        return known and Regret(point["bytes"], known["value"], known["low"])
    auto, ours = find(point, "auto"), best(point, False)
    others = any(not r["peer"] and r["contender"] != "auto" and is_measured(r) for r in point["results"])
    if not auto or not others:
        return None
    low = auto["time_us"]["ci95_low"] / ours["time_us"]["ci95_high"] - 1
    return Regret(point["bytes"], median(auto) / median(ours) - 1, max(0.0, low))


def regrets(sweep):
    return [r for r in map(regret_of, sweep.points) if r]


def fastest_busbw(sweep, peer):
    """The result with the highest bus bandwidth and its point; None where there is none."""
    found = [(p, r) for p, r in sweep.results() if r["peer"] == peer and is_measured(r) and r["busbw_gbps"]]
    return max(found, key=lambda pair: pair[1]["busbw_gbps"], default=None)


def busbw_factor(sweep):
    """Bus bandwidth over algorithm bandwidth: 2(n-1)/n, say."""
    return next(r["busbw_gbps"] / r["algbw_gbps"] for _, r in sweep.results() if r["busbw_gbps"] and r["algbw_gbps"])


def card_limit(sweep):
    """The bus bandwidth at which the compulsory traffic takes the card's whole copy rate, GB/s; None where not
    measured.
    """
    for point in reversed(sweep.points):
        ours = best(point, False)
        if point["traffic_share"] and ours and ours["busbw_gbps"]:
            return ours["busbw_gbps"] / point["traffic_share"]
    return None


# ---- Crossovers --------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Stretch:
    """From `first` to `last`, both sizes that were measured, one way is the fastest of ours."""

    way: str
    first: int
    last: int
    certain: bool = True  # where it begins: the way before it is slower there beyond both intervals


def fastest_ways(point):
    """Each of our ways at a point: the time of the fastest contender that ran it."""
    ways = {}
    for result in point["results"]:
        if result["peer"] or not is_measured(result):
            continue
        time = ways.get(way(result))
        if time is None or median(result) < time["median"]:
            ways[way(result)] = result["time_us"]
    return ways


def stretches(sweep):
    """Which way is the fastest where. A way stays until another is faster beyond both intervals, or it is gone."""
    found = []
    for point in sweep.points:
        ways = fastest_ways(point)
        if not ways:
            continue
        winner = min(ways, key=lambda name: ways[name]["median"])
        current = found[-1].way if found else None
        if current in ways and ways[winner]["ci95_high"] >= ways[current]["ci95_low"]:
            winner = current
        if winner == current:
            found[-1].last = point["bytes"]
        else:
            found.append(Stretch(winner, point["bytes"], point["bytes"], current in ways))
    return found


def crossing(before, after, near):
    """Where the fit `after` becomes the faster one, the crossing nearest to `near` (in octaves); None: nowhere."""
    grid = [2 ** (k / 16) for k in range(0, 16 * 40)]
    slower = [after.at(m) > before.at(m) for m in grid]
    found = [grid[i] for i in range(1, len(grid)) if slower[i - 1] and not slower[i]]
    return min(found, key=lambda m: abs(math.log2(m / near)), default=None)


@dataclasses.dataclass
class Crossover:
    before: str
    after: str
    above: int  # the last measured size at which `before` was the fastest
    up_to: int  # the first at which `after` was
    fitted: float  # None: the fits do not cross
    has_fits: bool


def crossovers(sweep, fits):
    by_name = {fit.name: fit for fit in fits}
    found = []
    for before, after in zip(stretches(sweep), stretches(sweep)[1:]):
        pair = fit_of(by_name, before.way), fit_of(by_name, after.way)
        near = math.sqrt(max(1, before.last) * max(1, after.first))
        fitted = crossing(*pair, near) if all(pair) else None
        found.append(Crossover(before.way, after.way, before.last, after.first, fitted, all(pair)))
    return found


def fit_of(by_name, ran):
    """The fit of algorithm/protocol; else of the contender that was called by the algorithm alone."""
    return by_name.get(ran) or by_name.get(ran.split("/")[0])


# ---- Fits --------------------------------------------------------------------------------------------------------


def own_fits(sweep):
    return [
        Fit(fit["contender"], fit["contender"], fit["segments"], fit["median_residual"], fit["largest_residual"])
        for fit in sweep.data.get("fits", [])
        if fit["segments"] and (fit["datatype"], fit["op"]) == (sweep.datatype, sweep.op)
    ]


def describes(model, sweep):
    machine = model.data["machine"]
    options = sweep.data["options"]
    same = machine["memory"] == sweep.data["memory"] and machine["nranks"] == sweep.data["nranks"]
    return (
        same
        and machine["name"] == sweep.machine[: len(machine["name"])]
        and not options["in_place"]
        and len(machine["name"]) > 0
    )


def model_fits(sweep, model):
    registered = sweep.data["options"]["buffers"] == "registered"
    found = []
    for curve in model.data["curves"]:
        if curve["collective"] != sweep.data["collective"] or curve["registered"] != registered:
            continue
        name = f"{curve['algorithm']}/{curve['protocol']}"
        if curve["channels"]:
            name += f"/x{curve['channels']}"
        contender = name if name in sweep.names else curve["algorithm"]
        found.append(Fit(name, contender, curve["segments"], curve["median_residual"], curve["largest_residual"]))
    return found


def fits_of(sweep, models):
    """The fits of a sweep and where they come from: the file itself, else the first model of its machine."""
    own = own_fits(sweep)
    if own:
        return own, "fitted by the bench that measured"
    for model in models:
        found = model_fits(sweep, model) if describes(model, sweep) else []
        if found:
            return found, f"from the model {model.name}"
    return [], None


# ---- What does not count -----------------------------------------------------------------------------------------


def wrong_results(sweep):
    return [(p, r) for p, r in sweep.results() if r["state"] == "wrong"]


def not_served(sweep):
    """(contender, reason) -> sizes."""
    found = {}
    for point, result in sweep.results():
        if result["state"] == "not_served":
            found.setdefault((result["contender"], result.get("why") or "no reason given"), []).append(point["bytes"])
    return found


def drifted(sweep):
    return [p["bytes"] for p in sweep.points if p.get("drifted")]


def unconverged(sweep):
    """Results whose interval is wider than the bench aimed at."""
    return [(p, r) for p, r in sweep.results() if r.get("converged") is False]


def verified_calls(sweep):
    return sum(r["verified_iterations"] for _, r in sweep.results())

"""report_page.py - the page: what was measured in words, then a part for each sweep, p2p_bench file and model, then
where it was measured and how to read it."""
import pathlib
import statistics

import report_figures as figures
import report_pairs
import report_svg
import report_sweep
import report_text as text
import report_words as words
from report_html import element as e
from report_html import items, page, table

BROAD, NARROW, FULL = 5.9, 3.55, 11.0  # inches: half of the page, a phone, the whole page


class Drawings:
    """Draws each figure for the page, and for --svg where that is asked for."""

    def __init__(self, folder):
        self.folder, self.made = folder, 0

    def figure(self, name, title, caption, draw, wide=False):
        """`draw(width)` makes a matplotlib figure; `title` is read out in its place."""
        self.made += 1
        broad = draw(FULL if wide else BROAD)
        if self.folder:
            report_svg.write(self.folder / f"{self.made:02}-{name}.svg", broad)
        drawings = [
            e("div", {"class": "broad"}, report_svg.inline(broad, f"f{self.made}b-", title)),
            e("div", {"class": "narrow"}, report_svg.inline(draw(NARROW), f"f{self.made}n-", title)),
        ]
        described = e("figcaption", None, e("b", None, title), ". ", caption)
        return e("figure", {"class": "wide" if wide else None}, described, drawings)


# ---- A sweep -----------------------------------------------------------------------------------------------------


def sweep_figures(drawings, sweep, fits, limits):
    made = []
    slug = f"{sweep.data['collective']}-{sweep.kind.replace(' ', '-')}"
    if any(report_sweep.is_measured(r) for _, r in sweep.results()):
        fitted = " Dotted: the fits, a bar at each breakpoint." if fits else ""
        made.append(
            drawings.figure(
                f"{slug}-time",
                "Time over size",
                (
                    "Both axes are logarithmic; bars are the 95% intervals of "
                    f"the medians, often smaller than the marks.{fitted}"
                ),
                lambda w: figures.draw_time(sweep, fits, w),
            )
        )
    if any(r["busbw_gbps"] for _, r in sweep.results() if report_sweep.is_measured(r)):
        made.append(
            drawings.figure(
                f"{slug}-busbw",
                "Bus bandwidth over size",
                (
                    f"{sweep.data['formulas']['busbw_gbps']}, 10⁹ bytes a "
                    "second; the height is linear, so that the way to the limit can be read."
                ),
                lambda w: figures.draw_busbw(sweep, fits, limits, w),
            )
        )
    if report_sweep.ratios(sweep):
        made.append(
            drawings.figure(
                f"{slug}-ratio",
                "Against the peers",
                "The peer's time over that of our best at each size; bars are what both intervals leave possible.",
                lambda w: figures.draw_ratio(sweep, w),
            )
        )
    found = report_sweep.regrets(sweep)
    if found:
        made.append(
            drawings.figure(
                f"{slug}-regret",
                "Regret of auto",
                regret_caption(sweep),
                lambda w: figures.draw_regret(sweep, found, w),
            )
        )
    return (
        e("div", {"class": "figures"}, made)
        if made
        else e("p", {"class": "alarm"}, "Nothing of this sweep was measured.")
    )


def regret_caption(sweep):
    if sweep.data["schema_version"] == 1:
        return (
            "The median time of auto over the least of ours, less 1. Both are noisy, so noise alone makes it more"
            " than 0."
        )
    return (
        "The time of auto over that of the best measured of ours, less 1; what ran the same way is pooled"
        " (docs/results.md)."
    )


def cell(result, with_name=True):
    if result is None:
        return text.DASH
    time = result["time_us"]
    name = f" {report_sweep.way(result)}" if with_name else ""
    return [
        f"{text.digits(time['median'])} ",
        e("span", {"class": "lead"}, f"({text.digits(time['ci95_low'])}{text.DASH}{text.digits(time['ci95_high'])})"),
        name,
    ]


def size_name(point):
    name = text.size(point["bytes"])
    if point["requested_bytes"] != point["bytes"]:
        name += f" of {text.size(point['requested_bytes'])} asked for"
    return name


def sizes_table(sweep):
    rows = []
    for point in sweep.points:
        ours, peer, auto = (
            report_sweep.best(point, False),
            report_sweep.best(point, True),
            report_sweep.find(point, "auto"),
        )
        ratio = report_sweep.ratio_of(point["bytes"], ours, peer) if ours and peer else None
        busbw = text.digits(ours["busbw_gbps"]) if ours and ours["busbw_gbps"] else text.DASH
        rows.append(
            [
                size_name(point),
                cell(ours),
                busbw,
                cell(auto),
                cell(peer),
                text.times(ratio.value) if ratio else text.DASH,
            ]
        )
    heads = ["size", "best of ours, µs", "its busbw, GB/s", "auto, µs", "best peer, µs", "peer / ours"]
    return table(
        (
            "Medians and their 95% intervals. “Best” is the least median at that size, so it is a little flattered by"
            " noise."
        ),
        heads,
        rows,
        numeric=(0, 1, 2, 3, 4, 5),
    )


def all_results_table(sweep):
    rows = []
    for point, result in sweep.results():
        time = result["time_us"]
        speed = (
            [text.digits(time[k]) for k in ("median", "ci95_low", "ci95_high", "min", "p95", "max")]
            if time
            else [text.DASH] * 6
        )
        busbw = text.digits(result["busbw_gbps"]) if result["busbw_gbps"] else text.DASH
        rows.append(
            [
                text.size(point["bytes"]),
                report_sweep.described(result),
                result["channels"] or text.DASH,
                result["state"],
                *speed,
                time["n"] if time else text.DASH,
                busbw,
                f"{result['wrong']} / {result['verified_iterations']}",
            ]
        )
    heads = [
        "size",
        "contender",
        "channels",
        "state",
        "median, µs",
        "95% low",
        "95% high",
        "min",
        "p95",
        "max",
        "samples",
        "busbw, GB/s",
        "wrong elements / verified calls",
    ]
    made = table("Every contender at every size.", heads, rows, numeric=(0, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12))
    return e("details", None, e("summary", None, f"All {len(rows)} results"), made)


def fits_table(fits, source):
    if not fits:
        return e(
            "p",
            {"class": "lead"},
            "No fits: the file holds none, and no model of this machine was given (treering fit writes one).",
        )
    rows = []
    for fit in fits:
        for segment in fit.segments:
            between = f"{text.size(segment['from_bytes'])} to {text.size(segment['to_bytes'])}"
            half = segment["half_bytes"]["value"]
            rows.append(
                [
                    fit.name,
                    between,
                    segment["npoints"],
                    text.interval(segment["alpha_us"]),
                    text.interval(segment["beta_gbps"]),
                    text.rough_size(half),
                    text.percent(fit.median_residual),
                    text.percent(fit.largest_residual),
                ]
            )
    caption = (
        f"T(m) = α + m/β in pieces, {source}; 95% intervals by bootstrap. m½ = αβ: half of the bandwidth is reached"
        " there."
    )
    heads = ["contender", "sizes", "points", "α, µs", "β, GB/s", "m½", "median residual", "largest"]
    return table(caption, heads, rows, numeric=(2, 3, 4, 5, 6, 7))


def crossover_table(sweep, fits):
    found = report_sweep.crossovers(sweep, fits)
    ways = report_sweep.stretches(sweep)
    if not found:
        if len(sweep.points) < 2 or not ways:
            return None
        return e(
            "p", None, f"No crossover: {ways[0].way} is the fastest of ours, or not to be told from it, at every size."
        )
    rows = []
    for crossover in found:
        fitted = text.rough_size(crossover.fitted) if crossover.fitted else "never" if crossover.has_fits else text.DASH
        rows.append(
            [
                f"{crossover.before} → {crossover.after}",
                f"{text.size(crossover.above)} to {text.size(crossover.up_to)}",
                fitted,
            ]
        )
    caption = (
        "Where the fastest of ours changes. A way counts as the fastest until another is faster beyond both intervals; "
        f"by the fits: where their lines cross{'' if fits else ' (no fits given)'}."
    )
    return table(caption, ["from → to", "measured between", "by the fits"], rows, numeric=(1, 2))


def not_counted(sweep):
    found = [
        f"{name} was not served at {text.listed((text.size(b) for b in sizes), 4)}: {why}"
        for (name, why), sizes in report_sweep.not_served(sweep).items()
    ]
    for point, result in report_sweep.wrong_results(sweep):
        found.append(
            e(
                "span",
                {"class": "alarm"},
                (
                    f"{result['contender']} left {text.count(result['wrong'], 'wrong element')} at"
                    f" {text.size(point['bytes'])} in {text.count(result['verified_iterations'], 'verified call')}; it"
                    " has no speed there."
                ),
            )
        )
    if sweep.data["nranks"] == 1:
        found.append("Bus bandwidth: with one rank it has no meaning.")
    if report_sweep.drifted(sweep):
        found.append(
            "The machine's own speed changed while these sizes were measured (anchors): "
            + text.listed((text.size(b) for b in report_sweep.drifted(sweep)), 8)
        )
    loose = report_sweep.unconverged(sweep)
    if loose:
        found.append(
            f"{text.count(len(loose), 'result')} of {len(sweep.results())} did not reach the interval that the bench"
            " aimed at before its time limit."
        )
    return found + sweep.data["notes"]


def baseline_part(sweep):
    baseline = sweep.data.get("baseline")
    if not baseline:
        return None
    slower = [s for s in baseline["slower"] if (s["datatype"], s["op"]) == (sweep.datatype, sweep.op)]
    lead = (
        f"Against the baseline {baseline['path']} with a tolerance of {text.percent(baseline['tolerance'])}:"
        f" {text.count(baseline['compared'], 'result')} compared, {baseline['faster']} faster,"
        f" {len(baseline['slower'])} slower."
    )
    rows = [
        [
            text.size(s["bytes"]),
            s["contender"],
            text.digits(s["median_us"]) if s["median_us"] else "not measured",
            text.digits(s["baseline_us"]),
        ]
        for s in slower
    ]
    heads = ["size", "contender", "now, µs", "baseline, µs"]
    return [
        e("h3", None, "Against the baseline"),
        e("p", None, lead),
        table("What is slower.", heads, rows, numeric=(0, 2, 3)) if rows else None,
    ]


def limits_of(sweep, links):
    limits = []
    card = report_sweep.card_limit(sweep)
    if card:
        limits.append((card, f"the card's copy rate allows {text.rate(card)}"))
    for document in links:
        link = report_pairs.fastest_link(document)
        same = document.data["environment"]["host"] == sweep.host and sweep.data["memory"] == "cuda" and not card
        if link and same:
            value = statistics.median(link.rates.values())
            limits.append((value, f"the wire, both ways at once: {text.rate(value)} ({link.method}, p2p_bench)"))
    return limits[:1]


def sweep_part(drawings, sweep, place, models, links):
    fits, source = report_sweep.fits_of(sweep, models)
    missing = not_counted(sweep)
    return e(
        "section",
        {"id": f"sweep-{place}", "aria-labelledby": f"sweep-{place}-title"},
        e("h2", {"id": f"sweep-{place}-title"}, sweep.title),
        e(
            "p",
            {"class": "lead"},
            f"{sweep.kind}, {sweep.calls}, {sweep.range}; {sweep.host}, {sweep.data['environment']['date']}; ",
            e("code", None, sweep.document.name),
        ),
        sentence_list(words.of_sweep(sweep)),
        sweep_figures(drawings, sweep, fits, limits_of(sweep, links)),
        e("h3", None, "Size by size"),
        sizes_table(sweep),
        all_results_table(sweep),
        e("h3", None, "Crossovers, predicted and measured"),
        crossover_table(sweep, fits) or e("p", None, "Too few sizes to tell."),
        e("h3", None, "α and β"),
        fits_table(fits, source),
        baseline_part(sweep),
        [e("h3", None, "Not run, not counted, and notes"), items(missing)] if missing else None,
    )


def sentence_list(sentences):
    return items([e("span", {"class": "alarm"}, s) if s.startswith("WRONG") else s for s in sentences])


# ---- Pairs -------------------------------------------------------------------------------------------------------


def pairs_part(drawings, document, place):
    data = document.data
    matrices = report_pairs.all_matrices(document)
    machine = data["ranks"][0]["device_name"] or data["environment"].get("cpu") or "a machine of unknown name"
    who = text.count(data["nranks"], "GPU rank" if data["memory"] == "cuda" else "CPU rank")
    return e(
        "section",
        {"id": f"pairs-{place}", "aria-labelledby": f"pairs-{place}-title"},
        e("h2", {"id": f"pairs-{place}-title"}, f"Pairs, {who} on {machine}"),
        e(
            "p",
            {"class": "lead"},
            f"{data['environment']['host']}, {data['environment']['date']}; ",
            e("code", None, document.name),
        ),
        sentence_list(words.of_pairs(document)),
        pair_figures(drawings, matrices, data),
        e("h3", None, "Method by method"),
        methods_table(matrices),
        pair_fits_table(document),
        outlier_table(matrices),
        pair_results(document),
        [e("h3", None, "Notes"), items(data["notes"])] if data["notes"] else None,
    )


def pair_figures(drawings, matrices, data):
    made = []
    for slug, (title, kinds) in report_pairs.FIGURES.items():
        shown = [m for kind in kinds for m in report_pairs.shown(matrices, kind) if m.times]
        if shown:
            made.append(heat_figure(drawings, slug, title, shown, data["nranks"]))
    rates = [m for m in matrices if m.kind == "one_way" and m.rates]
    if len({m.bytes for m in rates}) > 1:
        made.append(
            drawings.figure(
                "pairs-rates",
                "Bandwidth one way over size",
                "Median over pairs; the band is from the slowest pair to the fastest.",
                lambda w: figures.draw_rates(matrices, w),
            )
        )
    return e("div", {"class": "figures"}, made)


def heat_figure(drawings, slug, title, shown, nranks):
    caption = (
        "A cell is an ordered pair; orange is slow, purple fast, each against its own map's median. * with a frame: an"
        " outlier."
    )
    return drawings.figure(
        f"pairs-{slug}",
        title,
        caption,
        lambda w: figures.draw_heat(shown, nranks, w),
        wide=len(shown) > 2 or nranks > 10,
    )


def methods_table(matrices):
    rows = []
    for matrix in matrices:
        values = sorted(matrix.values.values())
        if values:
            rows.append(
                [
                    f"{matrix.method}, {matrix.kind.replace('_', ' ')}",
                    text.size(matrix.bytes) if matrix.bytes else text.DASH,
                    matrix.unit,
                    text.digits(statistics.median(values)),
                    text.digits(values[0]),
                    text.digits(values[-1]),
                    len(values),
                    len(matrix.outliers),
                    len(matrix.wrong),
                ]
            )
    heads = ["method", "bytes", "unit", "median", "least", "most", "pairs", "outliers", "wrong"]
    return table("Over all ordered pairs, of each pair's median.", heads, rows, numeric=(1, 3, 4, 5, 6, 7, 8))


def pair_fits_table(document):
    rows = []
    for method, found in report_pairs.fits(document).items():
        alphas = sorted(f["alpha_us"]["value"] for f in found if f["alpha_us"]["value"] is not None)
        betas = sorted(f["beta_gbps"]["value"] for f in found if f["beta_gbps"]["value"] is not None)
        rows.append([method, len(found), spread(alphas), spread(betas)])
    if not rows:
        return None
    return table(
        "T(m) = α + m/β of transfers one way: median over pairs (least to most).",
        ["method", "pairs", "α, µs", "β, GB/s"],
        rows,
        numeric=(1, 2, 3),
    )


def spread(values):
    if not values:
        return text.DASH
    return f"{text.digits(statistics.median(values))} ({text.digits(values[0])} to {text.digits(values[-1])})"


def outlier_table(matrices):
    rows = [
        [
            f"{a} → {b}",
            f"{m.method}, {m.kind.replace('_', ' ')}",
            text.size(m.bytes),
            text.digits(m.values[a, b]),
            m.unit,
            text.times(m.slowness((a, b))),
        ]
        for m in matrices
        for a, b in sorted(m.outliers)
        if (a, b) in m.values
    ]
    if not rows:
        return None
    return [
        e("h3", None, "Outliers"),
        table(
            "Pairs slower than those of the same transport.",
            ["ranks", "test", "bytes", "value", "unit", "time / median"],
            rows,
            numeric=(2, 3, 5),
        ),
    ]


def pair_results(document):
    rows = []
    for pair in document.data["pairs"]:
        for result in pair["results"]:
            time = result["time_us"]
            rows.append(
                [
                    f"{pair['from']} → {pair['to']}",
                    result["method"],
                    result["kind"].replace("_", " "),
                    text.size(result["bytes"]),
                    *([text.digits(time[k]) for k in ("median", "ci95_low", "ci95_high")] if time else [text.DASH] * 3),
                    text.digits(result["gbps"]) if result["gbps"] else text.DASH,
                ]
            )
    if len(rows) > 5000:
        return e(
            "p", {"class": "lead"}, f"The {len(rows):,} single results are too many for a page; they stand in the file."
        )
    heads = ["ranks", "method", "kind", "bytes", "median, µs", "95% low", "95% high", "GB/s"]
    return e(
        "details",
        None,
        e("summary", None, f"All {len(rows)} results"),
        table("Every test of every pair.", heads, rows, numeric=(3, 4, 5, 6, 7)),
    )


# ---- Models ------------------------------------------------------------------------------------------------------


def model_part(drawings, document, place):
    data, machine = document.data, document.data["machine"]
    who = text.count(machine["nranks"], "GPU rank" if machine["memory"] == "cuda" else "CPU rank")
    groups = {}
    for curve in data["curves"]:
        groups.setdefault((curve["collective"], curve["registered"]), []).append(curve)
    return e(
        "section",
        {"id": f"model-{place}", "aria-labelledby": f"model-{place}-title"},
        e("h2", {"id": f"model-{place}-title"}, f"Model, {who} on {machine['name'] or 'a machine without a name'}"),
        e(
            "p",
            {"class": "lead"},
            f"{machine['host'] or 'no host'}; {data['origin']}; ",
            e("code", None, document.name),
        ),
        e("h3", None, "α, β, γ"),
        parameters_table(data),
        between_sentence(data),
        e("h3", None, "Curves"),
        curve_figures(drawings, groups),
        [curves_table(key, curves) for key, curves in groups.items()],
    )


def parameters_table(data):
    rows = []
    for p in data["parameters"]:
        rows.append(
            [
                p["protocol"],
                f"{text.rough_size(p['from_bytes'])} to {text.rough_size(p['to_bytes'])}",
                text.interval(p["launch_us"]),
                text.interval(p["alpha_us"]),
                text.interval(p["overhead_us"]),
                text.interval(p["beta_gbps"]),
                text.interval(p["gamma_gbps"]),
                p["npoints"] or "cited",
                text.percent(p["median_residual"]),
                text.percent(p["largest_residual"]),
            ]
        )
    if not rows:
        return e("p", None, "The model has no parameters of schedules.")
    caption = (
        "T = launch + messages α + steps × overhead + link bytes / β + reduced bytes / γ, each count taken from the "
        "schedule; 95% intervals. ∞: costs nothing that can be told from the rest."
    )
    heads = [
        "protocol",
        "sizes",
        "launch, µs",
        "α, µs",
        "overhead, µs",
        "β, GB/s",
        "γ, GB/s",
        "points",
        "median residual",
        "largest",
    ]
    return table(caption, heads, rows, numeric=tuple(range(2, 10)))


def between_sentence(data):
    between = data["between"]
    if not between:
        return e("p", {"class": "lead"}, "It says nothing of several nodes.")
    return e(
        "p",
        None,
        (
            f"Between nodes of {text.count(data['ranks_per_node'], 'rank')}: {text.us(between['alpha_us'])} a message, "
            f"{text.count(between['links_per_node'], 'link')} a node of {text.rate(between['beta_gbps'])} each way."
        ),
    )


def group_title(key):
    return f"{text.COLLECTIVES[key[0]]}, {'registered' if key[1] else 'plain'} buffers"


def fits_of_curves(curves):
    names = (f"{c['algorithm']}/{c['protocol']}" + (f"/x{c['channels']}" if c["channels"] else "") for c in curves)
    return [
        report_sweep.Fit(name, name, c["segments"], c["median_residual"], c["largest_residual"])
        for name, c in zip(names, curves)
    ]


def curve_figures(drawings, groups):
    made = [
        drawings.figure(
            f"model-{key[0]}",
            group_title(key),
            "Fitted time over size; both axes are logarithmic.",
            lambda w, fits=fits_of_curves(curves): figures.draw_curves(fits, w),
        )
        for key, curves in groups.items()
    ]
    return e("div", {"class": "figures"}, made) if made else e("p", None, "The model has no curves.")


def curves_table(key, curves):
    made = fits_table(fits_of_curves(curves), group_title(key))
    return e("details", None, e("summary", None, f"α and β: {group_title(key)}"), made)


# ---- The whole ---------------------------------------------------------------------------------------------------


def overview(sweeps):
    rows = []
    for place, sweep in enumerate(sweeps):
        found, regret, widest = (
            report_sweep.ratios(sweep),
            report_sweep.regrets(sweep),
            report_sweep.fastest_busbw(sweep, False),
        )
        first = next((r for p in sweep.points if (r := report_sweep.best(p, False))), None)
        wrong = sum(r["wrong"] for _, r in sweep.results())
        rows.append(
            [
                e("a", {"href": f"#sweep-{place}"}, sweep.collective),
                f"{sweep.who} on {sweep.machine}, {sweep.host}",
                f"{sweep.kind}, {sweep.calls}",
                sweep.range,
                text.digits(report_sweep.median(first)) if first else text.DASH,
                text.digits(widest[1]["busbw_gbps"]) if widest else text.DASH,
                text.times(report_sweep.mean_ratio(found)) if found else text.DASH,
                text.times(min(r.value for r in found)) if found else text.DASH,
                text.percent(statistics.median(r.value for r in regret)) if regret else text.DASH,
                text.percent(max(r.value for r in regret)) if regret else text.DASH,
                e("span", {"class": "alarm"}, f"{wrong:,}") if wrong else "0",
            ]
        )
    heads = [
        "collective",
        "where",
        "how",
        "sizes",
        "least size, µs",
        "most busbw, GB/s",
        "× peer, mean",
        "× peer, least",
        "regret, median",
        "regret, worst",
        "wrong",
    ]
    caption = (
        "The best of ours in each sweep; “× peer”: times as fast as the best peer, geometric mean and least over sizes."
    )
    return table(caption, heads, rows, numeric=range(4, 11), attributes={"class": "overview"})


def flat(environment):
    facts = {key: value for key, value in environment.items() if key != "variables"}
    facts.update(environment["variables"])
    return facts


def environments(documents):
    """A column for each environment; files that differ in nothing but the date share one."""
    columns = {}
    for document in documents:
        facts = flat(document.data["environment"])
        columns.setdefault(tuple((k, str(v)) for k, v in facts.items() if k not in ("date", "cpu_mhz")), (facts, []))[
            1
        ].append(document)
    columns = list(columns.values())
    keys = list(dict.fromkeys(key for facts, _ in columns for key in facts))
    rows = [[key, *[fact_cell(facts.get(key)) for facts, _ in columns]] for key in keys]
    heads = ["fact"] + [text.listed((pathlib.PurePath(d.name).name for d in found), 4) for _, found in columns]
    differing = [row[0] for row in rows if len(set(map(str, row[1:]))) > 1]
    made = table(
        "As each bench found it, by an allow-list; a file's column is that of the first of its files.",
        heads,
        rows,
        attributes={"class": "facts"},
    )
    for row in made.iter("tr"):
        if row[0].text in differing:
            row[0].set("class", "differs")
    note = f"Different between them: {text.listed(differing, 40)}." if differing else None
    return [e("p", None, note) if note else None, made]


def fact_cell(value):
    return text.DASH if value is None else f"{value:,}" if isinstance(value, int) and value > 99999 else str(value)


def reading(sweeps):
    sentences = [
        (
            "A sample is the slowest rank's time for a batch of calls, over its calls; a time is the median over"
            " samples, and its interval holds the median with 95% by order statistics (fewer than 6 samples: less)."
        ),
        "Contenders alternate in one run in random order. A result whose data were wrong has no speed.",
        "Sizes are of the whole vector, in bytes; KiB, MiB and GiB are powers of 1,024, GB/s is 10⁹ bytes a second.",
    ]
    formulas = {
        f"{s.collective}: size is {s.data['formulas']['bytes']}; busbw = {s.data['formulas']['busbw_gbps']}."
        for s in sweeps
    }
    return items(sentences + sorted(formulas))


def files_table(documents):
    rows = [[d.name, d.data["schema"], d.data["schema_version"], e("code", None, d.digest)] for d in documents]
    return table("What this page was made from.", ["file", "schema", "version", "SHA-256"], rows)


def title_of(sweeps, pairs, models):
    machines = dict.fromkeys(
        [s.machine for s in sweeps]
        + [d.data["ranks"][0]["device_name"] or d.data["environment"].get("cpu") or "?" for d in pairs]
        + [d.data["machine"]["name"] for d in models]
    )
    return f"Treering on {text.listed(machines, 4)}"


def lead(sweeps, pairs, models):
    counts = [
        text.count(len(sweeps), "sweep") if sweeps else None,
        text.count(len(pairs), "matrix of pairs", "matrices of pairs") if pairs else None,
        text.count(len(models), "model") if models else None,
    ]
    dates = sorted(d.data["environment"]["date"] for d in {s.document for s in sweeps} | set(pairs))
    when = (
        f", measured {dates[0][:10]}" + (f" to {dates[-1][:10]}" if dates[-1][:10] != dates[0][:10] else "")
        if dates
        else ""
    )
    return text.listed(c for c in counts if c) + when + "."


def in_short(sweeps, pairs):
    made = []
    for place, sweep in enumerate(sweeps):
        first = words.of_sweep(sweep)
        wrong = [s for s in first[1:] if s.startswith("WRONG")]
        made.append(
            [
                e(
                    "a",
                    {"href": f"#sweep-{place}"},
                    f"{sweep.title}, {sweep.data['options']['buffers']} buffers, {sweep.kind}",
                ),
                ": ",
                first[0],
                " ",
                first[1] if len(sweeps) == 1 or "No peer" in first[0] else None,
                [e("span", {"class": "alarm"}, s) for s in wrong],
            ]
        )
    for place, document in enumerate(pairs):
        sentences = words.of_pairs(document)
        made.append([e("a", {"href": f"#pairs-{place}"}, "Pairs"), ": ", " ".join(sentences[1:])])
    return items(made)


def build(documents, style, svg_folder=None):
    """The page's text."""
    drawings = Drawings(svg_folder)
    results = [d for d in documents if d.kind == "results"]
    pairs = [d for d in documents if d.kind == "p2p"]
    models = [d for d in documents if d.kind == "model"]
    sweeps = [s for d in results for s in report_sweep.sweeps_of(d)]
    empty = [d for d in results if not d.data["points"]]
    title = title_of(sweeps, pairs, models)
    body = e(
        "body",
        None,
        e("header", None, e("h1", None, title), e("p", {"class": "lead"}, lead(sweeps, pairs, models))),
        e(
            "main",
            None,
            e("h2", None, "In short"),
            in_short(sweeps, pairs),
            overview(sweeps) if sweeps else None,
            [e("p", {"class": "alarm"}, f"{d.name} holds no point: nothing was measured.") for d in empty],
            [sweep_part(drawings, s, place, models, pairs) for place, s in enumerate(sweeps)],
            [pairs_part(drawings, d, place) for place, d in enumerate(pairs)],
            [model_part(drawings, d, place) for place, d in enumerate(models)],
            [e("h2", None, "Where it was measured"), environments(results + pairs)] if results or pairs else None,
            e("h2", None, "How to read it"),
            reading(sweeps),
            files_table(documents),
        ),
        e(
            "footer",
            {"class": "foot"},
            "Made by treering report. Every number stands in the files above; nothing is fetched, and no script runs.",
        ),
    )
    return page(title, style, body)

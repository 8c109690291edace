"""report_figures.py - the figures, by matplotlib: each a function that draws on a matplotlib Figure of a given width.

Colours are placeholders, one a role, which report_svg.py makes into the page's light and dark ones. Contenders differ
by colour (Okabe and Ito's, safe for colour-blind people), marker and dashes. Text is never read as mathematics.
"""
import math

import matplotlib
import report_sweep
import report_text as text
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

INK, MUTED, GRID, PAPER, BAND = "#1a1a1c", "#5c5c62", "#dcdce0", "#fefefe", "#d3d3d8"
# blue, vermillion, green, purple, orange, sky, olive, brown: Okabe and Ito, yellow and black replaced
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a7a00", "#8c564b")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
MOST_SHOWN = len(COLOURS)
DOTTED = (0, (1, 1.2))
HEAT = "PuOr_r"  # diverging, colour-blind safe (ColorBrewer): orange is slow

matplotlib.rcParams.update(
    {
        "text.parse_math": False,
        "svg.hashsalt": "treering",
        "font.family": "sans-serif",
        "font.size": 9.5,
        "axes.edgecolor": MUTED,
        "axes.facecolor": "none",
        "axes.labelcolor": INK,
        "axes.linewidth": 0.8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 9.5,
        "grid.color": GRID,
        "grid.linewidth": 0.6,
        "hatch.linewidth": 0.6,
        "legend.frameon": False,
        "legend.fontsize": 9,
        "text.color": INK,
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "xtick.labelsize": 8.5,
        "ytick.labelsize": 8.5,
        "path.simplify": False,
    }
)


def new_figure(width, height):
    """In inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.patch.set_alpha(0)
    FigureCanvasSVG(figure)
    return figure


# ---- Axes --------------------------------------------------------------------------------------------------------


def size_ticks(low, high, width):
    """Powers of two between, as few as the width holds."""
    first, last = math.floor(math.log2(low)), math.ceil(math.log2(high))
    step = max(1, math.ceil((last - first) / max(2, width * 1.75)))
    return [2.0**k for k in range(first, last + 1) if (k - first) % step == 0]


def tick_size(value, _):
    return text.size(round(value)).replace(text.THIN, " ")


def tick_number(value, _):
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


def size_axis(axes, sizes, width):
    low, high = max(1, min(sizes)), max(1, max(sizes))
    axes.set_xscale("log", base=2)
    axes.set_xlim(low / 2**0.5, high * 2**0.5)
    axes.xaxis.set_major_locator(FixedLocator(size_ticks(low, high, width)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(tick_size))
    axes.set_xlabel("size of the vector")


def log_axis(axes, values, label):
    """Decades; narrower ranges get 1, 2 and 5."""
    axes.set_yscale("log")
    low, high = min(values), max(values)
    axes.set_ylim(low / 1.35, high * 1.35)
    subs = (1,) if high / low > 1e4 else (1, 2, 5) if high / low > 8 else (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)
    axes.yaxis.set_major_locator(LogLocator(subs=subs, numticks=20))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(tick_number))
    axes.set_ylabel(label)
    axes.grid(True, axis="y")


def legend_columns(labels, width):
    """As many as fit, letters being 0.075 inches wide or less."""
    longest = max(map(len, labels), default=0)
    return max(1, int(width / (0.72 + 0.075 * longest)))


def finish(figure, handles, width):
    """The legend below the axes, in room of its own."""
    if not handles:
        return
    labels = [label_of(handle) for handle in handles]
    columns = legend_columns(labels, width)
    room = 0.18 * math.ceil(len(handles) / columns) + 0.08
    height = figure.get_figheight() + room
    figure.set_figheight(height)
    figure.get_layout_engine().set(rect=(0, room / height, 1, 1 - room / height))
    figure.legend(
        handles, labels, loc="lower left", ncols=columns, handlelength=2.6, columnspacing=1.2, borderaxespad=0.2
    )


def label_of(handle):
    """Matplotlib leaves out labels that begin with an underscore."""
    name = text.short(handle.get_label())
    return " " + name if name.startswith("_") else name


# ---- Contenders --------------------------------------------------------------------------------------------------


def pick(sweep):
    """The contenders that get colour: peers, winners, then the fastest over all; the rest are drawn thin."""

    def rank(name):
        series = sweep.series(name)
        wins = sum(p["winner"] == name for p, _ in series)
        losses = [r["time_us"]["median"] / best_time(p) for p, r in series]
        return (name not in sweep.peers, -wins, sum(math.log(x) for x in losses) / len(losses) if losses else math.inf)

    names = [name for name in sweep.names if name != "auto" and sweep.series(name)]
    chosen = set(sorted(names, key=rank)[:MOST_SHOWN])
    return [name for name in names if name in chosen], [name for name in names if name not in chosen]


def best_time(point):
    return min(r["time_us"]["median"] for r in point["results"] if report_sweep.is_measured(r))


def styles_of(names, peers):
    """name -> line properties; a peer is hollow and dashed."""
    styles = {}
    for place, name in enumerate(names):
        peer = name in peers
        styles[name] = {
            "color": COLOURS[place % len(COLOURS)],
            "marker": MARKERS[place % len(MARKERS)],
            "linestyle": (0, (4, 1.5)) if peer else "-",
            "markerfacecolor": PAPER if peer else COLOURS[place % len(COLOURS)],
            "markersize": 4.2,
            "linewidth": 1.3,
        }
    return styles


def handles_of(styles, peers, has_auto, others):
    handles = [
        Line2D([], [], label=f"{name} (peer)" if name in peers else name, **style) for name, style in styles.items()
    ]
    if has_auto:
        handles.append(Line2D([], [], color=BAND, linewidth=6, label="auto"))
    if others:
        handles.append(Line2D([], [], color=MUTED, linewidth=0.7, label=text.count(others, "other contender")))
    return handles


def draw_contenders(axes, sweep, value):
    """Lines of all contenders, `value(point, interval end)` high; returns the heights drawn and the legend's
    handles.
    """
    names, others = pick(sweep)
    styles = styles_of(names, sweep.peers)
    heights = []
    auto = draw_line(axes, sweep, "auto", value, heights, color=BAND, linewidth=6, solid_capstyle="round", zorder=1.5)
    for name in others:
        draw_line(axes, sweep, name, value, heights, color=MUTED, linewidth=0.7, zorder=1.8)
    for name, style in styles.items():
        draw_line(axes, sweep, name, value, heights, gid=f"series:{name}", zorder=3, **style)
        draw_intervals(axes, sweep, name, value, style["color"])
    return heights, handles_of(styles, sweep.peers, auto, len(others)), styles


def draw_line(axes, sweep, name, value, heights, gid=None, **style):
    series = [(p, r) for p, r in sweep.series(name) if value(p, r, "median") is not None]
    if not series:
        return False
    ys = [value(p, r, "median") for p, r in series]
    line = axes.plot([max(1, p["bytes"]) for p, _ in series], ys, **style)[0]
    line.set_gid(gid)
    line.treering_titles = [title_of(p, r) for p, r in series]
    heights += ys
    return True


def title_of(point, result):
    """What a pointer that rests on a point is told."""
    time = result["time_us"]
    words = f"{report_sweep.described(result)}, {text.size(point['bytes'])}: {text.us(time['median'])} "
    words += f"({text.digits(time['ci95_low'])} to {text.us(time['ci95_high'])}, n = {time['n']})"
    return words + (f", busbw {text.rate(result['busbw_gbps'])}" if result["busbw_gbps"] else "")


def draw_intervals(axes, sweep, name, value, colour):
    ends = [(max(1, p["bytes"]), value(p, r, "ci95_low"), value(p, r, "ci95_high")) for p, r in sweep.series(name)]
    draw_bars(axes, [(x, low, high) for x, low, high in ends if low and high], colour)


def draw_bars(axes, bars, colour):
    """(x, low, high) each."""
    if bars:
        axes.vlines(*zip(*bars), color=colour, linewidth=1, zorder=2.5)


# ---- Time and bandwidth ------------------------------------------------------------------------------------------


def time_of(point, result, end):
    return result["time_us"][end]


def busbw_of(point, result, end):
    """An end of the time's interval gives one of the bandwidth's."""
    if not result["busbw_gbps"] or not result["time_us"][end]:
        return None
    return result["busbw_gbps"] * result["time_us"]["median"] / result["time_us"][end]


def draw_fits(axes, fits, styles, height):
    """Dotted lines piece by piece, a bar at each breakpoint; `height(size, us)` is where a fitted time stands."""
    shown = [fit for fit in fits if fit.contender in styles]
    for fit in shown:
        for place, segment in enumerate(fit.segments):
            draw_segment(axes, fit, segment, styles[fit.contender]["color"], place > 0, height)
    fitted = Line2D(
        [], [], color=MUTED, linestyle=DOTTED, linewidth=1.6, marker="|", markersize=8, label="fit, breakpoint"
    )
    return [fitted] if shown else []


def draw_segment(axes, fit, segment, colour, is_later, height):
    first, last = max(1, segment["from_bytes"]), segment["to_bytes"] or segment["from_bytes"] * 1024
    xs = [first * (last / first) ** (k / 24) for k in range(25)] if last > first else [first]
    axes.plot(
        xs, [height(x, fit.at(x)) for x in xs], color=colour, linestyle=DOTTED, linewidth=1.8, zorder=2.2, alpha=0.9
    )
    if is_later:
        axes.plot(
            [first],
            [height(first, fit.at(first))],
            marker="|",
            color=colour,
            markersize=13,
            markeredgewidth=1.2,
            zorder=2.3,
        )


def draw_time(sweep, fits, width):
    figure = new_figure(width, height_of(width))
    axes = figure.add_subplot()
    heights, handles, styles = draw_contenders(axes, sweep, time_of)
    size_axis(axes, sweep.sizes, width)
    log_axis(axes, heights, "time, \N{MICRO SIGN}s (median)")
    handles += draw_fits(axes, fits, styles, lambda size, time: time)
    finish(figure, handles, width)
    return figure


def draw_busbw(sweep, fits, limits, width):
    """`limits`: (GB/s, label) lines that no result can pass."""
    figure = new_figure(width, height_of(width))
    axes = figure.add_subplot()
    heights, handles, styles = draw_contenders(axes, sweep, busbw_of)
    factor = report_sweep.busbw_factor(sweep)
    handles += draw_fits(axes, fits, styles, lambda size, time: factor * size / max(time, 1e-9) * 1e-3)
    size_axis(axes, sweep.sizes, width)
    axes.set_ylim(0, 1.06 * max(heights + [limit for limit, _ in limits]))
    axes.yaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(tick_number))
    axes.grid(True, axis="y")
    axes.set_ylabel("bus bandwidth, GB/s")
    for limit, label in limits:
        axes.axhline(limit, color=INK, linewidth=1, linestyle=(0, (6, 2)), zorder=2)
        axes.annotate(
            label,
            (0.01, limit),
            xycoords=("axes fraction", "data"),
            xytext=(2, -3),
            textcoords="offset points",
            va="top",
            color=INK,
            fontsize=8.5,
        )
    finish(figure, handles, width)
    return figure


def height_of(width):
    """Of the axes' part, without a legend."""
    return max(2.7, min(3.3, width * 0.62))


# ---- Ratio and regret --------------------------------------------------------------------------------------------


def draw_ratio(sweep, width):
    figure = new_figure(width, 2.55)
    axes = figure.add_subplot()
    handles, heights = [], [1]
    for place, name in enumerate(sorted(sweep.peers)):
        found = report_sweep.ratios(sweep, name)
        if found:
            handles.append(draw_ratios(axes, name, found, place))
            heights += [r.value for r in found]
    size_axis(axes, sweep.sizes, width)
    log_axis(axes, heights, "times as fast as the peer")
    axes.axhline(1, color=INK, linewidth=1, zorder=2)
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, 0.8), max(high, 1.25))
    axes.annotate(
        "ours faster",
        (1, 1),
        xycoords=("axes fraction", "data"),
        xytext=(-2, 3),
        textcoords="offset points",
        ha="right",
        va="bottom",
        color=MUTED,
        fontsize=8.5,
    )
    finish(figure, handles, width)
    return figure


def draw_ratios(axes, name, found, place):
    colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
    xs = [max(1, r.bytes) for r in found]
    line = axes.plot(
        xs,
        [r.value for r in found],
        color=colour,
        marker=marker,
        markersize=4.2,
        linewidth=1.3,
        zorder=3,
        gid=f"series:{name}",
    )[0]
    line.treering_titles = [
        f"{name}, {text.size(r.bytes)}: {text.times(r.value)} ({text.times(r.low)} to {text.times(r.high)})"
        for r in found
    ]
    draw_bars(axes, [(x, r.low, r.high) for x, r in zip(xs, found)], colour)
    return Line2D(
        [], [], color=colour, marker=marker, markersize=4.2, linewidth=1.3, label=f"best of ours against {name}"
    )


def draw_regret(sweep, found, width):
    figure = new_figure(width, 2.75)
    axes = figure.add_subplot()
    xs, ys = [max(1, r.bytes) for r in found], [100 * r.value for r in found]
    axes.vlines(xs, [0] * len(xs), ys, color=COLOURS[0], linewidth=2.2, zorder=3)
    line = axes.plot(
        xs, ys, color=COLOURS[0], marker="o", markersize=4.2, linestyle="none", zorder=3, gid="series:auto"
    )[0]
    line.treering_titles = [
        f"auto, {text.size(r.bytes)}: {text.percent(r.value)}, beyond doubt {text.percent(r.low)}" for r in found
    ]
    size_axis(axes, sweep.sizes, width)
    regret_axis(axes, max(ys))
    for limit, label in ((5, "5 %: aim for the median"), (15, "15 %: aim for the worst")):
        axes.axhline(limit, color=MUTED, linewidth=0.9, linestyle=(0, (6, 2)), zorder=2)
        axes.annotate(
            label,
            (0.01, limit),
            xycoords=("axes fraction", "data"),
            xytext=(0, 2),
            textcoords="offset points",
            color=MUTED,
            fontsize=8,
        )
    return figure


def regret_axis(axes, most):
    """Linear up to 20%; beyond, where there is something, logarithmic."""
    if most > 40:
        beyond = [m * 10.0**k for k in range(1, 12) for m in (1, 2, 5) if 40 <= m * 10**k <= most * 1.2]
        axes.set_yscale("symlog", linthresh=20, linscale=1.5)
        axes.set_ylim(-0.6, most * 1.5)
        axes.yaxis.set_major_locator(FixedLocator([0, 5, 10, 15, 20] + beyond))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        top = max(18, most * 1.1)
        axes.set_ylim(-0.02 * top, top)
        axes.yaxis.set_major_locator(MaxNLocator(6))
    axes.yaxis.set_major_formatter(FuncFormatter(tick_number))
    axes.grid(True, axis="y")
    axes.set_ylabel("regret of auto, %")


# ---- Pairs -------------------------------------------------------------------------------------------------------


def draw_heat(matrices, nranks, width):
    """A map a method; colour is time over the map's median, so that all share one scale."""
    columns = min(len(matrices), max(1, int(width / (1.7 if nranks <= 8 else 2.7))))
    rows = math.ceil(len(matrices) / columns)
    columns = math.ceil(len(matrices) / rows)
    side = min(3.2, width / columns)
    figure = new_figure(width, rows * side + 1.0)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, matrix in zip(grid.flat, matrices):
        mesh = draw_map(axes, matrix, nranks, side)
    for axes in list(grid.flat)[len(matrices) :]:
        axes.set_visible(False)
    bar = figure.colorbar(
        mesh, ax=list(grid.flat), orientation="horizontal", aspect=40, shrink=min(1, 4.5 / width), pad=0.02
    )
    bar.set_ticks([-1, -0.5, 0, 0.5, 1], labels=["half", "0.71", "median", "1.41", "twice"])
    bar.set_label("time of the pair over the median of its map", fontsize=8.5)
    bar.outline.set_visible(False)
    return figure


def draw_map(axes, matrix, nranks, side):
    colours = [[shade(matrix, (row, column)) for column in range(nranks)] for row in range(nranks)]
    mesh = axes.pcolormesh(colours, cmap=HEAT, vmin=-1, vmax=1, rasterized=nranks > 32)
    axes.set_aspect("equal")
    axes.invert_yaxis()
    axes.set_facecolor(GRID)
    axes.set_title(f"{text.short(matrix.title, 34)}, {matrix.unit}", loc="left")
    for setter in (axes.set_xticks, axes.set_yticks):
        step = max(1, math.ceil(nranks / 8))
        setter([k + 0.5 for k in range(0, nranks, step)], labels=[str(k) for k in range(0, nranks, step)])
    axes.tick_params(length=0, labelsize=8)
    axes.set_xlabel("to rank", fontsize=8.5)
    axes.set_ylabel("from rank", fontsize=8.5)
    for spine in axes.spines.values():
        spine.set_visible(False)
    annotate(axes, matrix, nranks, side)
    return mesh


def shade(matrix, cell):
    """log2 of the slowness; nothing on the diagonal and where nothing was measured."""
    if cell not in matrix.times:
        return math.nan
    return max(-1.0, min(1.0, math.log2(matrix.slowness(cell))))


def annotate(axes, matrix, nranks, side):
    """Numbers where they fit; outliers and wrong pairs are marked in any case."""
    points = min(8.5, 72 * side * 0.72 / nranks / 3.0)
    for cell in sorted(set(matrix.values) | matrix.wrong | matrix.outliers):
        words = text.digits(matrix.values[cell]) if cell in matrix.values and points >= 4.5 else ""
        words += "*" if cell in matrix.outliers else ""
        words = "wrong" if cell in matrix.wrong else words
        dark = abs(shade(matrix, cell)) > 0.62
        if words:
            axes.text(
                cell[1] + 0.5,
                cell[0] + 0.5,
                words,
                ha="center",
                va="center",
                fontsize=max(points, 4.5),
                color="#ffffff" if dark else "#000000",
            )
        if cell in matrix.outliers or cell in matrix.wrong:
            axes.add_patch(
                matplotlib.patches.Rectangle(
                    (cell[1] + 0.04, cell[0] + 0.04),
                    0.92,
                    0.92,
                    fill=False,
                    edgecolor="#000000",
                    linewidth=1.6,
                    hatch="xx" if cell in matrix.wrong else None,
                )
            )


def draw_rates(matrices, width):
    """Bandwidth over size, a line a method: median over pairs, from the slowest to the fastest pair as a band."""
    figure = new_figure(width, height_of(width))
    axes = figure.add_subplot()
    by_method = {}
    for matrix in matrices:
        if matrix.kind == "one_way" and matrix.rates:
            by_method.setdefault(matrix.method, []).append(matrix)
    styles = styles_of(by_method, ())
    heights = []
    for method, found in by_method.items():
        heights += draw_rate(axes, sorted(found, key=lambda m: m.bytes), styles[method])
    size_axis(axes, [m.bytes for found in by_method.values() for m in found], width)
    axes.set_xlabel("bytes of a transfer")
    log_axis(axes, heights, "bandwidth one way, GB/s")
    handles = [Line2D([], [], label=name, **style) for name, style in styles.items()]
    finish(figure, handles + [Patch(facecolor=BAND, label="slowest to fastest pair")], width)
    return figure


def draw_rate(axes, found, style):
    xs = [m.bytes for m in found]
    middles = [sorted(m.rates.values())[len(m.rates) // 2] for m in found]
    axes.plot(xs, middles, zorder=3, **style)
    axes.fill_between(
        xs,
        [min(m.rates.values()) for m in found],
        [max(m.rates.values()) for m in found],
        color=style["color"],
        alpha=0.18,
        linewidth=0,
        zorder=1.5,
    )
    return middles


# ---- Models ------------------------------------------------------------------------------------------------------


def draw_curves(fits, width):
    """The curves of a model for one collective."""
    figure = new_figure(width, height_of(width))
    axes = figure.add_subplot()
    shown = fits[:MOST_SHOWN]
    sizes, heights = [], []
    handles = []
    for place, fit in enumerate(fits):
        ends = [s["from_bytes"] for s in fit.segments] + [
            fit.segments[-1]["to_bytes"] or fit.segments[-1]["from_bytes"] * 1024
        ]
        xs = [max(1, end) for end in ends]
        style = (
            {"color": COLOURS[place], "marker": MARKERS[place], "markersize": 4.2} if fit in shown else {"color": MUTED}
        )
        grid = [xs[0] * (xs[-1] / xs[0]) ** (k / 64) for k in range(65)]
        ys = [max(fit.at(x), 1e-6) for x in grid]
        axes.plot(grid, ys, linewidth=1.3 if fit in shown else 0.7, markevery=16, **style)
        if fit in shown:
            handles.append(Line2D([], [], linewidth=1.3, label=fit.name, **style))
        sizes, heights = sizes + xs, heights + ys
    size_axis(axes, sizes, width)
    log_axis(axes, heights, "fitted time, \N{MICRO SIGN}s")
    finish(figure, handles, width)
    return figure

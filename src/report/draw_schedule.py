#!/usr/bin/python3
"""draw_schedule.py - a simulated schedule as a picture: ranks down, time across, an arrow a message.

Reads the JSON that `treering schedule --svg` writes to its standard input (schema "treering-trace"); the one argument is
the file to write, whose ending names the format. Colour tells chunks apart; a full line carries a partial sum, a dashed
one the result. A bar is a step: from its inputs being there until its messages have left.
"""
import json
import os
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.lines as lines
import matplotlib.patches as patches
import matplotlib.pyplot as plt

COLLECTIVES = {
    "allreduce": "all-reduce",
    "reduce_scatter": "reduce-scatter",
    "allgather": "all-gather",
    "sendrecv": "send and receive",
}
ALGORITHMS = {
    "dtree": "two binary trees",
    "tree": "a binary tree",
    "ring": "a ring",
    "oneshot": "one exchange (one-shot)",
    "twoshot": "two exchanges (two-shot)",
    "recursive": "recursive halving and doubling",
}
MOST_EVENTS = 20000
BAR = 0.30  # height of a step, in ranks


def palette(nchunks, npieces):
    """A function from (chunk, piece) to a colour: a hue a chunk, lighter from piece to piece."""
    if nchunks <= 10:
        base = [plt.get_cmap("tab10")(i) for i in (0, 1, 2, 3, 4, 5, 6, 8, 9, 7)][:nchunks]
    else:
        base = [plt.get_cmap("hsv")(i / nchunks) for i in range(nchunks)]

    def colour(chunk, piece):
        red, green, blue, _ = base[min(chunk, nchunks - 1)]
        white = 0.55 * piece / max(npieces - 1, 1) if npieces > 1 else 0
        return tuple(c + (1 - c) * white for c in (red, green, blue))

    return colour


def size_text(n):
    for unit, text in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if n >= unit and n % unit == 0:
            return f"{n // unit} {text}"
    return f"{n} bytes"


def ends(event):
    """From which rank to which the message goes."""
    if event["kind"] == "read":
        return event["peer"], event["rank"]
    return event["rank"], event["peer"]


def draw_steps(axes, trace, colour):
    least = trace["total_us"] / 250  # a step that takes no time is still seen
    for event in trace["events"]:
        if event["kind"] != "step":
            continue
        width = max(event["end_us"] - event["start_us"], least)
        axes.add_patch(
            patches.Rectangle(
                (event["start_us"], event["rank"] - BAR / 2),
                width,
                BAR,
                facecolor=colour(event["chunk"], event["piece"]),
                edgecolor="black" if event["final"] else "none",
                linewidth=1.1 if event["final"] else 0,
                zorder=3,
            )
        )


def label_steps(axes, trace):
    """The chunk's number in each bar that has room for it."""
    if trace["nchunks"] == 1 or trace["nranks"] > 16:
        return
    room = trace["total_us"] / 70
    for event in trace["events"]:
        if event["kind"] == "step" and event["end_us"] - event["start_us"] >= room and event["span"] == 1:
            middle = (event["start_us"] + event["end_us"]) / 2
            axes.text(
                middle, event["rank"], str(event["chunk"]), ha="center", va="center", fontsize=7, color="white", zorder=5
            )


def draw_messages(axes, trace, colour):
    head = 7 if trace["nranks"] <= 16 else 3
    for event in trace["events"]:
        if event["kind"] == "step":
            continue
        start, end = ends(event)
        down = 1 if end > start else -1
        axes.annotate(
            "",
            xy=(event["end_us"], end - down * BAR / 2),
            xytext=(event["start_us"], start + down * BAR / 2),
            arrowprops={
                "arrowstyle": "-|>",
                "color": colour(event["chunk"], event["piece"]),
                "linestyle": (0, (4, 2)) if event["result"] else "solid",
                "linewidth": 1.1,
                "mutation_scale": head,
                "shrinkA": 0,
                "shrinkB": 0,
            },
            zorder=2,
        )


def legend(axes, trace, colour):
    handles = []
    if 1 < trace["nchunks"] <= 10:
        name = "tree" if trace["algorithm"] == "dtree" else "chunk"
        handles += [patches.Patch(color=colour(c, 0), label=f"{name} {c}") for c in range(trace["nchunks"])]
    if trace["npieces"] > 1:
        handles.append(patches.Patch(color=colour(0, trace["npieces"] - 1), label="later pieces lighter"))
    if any(e["kind"] != "step" and not e["result"] for e in trace["events"]):
        handles.append(lines.Line2D([], [], color="0.3", linestyle="solid", label="partial sum"))
    if any(e["kind"] != "step" and e["result"] for e in trace["events"]):
        handles.append(lines.Line2D([], [], color="0.3", linestyle=(0, (4, 2)), label="result"))
    if any(e["final"] for e in trace["events"]):
        handles.append(patches.Patch(facecolor="0.85", edgecolor="black", label="sum complete"))
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize=8)


def nodes(axes, trace):
    """A line between nodes."""
    size = trace["ranks_per_node"]
    for first in range(size, trace["nranks"], size):
        axes.axhline(first - 0.5, color="0.5", linewidth=0.8, linestyle=":", zorder=1)


def frame(axes, trace):
    n = trace["nranks"]
    axes.set_ylim(n - 0.5, -0.5)
    axes.set_xlim(-trace["total_us"] * 0.01, trace["total_us"] * 1.02)
    axes.set_yticks(range(0, n, max(1, n // 32)))
    axes.set_ylabel("rank")
    axes.set_xlabel("time, \N{GREEK SMALL LETTER MU}s (simulated)")
    for rank in range(n):
        axes.axhline(rank, color="0.9", linewidth=0.6, zorder=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    what = COLLECTIVES.get(trace["collective"], trace["collective"])
    how = ALGORITHMS.get(trace["algorithm"], trace["algorithm"])
    pieces = f" in {trace['npieces']} pieces" if trace["npieces"] > 1 else ""
    axes.set_title(
        f"{what.capitalize()} by {how}: {n} ranks, {size_text(trace['bytes'])}{pieces}, "
        f"{trace['total_us']:.1f} \N{GREEK SMALL LETTER MU}s",
        loc="left",
        fontsize=10,
    )


def draw(trace, path):
    colour = palette(trace["nchunks"], trace["npieces"])
    height = min(1.2 + 0.42 * trace["nranks"], 40)
    figure, axes = plt.subplots(figsize=(10, height), layout="constrained")
    frame(axes, trace)
    nodes(axes, trace)
    draw_messages(axes, trace, colour)
    draw_steps(axes, trace, colour)
    label_steps(axes, trace)
    legend(axes, trace, colour)
    folder, name = os.path.split(path)
    beside = os.path.join(folder, f".{os.getpid()}.{name}")  # complete, or not there
    try:
        figure.savefig(beside, dpi=150, metadata={"Date": None} if path.endswith(".svg") else None)
        os.replace(beside, path)
    finally:
        if os.path.exists(beside):
            os.remove(beside)


def main():
    trace = json.load(sys.stdin)
    if not sys.argv[1].endswith((".svg", ".pdf", ".png")):
        sys.exit(f"draw_schedule.py: '{sys.argv[1]}' names no kind of picture: end it in .svg, .pdf or .png")
    if len(trace["events"]) > MOST_EVENTS:
        sys.exit(
            f"draw_schedule.py: {len(trace['events'])} steps and messages are more than a picture shows "
            f"({MOST_EVENTS}): draw fewer ranks or pieces"
        )
    # text stays text, and the same schedule gives the same file
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "treering", "font.family": "sans-serif"})
    try:
        draw(trace, sys.argv[1])
    except (OSError, ValueError) as error:
        sys.exit(f"draw_schedule.py: cannot write {sys.argv[1]}: {error}")


main()

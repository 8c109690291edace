"""report_markdown.py - a sweep as a Markdown table, for the pages of a repository."""
import report_sweep


def described(result):
    return f"{report_sweep.median(result):.2f} ({report_sweep.way(result)})" if result else "-"


def table(sweep):
    lines = ["| bytes | best of ours, us | auto, us | best peer, us | ratio |", "| ---: | ---: | ---: | ---: | ---: |"]
    for point in sweep.points:
        ours, peer = report_sweep.best(point, False), report_sweep.best(point, True)
        ratio = f"{report_sweep.median(peer) / report_sweep.median(ours):.2f}" if ours and peer else "-"
        auto = report_sweep.find(point, "auto")
        lines.append(f"| {point['bytes']} | {described(ours)} | {described(auto)} | {described(peer)} | {ratio} |")
    return lines


def summary(sweep):
    """The ratios' least value and mean, and what of the card's copy rate the largest size reached."""
    words = f"wrong elements: {sum(r['wrong'] for _, r in sweep.results())}"
    ratios = report_sweep.ratios(sweep)
    if ratios:
        words += f"; best of ours against the best peer: at least {min(r.value for r in ratios):.2f} times as fast, "
        words += f"geometric mean {report_sweep.mean_ratio(ratios):.2f}"
    shares = [p["traffic_share"] for p in sweep.points if p["traffic_share"]]
    if shares and sweep.data["card"] and sweep.data["card"]["copy_gbps"]:
        words += (
            f"; of the card's copy rate ({sweep.data['card']['copy_gbps']:.0f} GB/s) at the largest size:"
            f" {shares[-1]:.0%}"
        )
    return words


def text_of(sweeps):
    parts = []
    for sweep in sweeps:
        heading = [f"{sweep.document.name}, {sweep.kind}:", ""] if len(sweeps) > 1 else []
        parts.append("\n".join([*heading, *table(sweep), "", summary(sweep)]))
    return "\n\n".join(parts) + "\n"

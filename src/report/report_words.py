"""report_words.py - what the numbers say, as sentences: of one sweep, and of one p2p_bench file."""
import statistics

import report_pairs
import report_sweep
import report_text as text


def of_sweep(sweep):
    sentences = [against_peers(sweep), extremes(sweep), choice(sweep), correctness(sweep)]
    return [sentence for sentence in sentences if sentence]


def against_peers(sweep):
    found = report_sweep.ratios(sweep)
    if not found:
        return "No peer was measured beside it, so nothing here says how it compares with NCCL or MPI."
    least, most = min(found, key=lambda r: r.value), max(found, key=lambda r: r.value)
    who = text.listed(sorted(n for n in sweep.peers if sweep.series(n)))
    if len(found) == 1:
        return f"At {text.size(least.bytes)} the best of ours is {text.digits(least.value)} times as fast as {who}."
    lead = "the best of ours" if least.value >= 1 else "the best of ours, which is not ahead everywhere,"
    words = (
        f"Against {who}, {lead} is {text.digits(report_sweep.mean_ratio(found))} times as fast in the geometric mean"
        " over "
    )
    words += f"{len(found)} sizes, {text.digits(least.value)} at least (at {text.size(least.bytes)}) and "
    words += f"{text.digits(most.value)} at most (at {text.size(most.bytes)}). "
    ahead, behind = sum(r.low > 1 for r in found), sum(r.high < 1 for r in found)
    words += f"The intervals leave no doubt of who is faster at {ahead + behind} of them"
    return words + (f", ours at {ahead}, the peer at {behind}." if behind else ".")


def extremes(sweep):
    quickest = next(((p, r) for p in sweep.points if (r := report_sweep.best(p, False))), None)
    if not quickest:
        return "None of our contenders was measured."
    point, result = quickest
    words = f"{text.size(point['bytes'])} takes {text.us(report_sweep.median(result))} ({report_sweep.way(result)})"
    widest = report_sweep.fastest_busbw(sweep, False)
    if widest:
        point, result = widest
        words += (
            f"; bus bandwidth reaches {text.rate(result['busbw_gbps'])} at"
            f" {text.size(point['bytes'])} ({report_sweep.way(result)})"
        )
    limit = report_sweep.card_limit(sweep)
    if widest and limit:
        words += f", {text.percent(widest[1]['busbw_gbps'] / limit)} of what the card's copy rate allows"
    return words + "."


def choice(sweep):
    found = report_sweep.regrets(sweep)
    if not found:
        return None
    worst = max(found, key=lambda r: r.value)
    words = (
        f"Leaving the choice to auto costs {text.percent(statistics.median(r.value for r in found))} in the median over"
        " sizes"
    )
    if len(found) > 1:
        words += f" and {text.percent(worst.value)} at worst (at {text.size(worst.bytes)}"
        words += f", {text.percent(worst.low)} of it beyond the intervals)"
    return words + "."


def correctness(sweep):
    wrong = report_sweep.wrong_results(sweep)
    calls = report_sweep.verified_calls(sweep)
    if wrong:
        names = text.listed(dict.fromkeys(r["contender"] for _, r in wrong))
        sizes = text.listed((text.size(b) for b in sorted({p["bytes"] for p, _ in wrong})), 4)
        return f"WRONG DATA from {names} at {sizes}: these results have no speed."
    if not calls:
        return "No output was verified in this run."
    return f"No wrong element in {text.count(calls, 'verified call')}."


def of_pairs(document):
    data = document.data
    matrices = report_pairs.all_matrices(document)
    sentences = [
        f"{text.count(len(data['pairs']), 'ordered pair')} of {text.count(data['nranks'], 'rank')}: "
        + text.listed(f"{n} by {name}" for name, n in report_pairs.transports(document).items())
        + "."
    ]
    sentences += [
        best_of(matrices, "message", "latency of a message"),
        best_of(matrices, "one_way", "bandwidth one way"),
        best_of(matrices, "two_way", "bandwidth of one direction, both ways at once"),
        outliers(matrices, data),
    ]
    wrong = sorted({f"{a} to {b}" for m in matrices for a, b in m.wrong})
    if wrong:
        sentences.append(f"WRONG DATA between ranks {text.listed(wrong)}.")
    return [sentence for sentence in sentences if sentence]


def best_of(matrices, kind, words):
    shown = [m for m in report_pairs.shown(matrices, kind) if m.values]
    if not shown:
        return None
    pick = min if kind == "message" else max
    matrix = pick(shown, key=lambda m: statistics.median(m.values.values()))
    value = statistics.median(matrix.values.values())
    shape = text.us(value) if matrix.is_latency else text.rate(value)
    return f"Best {words}: {shape} in the median over pairs ({matrix.title})."


def outliers(matrices, data):
    marked = sorted({(a, b) for m in matrices for a, b in m.outliers})
    if marked:
        return f"Slower than their peers: ranks {text.listed(f'{a} to {b}' for a, b in marked)}."
    least = data["outlier_rule"]["least_pairs"]
    if len(data["pairs"]) < least:
        return f"Fewer than {least} pairs, so none is judged an outlier."
    return "No pair is slower than its peers."

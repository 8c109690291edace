"""fixtures.py - result files that nobody measured, for the tests alone: the dark corners of a report."""
import copy
import json

import tap

HOSTILE = "</svg><script>bad()</script>"  # as long as a contender's name may be


def measured(name):
    return json.loads((tap.SOURCE / "results" / name).read_text(encoding="utf-8"))


def bench():
    """One size after another of the smallest file, cut short."""
    data = measured("epyc-2-cores/allreduce_8_ranks.json")
    data["points"] = data["points"][:4]
    return data


def one_size_one_contender():
    data = bench()
    point = data["points"][0]
    point["results"] = [r for r in point["results"] if r["contender"] == "oneshot"]
    data["points"] = [point]
    return data


def nothing_measured():
    data = bench()
    for point in data["points"]:
        for place, result in enumerate(point["results"]):
            wrong = place % 2 == 0
            result.update(
                state="wrong" if wrong else "not_served",
                time_us=None,
                algbw_gbps=None,
                busbw_gbps=None,
                skew_us=None,
                wrong=3 if wrong else 0,
            )
            if not wrong:
                result["why"] = "no path to the peer: ask for another protocol"
    return data


def one_rank():
    data = bench()
    data["nranks"], data["ranks"] = 1, data["ranks"][:1]
    for point in data["points"]:
        for result in point["results"]:
            result["busbw_gbps"] = None
    return data


def no_points():
    return {**bench(), "points": []}


def many_contenders():
    data = bench()
    for point in data["points"]:
        pattern = next(r for r in point["results"] if r["contender"] == "ring")
        for k in range(60):
            copied = copy.deepcopy(pattern)
            copied["contender"] = f"recursive/direct/x{k:02}-long-name"
            for field in ("median", "ci95_low", "ci95_high", "min", "p95", "max"):
                copied["time_us"][field] *= 1 + k / 50
            point["results"].append(copied)
    return data


def many_kinds():
    data = bench()
    points = data["points"]
    data["points"] = [
        {**p, "datatype": t, "op": o} for t, o in (("f32", "sum"), ("bf16", "max"), ("u8", "prod")) for p in points
    ]
    return data


def odd_sizes():
    """Empty vectors, sizes that were cut, and far from each other."""
    data = bench()
    for point, size in zip(data["points"], (0, 3, 37748744, (1 << 40) + 4)):
        point["requested_bytes"], point["bytes"] = size + 1, size
    return data


def hostile():
    data = bench()
    words = '"><img src="/leak"><script>bad()</script>$\\frac{$ &amp; \u202egnp\x1b[31m\ud800'
    data["notes"] = [words, HOSTILE]
    data["environment"].update(cpu=words, host=words, date=words)
    data["environment"]["</td><script>bad()</script>"] = words
    data["environment"]["variables"] = {"NCCL_</style><script>bad()</script>": words}
    data["formulas"] = {key: words for key in data["formulas"]}
    for point in data["points"]:
        for result, name in zip(point["results"], (HOSTILE, "_hidden", "$x^$", "a" * 31)):
            for field in ("winner", "best_ours", "best_peer"):
                point[field] = name if point[field] == result["contender"] else point[field]
            result["contender"] = name
        point["results"][-1].update(
            state="not_served", why=words, time_us=None, algbw_gbps=None, busbw_gbps=None, skew_us=None
        )
    return data


def with_fits():
    """Version 2's fits, regret and drift, in a version 2 file made from a version 1 one."""
    data = bench()
    data["schema_version"] = 2
    data["options"].update(channels=None, drift=0.1)
    data["sampling"] = {
        "sample": "maximum over ranks",
        "batch": "calls",
        "statistic": "median",
        "interval": "order statistics",
        "ci_target": 0.05,
        "time_limit_s": 1,
        "seed": 1,
    }
    data["anchors"], data["baseline"], data["regret"] = None, None, []
    for rank in data["ranks"]:
        rank.update(cpus_allowed=None, numa_nodes_allowed=None, numa_node=None, entry_late_us=None)
    for place, point in enumerate(data["points"]):
        point.update(
            began_s=place, anchor_before=None, anchor_after=None, drift=None, drifted=place == 1, slowed_by=None
        )
        point["regret"] = {
            "value": 0.7 * place,
            "low": 0,
            "auto_is_best": False,
            "auto_us": 2,
            "best_other": "ring",
            "best_us": 1,
        }
        for result in point["results"]:
            result.update(ci_share=0.2, converged=place > 0, entry_skew_us=None, graph_launches=0)
            result["time_us"].update(ci_level=0.96, p5=result["time_us"]["min"], p99=result["time_us"]["max"])
    data["fits"] = [
        {
            "datatype": "f32",
            "op": "sum",
            "contender": name,
            "npoints": 4,
            "why": None,
            "residuals": [],
            "median_residual": 0.01,
            "largest_residual": 0.1,
            "segments": [segment(8, 64, 3.0, 1.0), segment(512, 4096, 5.0, None)],
        }
        for name in ("ring", "twoshot")
    ]
    return data


def segment(first, last, alpha, beta):
    def interval(value):
        return {"value": value, "low": value and value * 0.9, "high": value and value * 1.1}

    return {
        "from_bytes": first,
        "to_bytes": last,
        "npoints": 2,
        "alpha_us": interval(alpha),
        "beta_gbps": interval(beta),
        "half_bytes": interval(beta and alpha * beta * 1e3),
    }


def pairs(nranks, memory="host"):
    """A p2p_bench file; ranks 1 and 2 are slow for each other, one pair has wrong data."""
    data = {
        "schema": "treering-p2p",
        "schema_version": 1,
        "program": "p2p_bench",
        "memory": memory,
        "nranks": nranks,
        "environment": {"date": "2026-12-01T00:00:00Z", "host": "nobody", "cpu": "no CPU", "variables": {}},
        "options": {
            "first_bytes": 1024,
            "last_bytes": 65536,
            "step_factor": 64,
            "message_bytes": 8,
            "rounds": 9,
            "together": False,
            "seed": 1,
            "timeout_s": None,
        },
        "outlier_rule": {"score_over": 3.5, "ci_low_over_median_by": 0.05, "least_pairs": 5},
        "seconds": 1.5,
        "ranks": [
            {
                "rank": r,
                "host": "nobody",
                "binding": None,
                "device": r if memory == "cuda" else None,
                "device_name": "no GPU" if memory == "cuda" else None,
                "device_uuid": None,
            }
            for r in range(nranks)
        ],
        "methods": [{"method": "store", "what": "nothing"}, {"method": "ce", "what": "nothing"}],
        "notes": ["never measured"],
    }
    data["pairs"] = [pair(a, b) for a in range(nranks) for b in range(nranks) if a != b]
    return data


def pair(a, b):
    slow = {a, b} == {1, 2}
    us = 1 + 0.01 * ((7 * a + 3 * b) % 5) + 3 * slow
    results = [result("flag", "flag", 0, us / 2, slow), result("store", "message", 8, us, slow)]
    results += [
        result(method, "one_way", size, us * size / 3e5, slow) for method in ("store", "ce") for size in (1024, 65536)
    ]
    results += [result("store", "two_way", 65536, us * 0.3, slow)] if a < b else []
    if (a, b) == (0, 3):
        results[3].update(state="wrong", wrong=5, time_us=None, gbps=None, outlier=None, score=None)
    interval = {"value": us, "ci95_low": us * 0.9, "ci95_high": us * 1.1}
    rate = {"value": None if a == 0 else 300 / us, "ci95_low": 10.0, "ci95_high": None}
    return {
        "from": a,
        "to": b,
        "transport": "no wire",
        "same_gpu": False,
        "nvlink": True,
        "native_atomics": None,
        "performance_rank": None,
        "from_bus": None,
        "to_bus": None,
        "results": results,
        "fits": [
            {
                "method": "store",
                "alpha_us": interval,
                "beta_gbps": rate,
                "pieces": 1,
                "median_residual": 0.1,
                "largest_residual": 0.2,
            }
        ],
    }


def result(method, kind, size, us, outlier):
    time = {"n": 9, "median": us, "ci95_low": us * 0.98, "ci95_high": us * 1.02, "min": us * 0.9, "max": us * 1.5}
    latency = kind in ("flag", "message")
    return {
        "method": method,
        "kind": kind,
        "bytes": size,
        "state": "measured",
        "time_us": time,
        "gbps": None if latency else size / us * 1e-3,
        "iterations": 4,
        "wrong": 0,
        "verified_samples": 9,
        "outlier": outlier,
        "score": 9.0 if outlier else 0.1,
    }


ALL = {
    "one size and contender": one_size_one_contender,
    "nothing measured": nothing_measured,
    "one rank": one_rank,
    "no points": no_points,
    "70 contenders": many_contenders,
    "three kinds": many_kinds,
    "odd sizes": odd_sizes,
    "hostile text": hostile,
    "fits and regret": with_fits,
    "1 pair of ranks": lambda: pairs(2),
    "12 GPU ranks": lambda: pairs(12, "cuda"),
}

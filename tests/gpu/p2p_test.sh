#!/bin/bash
# p2p_test.sh - p2p_bench on GPU ranks: `tests/gpu/p2p_test.sh BUILD-FOLDER RANKS`, which tests/gpu/run does. Small and odd
# sizes, every method, one pair at a time and all at once; the data are verified by the bench, its JSON here. Speaks TAP.
set -uo pipefail

build=${1:?usage: p2p_test.sh BUILD-FOLDER RANKS}
ranks=${2:?usage: p2p_test.sh BUILD-FOLDER RANKS}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ "$(id -u)" -eq 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

tests=0
ok() { # ok STATUS WHAT: 0 passes
    tests=$((tests + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $tests - $2"
    else
        echo "not ok $tests - $2"
        head -20 "$work/out" "$work/err" | sed 's/^/# /'
    fi
}

run() { # run OPTION...
    timeout -k 10 "${TR_TIMEOUT:-300}" mpirun --oversubscribe --bind-to none -n "$ranks" "$build/p2p_bench" -M cuda \
        --timeout 10 --rounds 2 -J "$work/x.json" "$@" >"$work/out" 2>"$work/err" </dev/null
    got=$?
    test $got -eq 0
    ok $? "p2p_bench $* exits with 0 (got $got)"
}

# check METHOD...: JSON has every pair, the methods asked for among others, nothing wrong, and sensible figures
check() {
    if ! command -v python3 >/dev/null; then
        tests=$((tests + 1))
        echo "ok $tests - JSON # SKIP no python3"
        return
    fi
    python3 - "$work/x.json" "$ranks" "$@" >"$work/out" 2>"$work/err" <<'END'
import json, sys
j, n, wanted = json.load(open(sys.argv[1])), int(sys.argv[2]), set(sys.argv[3:])
assert j["schema"] == "treering-p2p" and j["memory"] == "cuda" and j["nranks"] == n
assert [(p["from"], p["to"]) for p in j["pairs"]] == [(a, b) for a in range(n) for b in range(n) if a != b]
uuids = [r["device_uuid"] for r in j["ranks"]]
for p in j["pairs"]:
    same = uuids[p["from"]] == uuids[p["to"]]
    assert p["same_gpu"] is same and (p["transport"] == "same GPU") is same
    assert {r["method"] for r in p["results"]} >= wanted, p["results"]
    for r in p["results"]:
        t = r["time_us"]
        assert r["state"] == "measured" and r["wrong"] == 0, r
        assert 0 < t["min"] <= t["median"] <= t["max"] < 1e7
        assert r["verified_samples"] == (0 if r["kind"] == "flag" else 2)
        assert r["gbps"] is None or 0 < r["gbps"] < 10000
END
    ok $? "  and JSON has every pair, right, by $*"
}

run -b 4K -e 1M -f 16
check flag store load ce LL LL128 direct
run -b 13 -e 2M -f 53 --message 13 -A store,load,ce
check store load ce
run -b 24 -e 24 --message 1000000 -A store,load
check store load
run -b 64K -e 64K --together
check flag store load ce direct
echo "1..$tests"

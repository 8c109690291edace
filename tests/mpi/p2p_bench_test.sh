#!/bin/sh
# p2p_bench_test.sh - p2p_bench as a person runs it, on CPU ranks: options, exit codes, matrices, JSON and CSV, wrong data,
# and a rank that dies. Speaks TAP. Run from the build's root, or with TR_BUILD naming it; needs mpirun.
# $quick is a list of options, and what dies is expanded by the ranks' own shells
# shellcheck disable=SC2086,SC2016
set -u

build=${TR_BUILD:-.}
work=$(mktemp -d "${TMPDIR:-/tmp}/p2p_bench.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

if [ "$(id -u)" -eq 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
# a launcher around this test is none of the bench's
unset OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_RANK PMI_SIZE PMI_RANK SLURM_NTASKS SLURM_STEP_NUM_TASKS SLURM_PROCID

tests=0
ok() { # ok STATUS WHAT: 0 passes
    tests=$((tests + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $tests - $2"
    else
        echo "not ok $tests - $2"
        sed 's/^/# out: /' "$work/out" | head -20
        sed 's/^/# err: /' "$work/err" | head -20
    fi
}
skip() { # skip WHAT WHY
    tests=$((tests + 1))
    echo "ok $tests - $1 # SKIP $2"
}

launch() { # launch RANKS ARGUMENT...; one rank needs no launcher
    ranks=$1
    shift
    if [ "$ranks" -eq 1 ]; then
        timeout -k 10 150 "$build/p2p_bench" "$@" >"$work/out" 2>"$work/err" </dev/null
        return
    fi
    timeout -k 10 150 mpirun --oversubscribe --bind-to none -n "$ranks" "$build/p2p_bench" "$@" \
        >"$work/out" 2>"$work/err" </dev/null
}
exits() { # exits CODE RANKS ARGUMENT...: run and compare the exit code
    code=$1
    shift
    launch "$@"
    got=$?
    test "$got" -eq "$code"
    ok $? "p2p_bench with $* exits with $code (got $got)"
}
says() { # says TEXT: stderr has it, once
    test "$(grep -c -e "$1" "$work/err")" -eq 1
    ok $? "  and says, once: $1"
}
prints() { # prints TEXT: stdout has it
    grep -q -e "$1" "$work/out"
    ok $? "  and prints: $1"
}

quick='-M host --rounds 2 -b 24 -e 4K -f 8'

# ---- What a person sees ----

exits 0 2 $quick
prints '^# transport: shared memory.*, 2 pairs, such as 0 to 1$'
prints '^latency of a flag, us (rows from, columns to)$'
prints '^latency of a message, store, 8, us'
prints '^bandwidth one way, load, 1536, GB/s'
prints '^bandwidth each way, both at once, mpi, 1536, GB/s'
prints '^direct  one_way  '
prints '2 ranks have too few pairs to tell'
grep -q 'wrong!' "$work/out"
test $? -eq 1
ok $? "  and no pair was wrong"
exits 0 2 $quick -A mpi,direct --message 100 -v
prints '^latency of a message, mpi, 100, us'
prints '^bandwidth one way, direct, 192, GB/s'
prints '^# rank 1 on .*bound to'
grep -q 'store' "$work/out"
test $? -eq 1
ok $? "  and runs nothing that was not asked for"
prints '^mpi  *[0-9.]*  *[0-9.]*  *[0-9.]* .*shared memory'
exits 0 2 $quick -A flag
grep -q 'alpha' "$work/out"
test $? -eq 1
ok $? "  and fits nothing where there is nothing to fit"
exits 0 2 $quick -A store,LL,ce
prints '^# note: method ce is for cuda memory only'
exits 0 17 -M host --rounds 1 -b 8 -e 8 -A flag,store
prints "over a rank's peers: median, least, most"

# ---- JSON and CSV ----

# check RANKS: files hold what docs/results.md says
check() {
    if ! command -v python3 >/dev/null; then
        skip "  JSON and CSV hold what docs/results.md says" "no python3"
        return
    fi
    python3 - "$work/x.json" "$work/x.csv" "$1" >"$work/out" 2>"$work/err" <<'END'
import csv, json, sys
n = int(sys.argv[3])
j = json.load(open(sys.argv[1]))
assert j["schema"] == "treering-p2p" and j["schema_version"] == 1
assert j["nranks"] == n and len(j["ranks"]) == n and j["memory"] == "host"
assert j["environment"]["cpus_online"] >= 1 and j["options"]["seed"] == 5
assert [(p["from"], p["to"]) for p in j["pairs"]] == [(a, b) for a in range(n) for b in range(n) if a != b]
names = [m["method"] for m in j["methods"]]
count = 0
for p in j["pairs"]:
    assert p["transport"].startswith("shared memory") and p["same_gpu"] is None
    seen = {}
    for r in p["results"]:
        count += 1
        key = r["method"], r["kind"], r["bytes"]
        assert key not in seen
        seen[key] = r
        t = r["time_us"]
        assert r["state"] == "measured" and r["wrong"] == 0 and r["iterations"] >= 1
        assert r["verified_samples"] == (0 if r["kind"] == "flag" else 2)
        assert 0 < t["min"] <= t["ci95_low"] <= t["median"] <= t["ci95_high"] <= t["max"] and t["n"] == 2
        if r["kind"] in ("flag", "message"):
            assert r["gbps"] is None
        else:
            assert abs(r["gbps"] - r["bytes"] / t["median"] / 1e3) <= 1e-6 * r["gbps"]
        told = n * (n - 1) // (2 if r["kind"] == "two_way" else 1) >= 5
        assert isinstance(r["outlier"], bool) == told == isinstance(r["score"], (int, float))
    fits = {f["method"]: f for f in p["fits"]}
    assert set(fits) >= {"store", "load", "mpi"}
    for f in fits.values():
        a, b = f["alpha_us"], f["beta_gbps"]
        assert f["pieces"] >= 1 and a["ci95_low"] <= a["value"] <= a["ci95_high"]
        assert b["value"] is None or b["value"] > 0
    both = {k for k in seen if k[1] == "two_way"}
    assert bool(both) == (p["from"] < p["to"])
    assert {b for m, k, b in seen if (m, k) == ("store", "one_way")} == {24, 192, 1536}
    assert {m for m, k, b in seen} == set(names)
    assert ("flag", "flag", 0) in seen and ("load", "message", 8) in seen and ("mpi", "message", 8) in seen
rows = list(csv.DictReader(open(sys.argv[2])))
assert len(rows) == count
assert all(None not in row and None not in row.values() for row in rows)
assert {row["state"] for row in rows} == {"measured"}
for row in rows:
    p = next(p for p in j["pairs"] if (p["from"], p["to"]) == (int(row["from"]), int(row["to"])))
    r = next(r for r in p["results"] if [r[k] for k in ("method", "kind")] == [row["method"], row["kind"]]
             and r["bytes"] == int(row["bytes"]))
    assert abs(float(row["time_us"]) - r["time_us"]["median"]) < 1e-4 and row["transport"] == p["transport"]
END
    ok $? "  JSON and CSV hold what docs/results.md says"
}

for ranks in 2 3 5; do
    exits 0 $ranks $quick --seed 5 -J "$work/x.json" --csv "$work/x.csv"
    check $ranks
done
exits 0 3 $quick --seed 5 --together -J "$work/x.json" --csv "$work/x.csv"
prints 'pairs that share no rank at once'
check 3
exits 0 4 $quick --seed 5 --together -J "$work/x.json" --csv "$work/x.csv"
check 4
# odd sizes, with bytes after the last whole word
exits 0 2 -M host --rounds 2 -b 1 -e 100 -f 3 --message 13
exits 1 2 $quick -J "$work/none/x.json"
says 'cannot write'
test ! -s "$work/out"
ok $? "  before anything is measured"
exits 0 2 $quick -J "$work/y.json"
test "$(find "$work" -name 'y.json*' | wc -l)" -eq 1
ok $? "  and leaves no temporary file"

# ---- Help, and options that cannot be used ----

exits 0 3 --help
test "$(grep -c 'Exit codes' "$work/out")" -eq 1
ok $? "  and prints the exit codes, once"
exits 0 2 --version
prints '^p2p_bench (Treering) [0-9]'
refused() { # refused TEXT ARGUMENT...
    text=$1
    shift
    exits 2 1 "$@"
    says "$text"
}
refused "unrecognized option '--bogus'" --bogus
refused "unexpected argument 'extra'" extra
refused "not '0'" -b 0
refused "not '12Q'" -e 12Q
refused "-b 1M is more than -e 1K" -b 1M -e 1K
refused "-f takes a whole number from 2" -f 1
refused "there is no method 'star'" -A store,star
refused "-A takes names" -A ,
refused "--message takes at most 1M" --message 2M
refused "--rounds takes" --rounds 0
refused "--timeout takes" --timeout nan
refused "-M: " -M tape
exits 4 1 -M host
says 'a pair takes two: run .mpirun -np 2 p2p_bench'
exits 4 2 -M host -A ce
says 'method ce is for cuda memory only'
exits 4 2 -M host -A LL -b 1M -e 1M --message 1M
says 'none of the methods asked for carries messages of these sizes'
exits 4 2 -M host -e 1024T
says 'the largest -e that fits is [0-9]'
SLURM_NTASKS=8 "$build/p2p_bench" >"$work/out" 2>"$work/err"
test $? -eq 4
ok $? "a launcher that counts 8 ranks where MPI has 1: exit code 4"

# ---- Wrong data, by an MPI that flips a byte: found, no speed, exit code 3 ----

if mpicc -shared -fPIC -o "$work/corrupt.so" "$(dirname "$0")/corrupt_p2p.c" >"$work/out" 2>"$work/err"; then
    timeout -k 10 150 mpirun --oversubscribe --bind-to none -n 2 -x LD_PRELOAD="$work/corrupt.so" "$build/p2p_bench" \
        $quick -A mpi,store -J "$work/x.json" >"$work/out" 2>"$work/err" </dev/null
    test $? -eq 3
    ok $? "an MPI that delivers wrong bytes: exit code 3"
    says 'wrong data: mpi, '
    prints 'wrong!'
    grep -A3 '^latency of a message, store' "$work/out" | grep -q 'wrong!'
    test $? -eq 1
    ok $? "  and the other method is not blamed"
else
    skip "an MPI that delivers wrong bytes" "no compiler for it"
fi

# ---- A rank that dies: the others end, with no file left behind ----

timeout -k 10 150 mpirun --oversubscribe --bind-to none -n 3 sh -c '
    if [ "$OMPI_COMM_WORLD_RANK" -eq 1 ]; then "$0" "$@" & sleep 2; kill -9 $!; wait $!; exit 9; fi
    exec "$0" "$@"' "$build/p2p_bench" -M host --rounds 1000 -J "$work/dead.json" >"$work/out" 2>"$work/err" </dev/null
got=$?
test $got -ne 0 && test $got -ne 124 && test $got -ne 137
ok $? "a rank that dies ends the run (exit code $got)"
test "$(find "$work" -name 'dead.json*' | wc -l)" -eq 0
ok $? "  and no file is left behind"

echo "1..$tests"

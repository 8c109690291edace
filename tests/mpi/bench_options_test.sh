#!/bin/sh
# bench_options_test.sh - the benches as a person runs them: good and bad options, exit codes, sentences, JSON and CSV,
# wrong data, and a rank that dies. Speaks TAP. Run from the build's root, or with TR_BUILD naming it; needs mpirun.
# $quick is a list of options, and the names in these folders are our own
# shellcheck disable=SC2086,SC2010
set -u

build=${TR_BUILD:-.}
source=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/bench_options.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

if [ "$(id -u)" -eq 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
# a launcher around this test is none of the benches'
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

launch() { # launch RANKS PROGRAM ARGUMENT...; one rank needs no launcher
    ranks=$1
    program=$2
    shift 2
    if [ "$ranks" -eq 1 ]; then
        timeout -k 10 150 "$build/$program" "$@" >"$work/out" 2>"$work/err" </dev/null
        return
    fi
    timeout -k 10 150 mpirun --oversubscribe --bind-to none -n "$ranks" "$build/$program" "$@" \
        >"$work/out" 2>"$work/err" </dev/null
}
exits() { # exits CODE RANKS PROGRAM ARGUMENT...: run and compare the exit code
    code=$1
    shift
    launch "$@"
    got=$?
    test "$got" -eq "$code"
    ok $? "$* exits with $code (got $got)"
}
says() { # says TEXT: stderr has it, once
    test "$(grep -c -e "$1" "$work/err")" -eq 1
    ok $? "  and says, once: $1"
}
prints() { # prints TEXT: stdout has it
    grep -q -e "$1" "$work/out"
    ok $? "  and prints: $1"
}
is_quiet() { # nothing on stdout
    test ! -s "$work/out"
    ok $? "  and starts no run"
}

quick='-M host --rounds 2 -n 2 -w 1'

# ---- Good options: the table, and elements that are all right ----

exits 0 2 allreduce_bench $quick -b 8 -e 64K -f 16
prints 'winner'
prints 'ours/mpi'
prints 'busbw = algbw x 2(n-1)/n'
grep -q ' wrong .*[1-9]' "$work/out"
test $? -eq 1
ok $? "  and nothing was wrong"
exits 0 3 allreduce_bench $quick -b 1 -e 200 -i 33 -d all -o all
exits 0 3 allreduce_bench $quick -b 64 -e 64 -d all -o all -I
exits 0 3 reduce_scatter_bench $quick -b 0 -e 300 -i 77 -d all -o all
exits 0 3 reduce_scatter_bench $quick -b 300 -e 300 -d all -o all -I
exits 0 3 allgather_bench $quick -b 0 -e 300 -i 77 -d all
exits 0 3 allgather_bench $quick -b 300 -e 300 -d all -I
exits 0 1 allreduce_bench $quick -b 8 -e 8
prints 'busbw .*n\.a\.'
exits 0 2 allreduce_bench $quick -b 0 -e 0
prints 'winner n\.a\.'
exits 0 2 allreduce_bench $quick -b 3 -e 3 # less than an f32
prints 'winner n\.a\.'
exits 0 2 allreduce_bench $quick -b 1K -e 1K -B plain -A ring,auto,mpi -p LL,direct
prints 'ring/LL'
exits 0 2 allreduce_bench $quick -b 1000 -e 1000 -d f64,float
prints ' *1000  *1000  *125 us'
exits 0 2 reduce_scatter_bench $quick -b 1001 -e 1001
prints ' *1001  *1000  *125 us'
exits 0 2 allreduce_bench $quick -b 8 -e 8 -v
prints 'rank 1 on .*bound to .*MiB host'
prints 'too few samples for 95%'
prints 'rank 1 enters .* after the first rank'
exits 0 2 allreduce_bench $quick -b 8 -e 8 --seed 12345 --channels 1
prints -- '--seed 12345$'
prints 'ring/x1'
exits 0 2 allreduce_bench $quick -b 8 -e 2K -f 16 -A ring,tree,auto
prints 'ring .* off by .* in the median'
prints ' 8 to 2K, alpha .* us, beta .* GB/s, m_1/2 .* KiB'
prints '^# regret of auto: .* over 3 sizes'
exits 0 2 allreduce_bench $quick -b 8 -e 4M -f 524288 -A ring -p LL -v # 4 MiB is more than LL carries: the anchor's, too
prints '^#   ring/LL .* not served: '
exits 0 2 allreduce_bench $quick -b 8 -e 16
prints '^# no fit .* at least 3 sizes'

# ---- Help and version: on standard output, once, and no run ----

exits 0 3 allreduce_bench --help
prints 'Exit codes'
test "$(grep -c 'Exit codes' "$work/out")" -eq 1
ok $? "  once, for 3 ranks"
exits 0 2 reduce_scatter_bench -h
prints 'Exit codes'
exits 0 2 allgather_bench --version
prints '^allgather_bench (Treering) [0-9]'
"$build/allreduce_bench" --help >/dev/full 2>"$work/err"
test $? -eq 1
ok $? "--help on a full standard output: exit code 1"
says 'cannot write to standard output'

# ---- Unusable options: a sentence, exit code 2, no run ----

refused() { # refused TEXT PROGRAM ARGUMENT...
    text=$1
    shift
    exits 2 "${ranks_refused:-1}" "$@"
    says "$text"
    is_quiet
}
ranks_refused=3 refused "not '0'" allreduce_bench -n 0
refused "unrecognized option '--bogus'" allreduce_bench --bogus
refused "invalid option -- 'y'" allreduce_bench -y
refused "requires an argument" allreduce_bench -b
refused "unexpected argument 'extra'" allreduce_bench extra
refused "not '12Q'" allreduce_bench -b 12Q
refused "not '-8'" allreduce_bench -e -8
refused "not '1.5M'" allreduce_bench -e 1.5M
refused "not '99999999999999999999'" allreduce_bench -e 99999999999999999999
refused "not '17179869184G'" allreduce_bench -e 17179869184G
refused "-b 1M is more than -e 1K" allreduce_bench -b 1M -e 1K
refused "-b 0 never grows" allreduce_bench -b 0
refused "-i 0 would never" allreduce_bench -i 0
refused "-f takes a whole number from 2" allreduce_bench -f 1
refused "give one of them" allreduce_bench -i 8 -f 2
refused "-w takes" allreduce_bench -w -1
refused "-c takes" allreduce_bench -c x
refused "-z takes 0 or 1" allreduce_bench -z 2
refused "-G needs GPU memory" allreduce_bench -M host -G 1
refused "-d: " allreduce_bench -d f99
refused "-o: " allreduce_bench -o xor
refused "has no operation" allgather_bench -o sum
refused "-A: " allreduce_bench -A ring,star
refused "not ','" allreduce_bench -A ,
refused "-p: " allreduce_bench -p LL256
refused "-M: " allreduce_bench -M tape
refused "-B takes" allreduce_bench -B huge
refused "--timeout takes" allreduce_bench --timeout nan
refused "--time-limit takes" allreduce_bench --time-limit 0
refused "--ci takes a share" allreduce_bench --ci 0%
refused "--ci takes a share" allreduce_bench --ci 5x
refused "--drift takes a share" allreduce_bench --drift nan
refused "--tolerance compares with a baseline" allreduce_bench --tolerance 5%
refused "--seed takes" allreduce_bench --seed -1
refused "--seed takes" allreduce_bench --seed 9007199254740992
refused "--channels takes a whole number" allreduce_bench --channels 1,0
refused "--channels takes at most 16" allreduce_bench --channels 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17
refused "--channels needs GPU memory" allreduce_bench -M host --channels 1,2

# ---- Ranks that were given different options ----

differ() { # differ TEXT: stderr says so, once, and nothing ran
    test $? -eq 2
    ok $? "ranks given different options exit with 2"
    says "$1"
    is_quiet
}
each() { # each N PROGRAM ARGUMENT... : ...: one mpirun
    timeout -k 10 150 mpirun --oversubscribe --bind-to none -n "$@" >"$work/out" 2>"$work/err" </dev/null
}
each 1 "$build/allreduce_bench" $quick -b 8 : -n 2 "$build/allreduce_bench" $quick -b 16
differ '-b is not the same on rank 0 and on rank 1 (ranks that differ from rank 0: 1,2)'
each 2 "$build/allreduce_bench" $quick : -n 1 "$build/allreduce_bench" $quick -A ring
differ '-A is not the same on rank 0 and on rank 2'
each 1 "$build/allreduce_bench" $quick : -n 1 "$build/allgather_bench" $quick
differ 'the program is not the same'
each 1 "$build/allreduce_bench" $quick : -n 1 "$build/allreduce_bench" -b 12Q
differ "not '12Q'"

# ---- What this machine cannot run: exit code 4 ----

exits 4 2 allreduce_bench -M host -A nccl
says 'needs cuda memory'
exits 4 2 allreduce_bench $quick -b 8 -e 8 -p LL128
says '-p LL128: none of our algorithms'
exits 0 2 allreduce_bench $quick -b 8 -e 8 -A ring,mpi -p LL,LL128
prints '^# note: -p LL128: none of our algorithms'
exits 0 2 allreduce_bench $quick -b 8 -e 8 -A mpi -p LL128
exits 4 2 allreduce_bench -M host -e 1024T
says 'the largest -e that fits is [0-9]'
SLURM_NTASKS=8 "$build/allreduce_bench" >"$work/out" 2>"$work/err"
test $? -eq 4
ok $? "a launcher that counts 8 ranks where MPI has 1: exit code 4"
says 'mpirun -np 8 allreduce_bench'

# ---- Files: complete or not at all, typed, with named columns; an unwritable path is noticed before the run ----

exits 1 2 allreduce_bench $quick -e 8 -J "$work/none/x.json"
says 'cannot write'
is_quiet
exits 1 2 allreduce_bench $quick -e 8 --csv "$work/none/x.csv"
is_quiet

check() { # check WHAT ARGUMENT...: the Python program on standard input, with modules and helpers
    what=$1
    shift
    if command -v python3 >/dev/null; then
        {
            echo 'import csv, json, math, sys'
            cat
        } | python3 - "$@" >"$work/out" 2>"$work/err"
        ok $? "$what"
    else
        cat >/dev/null
        skip "$what" "no python3"
    fi
}

exits 0 2 allreduce_bench $quick -b 8 -e 4K -f 8 --seed 77 -J "$work/x.json" --csv "$work/x.csv"
check "  JSON and CSV hold what docs/results.md says" "$work/x.json" "$work/x.csv" <<'END'
j = json.load(open(sys.argv[1]))
assert j["schema"] == "treering-bench" and j["schema_version"] == 2
assert j["nranks"] == 2 and len(j["ranks"]) == 2 and j["environment"]["cpus_online"] >= 1
assert all(k.startswith(("NCCL_", "TREERING_", "CUDA_", "OMPI_COMM_WORLD_", "OMPI_MCA_", "OMP_", "UCX_", "MALLOC_"))
           or k in ("LD_PRELOAD", "GLIBC_TUNABLES", "NVIDIA_VISIBLE_DEVICES")
           for k in j["environment"]["variables"])
assert j["environment"]["variables"]["OMPI_COMM_WORLD_SIZE"] == "2"
assert j["sampling"]["seed"] == 77 and j["sampling"]["batch"] == "calls" and j["sampling"]["ci_target"] is None
for r in j["ranks"]:
    assert r["cpus_allowed"] and r["numa_node"] >= 0 and r["entry_late_us"]["median"] >= 0
    assert r["entry_late_us"]["uncertainty"] == 0  # one clock
assert any(r["entry_late_us"]["max"] > 0 for r in j["ranks"])
assert [p["requested_bytes"] for p in j["points"]] == [8, 64, 512, 4096]
anchors = j["anchors"]["measured"]
assert len(anchors) >= 2 and anchors[0]["drift"] == 0 and not anchors[0]["moved"]
assert [t["bytes"] for t in anchors[0]["time_us"]] == [8, 4096]
for a in anchors:
    assert a["moved"] <= (a["drift"] > j["anchors"]["threshold"]) and a["gpus"] is None
    assert all(t["n"] == 7 and t["ci95_low"] <= t["median"] <= t["ci95_high"] for t in a["time_us"])
for p in j["points"]:
    before, after = anchors[p["anchor_before"]], anchors[p["anchor_after"]]
    assert before["at_s"] <= p["began_s"] <= after["at_s"]
    assert p["drifted"] is (before["moved"] or after["moved"]) and p["drift"] == max(before["drift"], after["drift"])
    for r in p["results"]:
        assert r["peer"] is (r["contender"] == "mpi")
        if r["state"] == "measured":
            t = r["time_us"]
            assert 0 < t["min"] <= t["p5"] <= t["median"] <= t["p95"] <= t["p99"] <= t["max"] and t["n"] == 2
            assert t["ci_level"] == 0.5 and (t["ci95_low"], t["ci95_high"]) == (t["min"], t["max"])
            assert r["converged"] is False and r["ci_share"] is None  # two samples have no interval of 95%
            assert r["entry_skew_us"]["n"] == 2 and r["graph_launches"] == 0
            assert r["wrong"] == 0 and r["verified_iterations"] == 2
            assert abs(r["algbw_gbps"] - p["bytes"] / t["median"] / 1e3) <= 1e-6 * r["algbw_gbps"]
            assert abs(r["busbw_gbps"] - r["algbw_gbps"]) <= 1e-6 * r["algbw_gbps"]  # 2(n-1)/n = 1
    regret, median = p["regret"], {r["contender"]: r["time_us"]["median"] for r in p["results"]}
    ours = min(median[r["contender"]] for r in p["results"] if not r["peer"] and r["contender"] != "auto")
    assert 0 <= regret["low"] <= regret["value"] and regret["auto_is_best"] is (regret["value"] == 0)
    assert regret["best_other"] != "auto" and regret["best_us"] <= regret["auto_us"]
    if regret["value"] > 0:
        assert abs(regret["auto_us"] / regret["best_us"] - 1 - regret["value"]) < 1e-6
assert {f["contender"] for f in j["fits"]} == {r["contender"] for r in j["points"][0]["results"]}
for f in j["fits"]:
    assert f["npoints"] == 4 and f["why"] is None and len(f["segments"]) >= 1 and len(f["residuals"]) == 4
    assert f["segments"][0]["alpha_us"]["low"] <= f["segments"][0]["alpha_us"]["value"]
    assert abs(max(abs(r["residual"]) for r in f["residuals"]) - f["largest_residual"]) < 1e-6
[regret] = j["regret"]
assert regret["npoints"] == 4 and regret["worst"] == max(p["regret"]["value"] for p in j["points"])
assert j["baseline"] is None
rows = list(csv.DictReader(open(sys.argv[2])))
assert len(rows) == sum(len(p["results"]) for p in j["points"])
assert all(None not in row and None not in row.values() for row in rows)
assert sum(int(row["winner"]) for row in rows) == len(j["points"])
assert all(row["busbw_gbps"] and row["seed"] == "77" and row["ci_share"] == "" for row in rows)
assert all((row["regret"] != "") is (row["contender"] == "auto") for row in rows)
END

exits 0 1 allreduce_bench $quick -b 8 -e 8 -J "$work/one.json" --csv "$work/one.csv"
check "  with one rank there is no busbw" "$work/one.json" "$work/one.csv" <<'END'
assert all(r["busbw_gbps"] is None for p in json.load(open(sys.argv[1]))["points"] for r in p["results"])
assert all(row["busbw_gbps"] == "" and row["algbw_gbps"] for row in csv.DictReader(open(sys.argv[2])))
END

# ---- How many samples ----

exits 0 2 allreduce_bench -M host -A ring,mpi -b 8 -e 8 --ci 1000% --time-limit 20 -J "$work/loose.json"
exits 0 2 allreduce_bench -M host -A ring,mpi -b 8 -e 8 --ci 0.0001% --time-limit 0.1 -J "$work/strict.json"
exits 0 3 allreduce_bench -M host -A ring,mpi -b 64 -e 64 -I --rounds 7 -J "$work/in_place.json"
check "  samples are taken until the medians are known, or the time is up" "$work"/loose.json "$work"/strict.json \
    "$work"/in_place.json <<'END'
loose, strict, in_place = (json.load(open(f))["points"][0] for f in sys.argv[1:])
looks = [6]
while looks[-1] < 10**7:
    looks.append(looks[-1] + 1 + looks[-1] // 4)
assert loose["rounds"] in looks and all(r["converged"] for r in loose["results"])
assert strict["rounds"] >= 3 and not all(r["converged"] for r in strict["results"])
assert in_place["rounds"] == 7
for p, target in ((loose, 10), (strict, 1e-6), (in_place, 0.02)):
    for r in p["results"]:
        t = r["time_us"]
        assert t["n"] == p["rounds"] and r["verified_iterations"] == 2
        assert (t["ci_level"] >= 0.95) is (t["n"] >= 6)
        share = (t["ci95_high"] - t["ci95_low"]) / 2 / t["median"]
        assert r["ci_share"] is None if t["n"] < 6 else abs(r["ci_share"] - share) < 1e-6 * (1 + share)
        assert r["converged"] is (r["ci_share"] is not None and r["ci_share"] <= target)
END

# ---- A baseline: times so much shorter and longer that no stall of a busy machine matters ----

exits 0 2 allreduce_bench $quick -b 8 -e 512 -f 8 -A ring,auto --rounds 7 -J "$work/now.json"
check "  and makes baselines" "$work" <<'END'
def scaled(factor, **change):
    j = json.load(open(sys.argv[1] + "/now.json"))
    j.update(change)
    for p in j["points"]:
        for r in p["results"]:
            for k in r["time_us"]:
                if k not in ("n", "ci_level"):
                    r["time_us"][k] *= factor
    return j
for name, j in (("shorter", scaled(1e-9)), ("longer", scaled(1e8)), ("ranks", scaled(1, nranks=3)),
                ("gather", scaled(1, collective="allgather"))):
    json.dump(j, open(sys.argv[1] + "/" + name + ".json", "w"))
END
against() { # against BASELINE CODE OPTION...
    baseline=$1
    code=$2
    shift 2
    exits "$code" 2 allreduce_bench $quick -b 8 -e 512 -f 8 -A ring,auto --rounds 7 --baseline "$work/$baseline" "$@"
}
if [ -e "$work/longer.json" ]; then
    against longer.json 0 -J "$work/faster.json"
    prints '6 medians compared, 6 faster and 0 slower by more than 10%'
    against shorter.json 5 -J "$work/slower.json"
    says 'slower than the baseline at 6 points: ring at 8 took .* us, in the baseline .* us'
    prints '^# slower: auto at 64 of f32 sum: .* us \[.*\], baseline .* us \[.*\], +'
    check "  and JSON has both" "$work/faster.json" "$work/slower.json" <<'END'
faster, slower = (json.load(open(f))["baseline"] for f in sys.argv[1:])
assert faster["compared"] == slower["compared"] == faster["faster"] == 6 and faster["slower"] == []
assert faster["statistic"] == "median" and faster["tolerance"] == 0.1
assert [(s["bytes"], s["contender"]) for s in slower["slower"]] == [(b, c) for b in (8, 64, 512) for c in ("ring", "auto")]
assert all(s["median_us"] > 10 * s["baseline_us"] > 0 for s in slower["slower"])
END
    against ranks.json 4
    says 'its number of ranks is 3'
    is_quiet
    against gather.json 4
    says 'its collective is allgather'
    against now.json 4 -b 16 -e 16
    says 'no size, datatype, operation and contender in common'
    is_quiet
    against now.json 4 -I
    says 'its -I (in place) is no'
else
    skip "baselines" "no python3"
fi
against none.json 1
says 'cannot read .*none.json'
is_quiet
echo '{"schema": "treering-bench",' >"$work/cut.json"
against cut.json 1
says 'cut.json:[0-9]'

# ---- Progress: on a terminal, nowhere else ----

line="$(printf '\r\033\\[K')allreduce_bench f32 sum: size"
if command -v script >/dev/null; then
    script -qec "$build/allreduce_bench -M host -A ring -b 8 -e 8 --ci 0.0001% --time-limit 1" /dev/null \
        >"$work/out" 2>"$work/err" </dev/null
    grep -q "$line 8 (1 of 1)" "$work/out"
    ok $? "progress is shown on a terminal"
    script -qec "mpirun --oversubscribe --bind-to none -n 2 $build/allreduce_bench -M host -A ring -b 8 -e 8 \
        --ci 0.0001% --time-limit 1" /dev/null >"$work/out" 2>"$work/err" </dev/null
    grep -q "$line 8 (1 of 1)" "$work/out"
    ok $? "  and through mpirun"
    script -qec "mpirun --oversubscribe --bind-to none -n 2 $build/allreduce_bench -M host -A ring -b 8 -e 8 \
        --ci 0.0001% --time-limit 1 2>$work/err" /dev/null >"$work/out" </dev/null
    ! grep -q "$line" "$work/out" "$work/err"
    ok $? "  and not where standard error is a file"
else
    skip "progress is shown on a terminal" "no script"
fi
exits 0 2 allreduce_bench -M host -A ring -b 8 -e 8 --ci 0.0001% --time-limit 1
! grep -q "$line" "$work/out" "$work/err"
ok $? "  nor where neither is a terminal"

test "$(ls "$work" | grep -c tmp)" -eq 0
ok $? "  and no temporary file is left"

mkdir "$work/folder"
exits 1 2 allreduce_bench $quick -b 8 -e 8 -J "$work/folder"
says 'Is a directory'
is_quiet
ln -s nowhere "$work/dangling"
exits 1 2 allreduce_bench $quick -b 8 -e 8 -J "$work/dangling"
says 'cannot write'
echo old >"$work/folder/behind.json"
ln -s folder/behind.json "$work/link.json"
exits 0 2 allreduce_bench $quick -b 8 -e 8 -J "$work/link.json"
test -h "$work/link.json" && grep -q treering-bench "$work/folder/behind.json" && test "$(ls "$work/folder")" = behind.json
ok $? "  a link stays one, and its target is replaced"
mkfifo "$work/fifo"
timeout 150 cat "$work/fifo" >"$work/through.csv" &
reader=$!
exits 0 2 allreduce_bench $quick -b 8 -e 8 --csv "$work/fifo"
wait $reader
test -p "$work/fifo" && grep -q '^collective,' "$work/through.csv" && grep -q '^allreduce,' "$work/through.csv"
ok $? "  a FIFO stays one, and is written to"

"$build/allreduce_bench" $quick -e 8 >/dev/full 2>"$work/err"
test $? -eq 1
ok $? "a full standard output: exit code 1"
says 'cannot write the table'

# ---- Wrong data: an MPI whose all-reduce puts a NaN into its result ----

if ${MPICC:-mpicc} -shared -fPIC -o "$work/corrupt.so" "$source/corrupt_mpi.c" 2>"$work/err"; then
    timeout 150 mpirun --oversubscribe --bind-to none -n 2 -x LD_PRELOAD="$work/corrupt.so" "$build/allreduce_bench" \
        $quick -b 64 -e 64 -A ring,mpi -J "$work/wrong.json" >"$work/out" 2>"$work/err" </dev/null
    test $? -eq 3
    ok $? "wrong elements: exit code 3"
    says 'wrong data: mpi left 4 wrong elements at 64 bytes of f32 sum'
    prints ' us .* wrong$'
    prints 'winner ring'
    grep -q '"wrong": 4' "$work/wrong.json"
    ok $? "  and JSON counts them"
else
    skip "wrong elements: exit code 3" "mpicc does not build a shared library"
fi

# ---- A rank that dies takes the others with it, and leaves nothing behind ----

environment_has() { # environment_has PID VARIABLE=VALUE
    tr '\0' '\n' 2>/dev/null <"/proc/$1/environ" | grep -qx "$2"
}
pid_of_rank() { # pid_of_rank RANK: of the job under way, which alone names $work in its command line
    for pid in $(pgrep -f "allreduce_bench .*$work/dead.json"); do
        if environment_has "$pid" "OMPI_COMM_WORLD_RANK=$1"; then
            echo "$pid"
        fi
    done
}
none_left() { # no process of the job
    ! pgrep -f "allreduce_bench .*$work/dead.json" >/dev/null
}
start_doomed() { # start_doomed ALGORITHM OPTION...: of mpirun; sets launcher
    algorithm=$1
    shift
    : >"$work/out"
    timeout -k 10 150 mpirun "$@" --oversubscribe --bind-to none -n 3 "$build/allreduce_bench" -M host -A "$algorithm" \
        -b 1M -e 1M -n 1000 --rounds 1000000 -J "$work/dead.json" >"$work/out" 2>"$work/err" </dev/null &
    launcher=$!
    tries=0
    while ! grep -q '^# ours/peer' "$work/out" && [ $tries -lt 120 ]; do
        sleep 0.25
        tries=$((tries + 1))
    done
    sleep 1
}

start_doomed ring
victim=$(pid_of_rank 2)
[ -n "$victim" ] && kill -9 "$victim"
wait $launcher
test $? -eq 137
ok $? "a rank that was killed ends the run"
sleep 1
test ! -e "$work/dead.json" && test "$(ls "$work" | grep -c tmp)" -eq 0
ok $? "  no file is half written"
none_left
ok $? "  no process is left"

# once all survivors wait in the library, once in MPI, which would wait for ever
for algorithm in ring mpi; do
    start_doomed $algorithm --enable-recovery
    victim=$(pid_of_rank 2)
    [ -n "$victim" ] && kill -9 "$victim"
    tries=0
    while ! none_left && [ $tries -lt 80 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    none_left
    ok $? "$algorithm: a rank was killed and mpirun ends no other: they end by themselves, within 8 s"
    wait $launcher
    test "$(grep -c "^allreduce_bench: .*rank 2 (pid $victim" "$work/err")" -eq 2
    ok $? "  and each says which rank died"
    test ! -e "$work/dead.json" && test "$(ls "$work" | grep -c tmp)" -eq 0
    ok $? "  no file is half written"
done

echo "1..$tests"

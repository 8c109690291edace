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

exits 0 2 allreduce_bench $quick -b 8 -e 4K -f 8 -J "$work/x.json" --csv "$work/x.csv"
if command -v python3 >/dev/null; then
    python3 - "$work/x.json" "$work/x.csv" >"$work/out" 2>"$work/err" <<'END'
import csv, json, sys
j = json.load(open(sys.argv[1]))
assert j["schema"] == "treering-bench" and j["schema_version"] == 1
assert j["nranks"] == 2 and len(j["ranks"]) == 2 and j["environment"]["cpus_online"] >= 1
assert set(j["environment"]["variables"]) <= {"OMPI_COMM_WORLD_SIZE", "CUDA_VISIBLE_DEVICES", "SLURM_NTASKS"} or all(
    k.startswith(("NCCL_", "TREERING_", "CUDA_")) or k == "OMPI_COMM_WORLD_SIZE" for k in j["environment"]["variables"])
assert [p["requested_bytes"] for p in j["points"]] == [8, 64, 512, 4096]
for p in j["points"]:
    for r in p["results"]:
        assert r["peer"] is (r["contender"] == "mpi")
        if r["state"] == "measured":
            t = r["time_us"]
            assert 0 < t["min"] <= t["median"] <= t["max"] and t["n"] == 2
            assert r["wrong"] == 0 and r["verified_iterations"] == 2
            assert abs(r["algbw_gbps"] - p["bytes"] / t["median"] / 1e3) <= 1e-6 * r["algbw_gbps"]
            assert abs(r["busbw_gbps"] - r["algbw_gbps"]) <= 1e-6 * r["algbw_gbps"]  # 2(n-1)/n = 1
rows = list(csv.DictReader(open(sys.argv[2])))
assert len(rows) == sum(len(p["results"]) for p in j["points"])
assert all(None not in row and None not in row.values() for row in rows)
assert sum(int(row["winner"]) for row in rows) == len(j["points"])
END
    ok $? "  JSON and CSV hold what docs/results.md says"
else
    skip "  JSON and CSV hold what docs/results.md says" "no python3"
fi
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
start_doomed() { # start_doomed OPTION...: of mpirun; sets launcher
    : >"$work/out"
    timeout -k 10 150 mpirun "$@" --oversubscribe --bind-to none -n 3 "$build/allreduce_bench" -M host -A ring \
        -b 1M -e 1M -n 1000 --rounds 1000000 -J "$work/dead.json" >"$work/out" 2>"$work/err" </dev/null &
    launcher=$!
    tries=0
    while ! grep -q '^# ours/peer' "$work/out" && [ $tries -lt 120 ]; do
        sleep 0.25
        tries=$((tries + 1))
    done
    sleep 1
}

start_doomed
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

start_doomed --enable-recovery
victim=$(pid_of_rank 2)
[ -n "$victim" ] && kill -9 "$victim"
tries=0
while ! none_left && [ $tries -lt 80 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
none_left
ok $? "a rank was killed and mpirun ends no other: they end by themselves, within 8 s"
wait $launcher
test "$(grep -c "^allreduce_bench: .*rank 2 (pid $victim" "$work/err")" -eq 2
ok $? "  and each says which rank died"
test ! -e "$work/dead.json" && test "$(ls "$work" | grep -c tmp)" -eq 0
ok $? "  no file is half written"

echo "1..$tests"

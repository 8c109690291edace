#!/bin/bash
# doctor_test.sh - `treering doctor` on CPU ranks: a healthy launch, and faults that are really made. Each fault has its
# row, says what to do, and gives the exit code. Speaks TAP. Run from the build's root, or with TR_BUILD naming it; needs
# Open MPI; namespaces need root (unshare), and what cannot be made is skipped.
set -u

build=${TR_BUILD:-.}
source=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/doctor.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

if [ "$(id -u)" -eq 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
# a launcher around this test is none of the doctor's, and lines are as long as they get
unset "${!OMPI_COMM_WORLD_@}" "${!PMI_@}" "${!SLURM_@}" TREERING_HOST_ID CUDA_MPS_PIPE_DIRECTORY
export COLUMNS=2000

tests=0 failures=0
ok() { # ok STATUS WHAT: 0 passes
    tests=$((tests + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $tests - $2"
    else
        failures=$((failures + 1))
        echo "not ok $tests - $2"
        sed 's/^/# out: /' "$work/out" | cut -c 1-400 | head -40
        sed 's/^/# err: /' "$work/err" | head -20
    fi
}
skip() { # skip WHAT WHY
    tests=$((tests + 1))
    echo "ok $tests - $1 # SKIP $2"
}

run() { # run RANKS COMMAND...: under mpirun; prints the exit code
    local ranks=$1
    shift
    timeout -k 10 120 mpirun --oversubscribe --bind-to none -n "$ranks" "$@" >"$work/out" 2>"$work/err" </dev/null
    echo $?
}
row() { # row TITLE VERDICT TEXT: the row of that title has the verdict and the text
    grep -q -E -e "^$1 +$2 +.*$3" "$work/out"
    ok $? "  row '$1' is '$2' and says: $3"
}
advises() { # advises TITLE TEXT: below the row of that title
    grep -A 1 -E -e "^$1 " "$work/out" | tail -1 | grep -q -E -e "-> .*$2"
    ok $? "  and what to do: $2"
}
is_valid_json() { # the output is JSON with the fields of docs/doctor.md
    python3 "$source/doctor_json.py" "$work/out" "$@" 2>"$work/err"
}

mpirun --version 2>/dev/null | grep -q 'Open MPI' || {
    echo "1..0 # SKIP mpirun is not Open MPI's"
    exit 0
}
doctor=("$build/treering" doctor)

# ---- Healthy ----

[ "$(run 2 "${doctor[@]}")" -eq 0 ]
ok $? "two ranks: exit code 0"
row launcher ok 'MPI has 2 ranks'
row 'shared memory' ok 'every ordered pair'
row transport ok 'shared memory between 2'
! grep -q problem <(sed '$d' "$work/out")
ok $? "  and no problem"
"${doctor[@]}" >"$work/out" 2>"$work/err" </dev/null
ok $? "one rank without a launcher: exit code 0"
row transport 'n\.a\.' 'one rank'
[ "$(run 3 "${doctor[@]}" --json)" -eq 0 ]
ok $? "--json: exit code 0"
is_valid_json 3 0
ok $? "  and valid, by docs/doctor.md"

# ---- Options ----

"${doctor[@]}" --help >"$work/out" 2>"$work/err" && grep -q 'Exit codes' "$work/out"
ok $? "--help"
for option in --bogus '-t x' '-t 0' '-t nan' extra; do
    # shellcheck disable=SC2086 # an option and its argument
    "${doctor[@]}" $option >"$work/out" 2>"$work/err"
    [ $? -eq 2 ] && [ -s "$work/err" ] && [ ! -s "$work/out" ]
    ok $? "$option: exit code 2, a sentence, no run"
done
"${doctor[@]}" >/dev/full 2>"$work/err"
[ $? -eq 1 ] && grep -q 'cannot write to standard output' "$work/err"
ok $? "a full standard output: exit code 1, and a sentence"

# ---- The launcher says otherwise ----

OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_RANK=0 "${doctor[@]}" >"$work/out" 2>"$work/err" </dev/null
[ $? -eq 4 ]
ok $? "mpirun of another MPI: exit code 4"
row launcher problem 'started 8 ranks .OMPI_COMM_WORLD_SIZE=8. but MPI has 1'
advises launcher 'mpirun -np 8 treering doctor'
OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_RANK=5 "${doctor[@]}" >"$work/out" 2>"$work/err" </dev/null
[ $? -eq 4 ] && [ ! -s "$work/out" ]
ok $? "  of which only one rank speaks"
SLURM_PROCID=0 SLURM_NTASKS=4 "${doctor[@]}" --json >"$work/out" 2>"$work/err" </dev/null
[ $? -eq 4 ]
ok $? "srun without PMIx: exit code 4"
is_valid_json 1 4 launcher=problem
ok $? "  in JSON too"

# ---- Two hosts ----

cat >"$work/two_hosts" <<'EOF'
#!/bin/sh
[ "$OMPI_COMM_WORLD_RANK" -lt 2 ] || export TREERING_HOST_ID=other
exec "$@"
EOF
cat >"$work/own_pids" <<'EOF'
#!/bin/sh
[ "$OMPI_COMM_WORLD_RANK" = 1 ] && exec unshare --pid --fork --mount-proc "$@"
exec "$@"
EOF
cat >"$work/another_name" <<'EOF'
#!/bin/sh
[ "$OMPI_COMM_WORLD_RANK" = 1 ] && exec unshare --uts sh -c 'hostname elsewhere && exec "$@"' sh "$@"
exec "$@"
EOF
chmod +x "$work"/two_hosts "$work"/own_pids "$work"/another_name
[ "$(run 3 "$work/two_hosts" "${doctor[@]}")" -eq 4 ]
ok $? "ranks on two hosts: exit code 4"
row hosts problem 'rank 2 on .*other'
row hosts problem 'a communicator serves one host'
advises hosts 'start all ranks on one host'
row transport problem 'none between 4, shared memory between 2'
grep -q -E '^ +1 +shm +\. +!!$' "$work/out"
ok $? "  and the matrix says how rank 1 reaches the others"
[ "$(run 3 "$work/two_hosts" "$build/tests/mpi/doctor_quick")" -eq 4 ]
ok $? "  which the quick checks find too"
grep -q 'hosts: rank 2 on .*start all ranks on one host' "$work/out"
ok $? "  and say"
[ "$(run 2 "$build/tests/mpi/doctor_quick")" -eq 0 ]
ok $? "  while a healthy launch passes them"

# ---- GPUs of a task's own ----

export SLURM_GPUS_PER_TASK=1
run 2 "${doctor[@]}" >"$work/code"
row 'GPU binding' '(warning|problem)' 'SLURM_GPUS_PER_TASK=1'
advises 'GPU binding' '--gpus-per-node=N --gpu-bind=none'
export SLURM_GPU_BIND=none
run 2 "${doctor[@]}" >"$work/code"
row 'GPU binding' '(ok|n\.a\.)' ''
export SLURM_GPU_BIND=verbose,map_gpu:0,1
run 2 "${doctor[@]}" >"$work/code"
row 'GPU binding' '(warning|problem)' 'SLURM_GPU_BIND=verbose,map_gpu:0,1'
unset SLURM_GPUS_PER_TASK SLURM_GPU_BIND

# ---- MPS: a socket that nobody listens at, and one that somebody does ----

mkdir "$work/mps"
export CUDA_MPS_PIPE_DIRECTORY=$work/mps
python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).bind(sys.argv[1])' "$work/mps/control"
"${doctor[@]}" >"$work/out" 2>"$work/err" </dev/null
row MPS warning 'no MPS daemon answers'
advises MPS 'nvidia-cuda-mps-control -d'
rm "$work/mps/control"
python3 - "$work/mps/control" "$work/listens" <<'EOF' &
import socket, sys, time
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(sys.argv[1])
listener.listen()
open(sys.argv[2], "w").close()
time.sleep(120)
EOF
daemon=$!
until [ -e "$work/listens" ] || ! kill -0 $daemon 2>/dev/null; do sleep 0.1; done
"${doctor[@]}" >"$work/out" 2>"$work/err" </dev/null
row MPS ok 'control socket in'
kill $daemon
wait $daemon 2>/dev/null
unset CUDA_MPS_PIPE_DIRECTORY

# ---- Limits ----

(ulimit -l 0 && run 2 "${doctor[@]}") >"$work/code"
row 'locked memory' warning 'limit 0 B'
advises 'locked memory' 'ulimit -l unlimited'
run "$(($(nproc) + 1))" "${doctor[@]}" >"$work/code"
[ "$(cat "$work/code")" -eq 0 ]
ok $? "more ranks than CPUs: exit code 0"
row CPUs warning 'take turns'
advises CPUs 'run at most'
timeout 120 mpirun --oversubscribe --bind-to none -n 2 taskset -c "$(taskset -cp $$ | grep -o '[0-9]*$')" "${doctor[@]}" \
    >"$work/out" 2>"$work/err" </dev/null
if [ "$(nproc --all)" -gt 1 ]; then
    row affinity warning '2 ranks are bound to CPU'
    advises affinity '--bind-to core'
else
    skip "two ranks bound to one CPU" "there is but one"
fi

# ---- Namespaces ----

if unshare --mount --pid --fork --mount-proc true 2>/dev/null; then
    cat >"$work/small_shm" <<'EOF'
mount -t tmpfs -o size=64K tmpfs /dev/shm && exec timeout -k 10 120 mpirun --oversubscribe --bind-to none -n 2 "$@"
EOF
    unshare --mount sh "$work/small_shm" "${doctor[@]}" >"$work/out" 2>"$work/err" </dev/null
    [ $? -eq 4 ]
    ok $? "64 KiB of /dev/shm: exit code 4"
    row '/dev/shm' problem '64 KiB of 64 KiB free; MPI may take 8.0 MiB'
    advises '/dev/shm' '--shm-size=1g'

    [ "$(run 3 "$work/own_pids" "${doctor[@]}")" -eq 4 ]
    ok $? "a rank in a PID namespace of its own: exit code 4"
    row 'PID namespace' problem 'rank 1 on .* another PID namespace'
    advises 'PID namespace' '--pid=host'
    row 'shared memory' problem '4 of 6 ordered pairs fail, rank 0 to rank 1: cannot open'
    advises 'shared memory' '--pid=host'
    [ "$(run 3 "$work/own_pids" "$build/tests/mpi/doctor_quick")" -eq 4 ]
    ok $? "  which the quick checks find too"

    [ "$(run 2 "$work/another_name" "${doctor[@]}")" -eq 4 ]
    ok $? "a rank whose host has another name: exit code 4"
    row hosts problem 'rank 1 on elsewhere'

    run 2 unshare --ipc "${doctor[@]}" >"$work/code"
    row 'IPC namespace' warning 'rank 1 on .* another IPC namespace'
    advises 'IPC namespace' '--ipc=host'
else
    skip "namespaces" "unshare is not allowed here"
fi

# ---- A driver that hangs when CUDA is brought up, on one rank ----

mkdir "$work/driver"
cat >"$work/hung_driver" <<EOF
#!/bin/sh
[ "\$OMPI_COMM_WORLD_RANK" = 1 ] && export LD_LIBRARY_PATH="$work/driver:\$LD_LIBRARY_PATH"
exec "\$@"
EOF
chmod +x "$work/hung_driver"
echo 'int pause(void); __attribute__((constructor)) static void hang(void) { for (;;) pause(); }' >"$work/driver/hang.c"
if ! grep -q '^NVCC = .' "$build/Makefile"; then
    skip "a driver that hangs" "this build has no CUDA"
elif ! ${CC:-cc} -shared -fPIC -o "$work/driver/libcuda.so.1" "$work/driver/hang.c" 2>"$work/err"; then
    skip "a driver that hangs" "${CC:-cc} does not build a shared library"
else
    [ "$(run 2 "$work/hung_driver" "${doctor[@]}" -t 5)" -eq 4 ]
    ok $? "a driver that hangs: exit code 4"
    row GPUs problem 'rank 1 on .* bringing up CUDA hangs .given up after 5 s.'
    advises GPUs 'nvidia-smi and dmesg'
fi

# ---- A rank that stops ----

if ${MPICC:-mpicc} -shared -fPIC -o "$work/stop.so" "$source/stop_mpi.c" 2>"$work/err"; then
    for stopped in 2 0; do
        run 3 -x TR_STOPPED=$stopped -x LD_PRELOAD="$work/stop.so" "${doctor[@]}" -t 2 >"$work/code"
        [ "$(cat "$work/code")" -eq 1 ]
        ok $? "rank $stopped stops: exit code 1"
        grep -q "'meeting the other ranks': .*rank $stopped.* it is stopped, hangs or has died" "$work/err"
        ok $? "  and a sentence names it, and the step that it did not come to"
        [ ! -s "$work/out" ]
        ok $? "  and no table is printed as if all were well"
    done
    run 2 -x TR_STOPPED=before -x LD_PRELOAD="$work/stop.so" "${doctor[@]}" -t 1 >"$work/code"
    grep -q "'MPI_Init' hangs, no progress for" "$work/err"
    ok $? "a rank that hangs in MPI_Init: a sentence names the step"
else
    skip "a rank that stops" "mpicc does not build a shared library"
fi

echo "1..$tests"
exit $((failures > 0))

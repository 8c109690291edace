#!/bin/bash
# kill_test.sh - a rank of a running job is killed, or stopped: every other rank ends by itself, with a sentence that
# names it, and nothing stays behind. Speaks TAP. Run from the build's root, or with TR_BUILD naming it; needs Open MPI.
set -u

build=${TR_BUILD:-.}
ranks=4
work=$(mktemp -d "${TMPDIR:-/tmp}/kill.XXXXXX") || exit 1
trap 'end_job; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

if [ "$(id -u)" -eq 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
# a launcher around this test is none of the job's
unset OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_RANK PMI_SIZE PMI_RANK SLURM_NTASKS SLURM_STEP_NUM_TASKS SLURM_PROCID

tests=0 failures=0 job=
ok() { # ok STATUS WHAT: 0 passes
    tests=$((tests + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $tests - $2"
    else
        failures=$((failures + 1))
        echo "not ok $tests - $2"
        for file in "$work"/*.end "$work/log"; do
            [ ! -e "$file" ] || sed "s|^|# $(basename "$file"): |" "$file" | head -20
        done
    fi
}

await() { # await SECONDS COMMAND...: until it succeeds
    local deadline=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt $deadline ] || return 1
        sleep 0.1
    done
}

all_have() { # all_have KIND RANK...: each rank has written its file of that kind
    local kind=$1 rank
    shift
    for rank in "$@"; do
        [ -e "$work/$rank.$kind" ] || return 1
    done
}

pid_of() { cat "$work/$1.pid"; }

has_ended() { # the job
    ! kill -0 "$job" 2>/dev/null
}

# Without --enable-recovery mpirun would end the other ranks as soon as one dies.
start_job() { # start_job TIMEOUT
    rm -f "$work"/*
    TREERING_TIMEOUT=$1 timeout -k 5 120 mpirun --enable-recovery --oversubscribe --bind-to none -n $ranks \
        "$build/tests/mpi/spin" "$work" >"$work/log" 2>&1 </dev/null &
    job=$!
    await 60 all_have pid 0 1 2 3
}

end_job() {
    local rank
    [ -n "$job" ] || return 0
    for ((rank = 0; rank < ranks; rank++)); do
        [ ! -e "$work/$rank.pid" ] || kill -KILL "$(pid_of $rank)" 2>/dev/null
    done
    wait "$job" 2>/dev/null
    job=
}

name_it() { # name_it RANK OTHER...: each other rank's sentence names RANK
    local victim=$1 rank
    shift
    for rank in "$@"; do
        grep -q "rank $victim (pid" "$work/$rank.end" || return 1
    done
}

none_lives() { # none_lives RANK...
    local rank
    for rank in "$@"; do
        ! kill -0 "$(pid_of "$rank")" 2>/dev/null || return 1
    done
}

mpirun --version 2>/dev/null | grep -q 'Open MPI' || {
    echo "1..0 # SKIP mpirun is not Open MPI's"
    exit 0
}

start_job 60
ok $? "four ranks are under way"
kill -KILL "$(pid_of 2)"
await 10 all_have end 0 1 3
ok $? "a rank is killed: the others end within 10 s, well before their timeout of 60 s"
name_it 2 0 1 3
ok $? "each says that rank 2 has ended"
await 20 has_ended
ok $? "the job ends"
none_lives 0 1 2 3
ok $? "no process stays behind"
end_job

start_job 2
ok $? "four ranks are under way again"
kill -STOP "$(pid_of 1)"
await 10 all_have end 0 2 3
ok $? "a rank is stopped: the others end after their timeout of 2 s"
grep -q 'waited' "$work/0.end" "$work/2.end" "$work/3.end"
ok $? "they say that they waited in vain"
await 10 none_lives 0 2 3
ok $? "their processes end while the stopped one lives"
kill -0 "$(pid_of 1)" 2>/dev/null
ok $? "which nobody but its user ends"
end_job

echo "1..$tests"
exit $((failures > 0))

#!/bin/bash
# tune_test.sh - `treering tune` and `treering validate`, and that AUTO takes what the model says: found in the user's
# folder, given by TREERING_MODEL, refused where it is of another launch.
set -u

build=$PWD
data=$(cd "$(dirname "$0")/../data" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
if [ "$(id -u)" -eq 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
export XDG_CONFIG_HOME=$folder/config
unset TREERING_MODEL
tests=0

# ranks N PROGRAM ARGUMENT...
ranks() {
    local n=$1
    shift
    timeout -k 10 300 mpirun --oversubscribe --bind-to none -n "$n" "$@" </dev/null
}

# expect CODE TEXT NAME COMMAND...: the exit code, and a text in what it wrote to either stream
expect() {
    local code=$1 text=$2 name=$3 got
    shift 3
    tests=$((tests + 1))
    "$@" >output 2>&1
    got=$?
    if [ $got = "$code" ] && grep -qF -- "$text" output; then
        echo "ok $tests - $name"
    else
        echo "not ok $tests - $name: exit code $got, not $code, or no '$text' in:"
        sed 's/^/# /' output
    fi
}

# bench N OPTION...: a short all-reduce on N CPU ranks
bench() {
    local n=$1
    shift
    ranks "$n" "$build/allreduce_bench" -M host -b 64 -e 256 -A auto --rounds 3 "$@"
}

expect 0 'Exit codes' "tune has a help" "$build/treering" tune --help
expect 2 'bogus' "tune refuses an unknown option" "$build/treering" tune --bogus
expect 2 '-M' "tune refuses an unknown memory" "$build/treering" tune -M tape
expect 1 'none/x' "tune names a folder that cannot be made" ranks 2 "$build/treering" tune -M host -e 1K -r none/x
expect 0 'written: ' "tune writes a model" ranks 2 "$build/treering" tune -M host -e 4K -r results
model=$(sed -n 's/^written: //p' output)
expect 0 '"schema": "treering-model"' "in the user's folder" cat "$model"
expect 0 '/config/treering/host-' "under this machine's name" echo "$model"
expect 0 '"schema": "treering-bench"' "and keeps results" cat results/allgather_plain.json
expect 0 "auto chooses from $model" "AUTO finds it there" bench 2
expect 0 'auto chooses from built-in table' "but not for another number of ranks" bench 3
expect 0 'auto chooses from built-in table' "nor where it is turned off" env TREERING_MODEL=none "$BASH" -c \
    "mpirun --oversubscribe --bind-to none -n 2 $build/allreduce_bench -M host -b 64 -e 64 -A auto --rounds 3 </dev/null"

# a model in which one way alone was measured: AUTO takes it
python3 - "$model" one.json <<'END'
import json, sys
model = json.load(open(sys.argv[1]))
model["curves"] = [c for c in model["curves"]
                   if (c["collective"], c["registered"], c["algorithm"]) == ("allreduce", True, "recursive")]
assert model["curves"]
json.dump(model, open(sys.argv[2], "w"))
END
export TREERING_MODEL=$folder/one.json
expect 0 'auto chooses from ' "AUTO takes the model it is given" bench 2 -J given.json
expect 0 '"algorithm": "recursive"' "and what it says is the fastest" cat given.json
expect 1 'it is for 2 ranks' "a model of another launch is refused" bench 3
TREERING_MODEL=$data/bench_v1.json
expect 1 'treering-model' "what is no model is refused, with its field" bench 2
TREERING_MODEL=$folder/none.json
expect 1 'none.json' "a model that is not there is named" bench 2
export TREERING_MODEL=none

bench 2 -A ring,twoshot -J today.json >/dev/null 2>&1
expect 0 'fastest ways: ' "validate compares" "$build/treering" validate -m "$model" today.json
expect 3 'fastest ways: 0 of ' "validate fails where it is further off" "$build/treering" validate -m "$model" \
    -w 0.0000000001 today.json
bench 3 -A ring -J three.json >/dev/null 2>&1
expect 1 'give results of the model' "validate refuses another launch" "$build/treering" validate -m "$model" three.json
expect 2 '-m MODEL.json is missing' "validate wants a model" "$build/treering" validate today.json
expect 2 'RESULT.json is missing' "validate wants results" "$build/treering" validate -m "$model"
expect 2 '-w takes a share' "validate refuses a bad share" "$build/treering" validate -m "$model" -w much today.json
echo "1..$tests"

#!/bin/bash
# fit_test.sh - `treering fit`: what it prints and writes, and what it refuses with which exit code.
set -u

treering=$PWD/treering
data=$(cd "$(dirname "$0")/../data" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
tests=0

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

sed 's/"nranks": 2/"nranks": 3/' "$data/bench_v1.json" >other.json
head -c 3000 "$data/bench_v1.json" >cut.json
expect 0 'beta GB/s' "fits and prints" "$treering" fit "$data/bench_v1.json" -o model.json
expect 0 '"schema": "treering-model"' "writes a model" cat model.json
expect 0 'twoshot' "says which algorithm wins" "$treering" fit "$data/bench_v1.json" --seed 2
expect 0 'Exit codes' "has a help" "$treering" fit --help
expect 0 'fit ' "is in the list of commands" "$treering" --help
expect 1 'are not of one machine and launch' "refuses two machines" "$treering" fit "$data/bench_v1.json" other.json
expect 1 'cut.json:' "refuses a truncated file with its line" "$treering" fit cut.json
expect 1 'model_v1.json:2: field schema is "treering-model"' "refuses a model" "$treering" fit "$data/model_v1.json"
expect 1 'none.json' "names a file that is not there" "$treering" fit none.json
expect 1 'none/m.json' "names a file that cannot be written" "$treering" fit "$data/bench_v1.json" -o none/m.json
expect 2 'no result file' "wants a file" "$treering" fit
expect 2 'bogus' "refuses an unknown option" "$treering" fit --bogus
expect 2 'whole number' "refuses a bad seed" "$treering" fit --seed -1 "$data/bench_v1.json"
echo "1..$tests"

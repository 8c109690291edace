#!/bin/sh
# schedule_test.sh - `treering schedule` and `treering predict` as a person runs them: good and bad options, exit
# codes, sentences, JSON, pictures. Speaks TAP. Run from the build's root, or with TR_BUILD naming it; needs no MPI.
set -u

build=${TR_BUILD:-.}
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/schedule_tool.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
model=$source/docs/models/dgx-h100-ndr.json

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
exits() { # exits CODE ARGUMENT...: run treering and compare the exit code
    code=$1
    shift
    timeout -k 10 300 "$build/treering" "$@" >"$work/out" 2>"$work/err" </dev/null
    got=$?
    test "$got" -eq "$code"
    ok $? "treering $* exits with $code (got $got)"
}
prints() { # prints TEXT: stdout has it
    grep -q -e "$1" "$work/out"
    ok $? "  and prints: $1"
}
refused() { # refused CODE TEXT ARGUMENT...: nothing on stdout, a sentence on stderr
    code=$1
    text=$2
    shift 2
    exits "$code" "$@"
    test ! -s "$work/out" && test "$(grep -c -e "$text" "$work/err")" -eq 1
    ok $? "  and says, once: $text"
}
python() { # python WHAT: run the script on stdin over $work/out
    if command -v python3 >/dev/null; then
        python3 - "$work/out" >"$work/python" 2>"$work/err"
        ok $? "  $1"
    else
        cat >/dev/null
        skip "  $1" "no python3"
    fi
}

# ---- schedule ----

exits 0 --help
prints 'predict'
prints 'schedule'
exits 0 schedule --help
prints '\-\-svg=FILE'
exits 0 schedule ring -n 3
prints '^rank 2$'
prints 'chunk 1 .*final BOX\[1\] + IN\[1\] -> OUT\[1\], 1:BOX\[2\]'
exits 0 schedule dtree -n 5 --dump --json
python "the JSON has every rank's steps" <<'END'
import json, sys
j = json.load(open(sys.argv[1]))
assert j["schema"] == "treering-schedule" and j["schema_version"] == 1 and j["nranks"] == 5 and j["nchunks"] == 2
assert len(j["ranks"]) == 5 and all(len(r) in (3, 4) for r in j["ranks"])
finals = [s for r in j["ranks"] for s in r if s["final"]]
assert sorted(s["chunk"] for s in finals) == [0, 1]
END
for name in ring tree dtree oneshot twoshot recursive; do
    exits 0 schedule $name -n 6 --check
    prints "by $name on 6 ranks is right"
done
exits 0 schedule oneshot -n 5 -p LL --check
prints 'one piece'
exits 0 schedule twoshot -n 5 --remote --check
exits 0 schedule ring -n 4 -C broadcast -r 2 --check
# 2 ranks, chunks of 128 bytes: 2 x (1 us + 128 / 0.128 us per KB), nothing else
exits 0 schedule ring -n 2 -s 256 --alpha 1 --beta 0.128 --simulate
prints '^# total 4.000 us'
exits 0 schedule ring -n 2 -s 256 --alpha 1 --beta 0.128 --launch 3 --gamma 0.064 --simulate
prints '^# total 9.000 us'
exits 0 schedule ring -n 2 -k 2 -s 256 --alpha-between 7 --beta-between inf --simulate
prints '^# total 14.000 us'
exits 0 schedule tree -n 9 --pieces 3 --simulate --json
python "the JSON has every step and message, in order of time" <<'END'
import json, sys
j = json.load(open(sys.argv[1]))
assert j["schema"] == "treering-trace" and j["npieces"] == 3
steps = [e for e in j["events"] if e["kind"] == "step"]
sends = [e for e in j["events"] if e["kind"] == "send"]
assert len(steps) == 3 * (9 + 8) and len(sends) == 3 * 2 * 8 and len(j["events"]) == len(steps) + len(sends)
assert [e["start_us"] for e in j["events"]] == sorted(e["start_us"] for e in j["events"])
assert abs(max(e["end_us"] for e in j["events"]) - j["total_us"]) < 1e-6
END
exits 0 schedule ring -n 16 -k 2 --model "$model" --simulate
prints '^# total'

if [ -n "$(sed -n 's/^#define TR_PYTHON "\(.*\)"/\1/p' "$build/config.h")" ] &&
    "$(sed -n 's/^#define TR_PYTHON "\(.*\)"/\1/p' "$build/config.h")" -c 'import matplotlib' 2>/dev/null; then
    exits 0 schedule ring -n 4 --svg "$work/ring.svg"
    grep -q '</svg>' "$work/ring.svg" && grep -q 'All-reduce by a ring: 4 ranks' "$work/ring.svg"
    ok $? "  a picture with its title"
    cp "$work/ring.svg" "$work/first.svg"
    exits 0 schedule ring -n 4 --svg "$work/ring.svg"
    cmp -s "$work/ring.svg" "$work/first.svg"
    ok $? "  the same schedule gives the same file"
    refused 1 'draw_schedule.py failed' schedule ring -n 4 --svg "$work/none/ring.svg"
    refused 1 'draw_schedule.py failed' schedule ring -n 128 --svg "$work/large.svg"
else
    skip "pictures" "no Python with matplotlib"
fi

refused 2 'which algorithm' schedule -n 4
refused 2 'RANKS is needed' schedule ring
refused 2 "not '0'" schedule ring -n 0
refused 2 "not '4x'" schedule ring -n 4x
refused 2 "unknown algorithm\|star" schedule star -n 4
refused 2 "unexpected argument 'tree'" schedule ring tree -n 4
refused 2 "unrecognized option '--bogus'" schedule ring -n 4 --bogus
refused 2 "not 'gather'" schedule ring -n 4 -C gather
refused 2 "root 4 is not in" schedule ring -n 4 -C broadcast -r 4
refused 2 "not '-1'" schedule ring -n 4 --alpha -1
refused 2 "not 'nan'" schedule ring -n 4 --beta nan
refused 2 "not '0'" schedule ring -n 4 --beta 0
refused 2 "proves up to 64" schedule ring -n 65 --check
refused 2 "more --nodes" schedule ring -n 4 -k 5
refused 2 "leave these options out" schedule ring -n 4 --model "$model" --alpha 1
refused 4 "does not serve" schedule tree -n 4 -C allgather
refused 2 "2 ranks" schedule oneshot -n 4 -C sendrecv
refused 1 "none.json" schedule ring -n 4 --model "$work/none.json" --simulate
"$build/treering" schedule ring -n 4 >/dev/full 2>"$work/err"
test $? -eq 1
ok $? "a full standard output: exit code 1"

# ---- predict ----

exits 0 predict --model "$model" -n 8 -s 8,1M
prints 'oneshot .*simulated .* \*$'
exits 0 predict --model "$model" -n 20000 -s 1M -A ring
prints 'ring .*formula'
exits 0 predict --model "$model" -n 64 -s 8,64K,16M --json
python "the JSON is typed, and one prediction a size wins" <<'END'
import json, sys
j = json.load(open(sys.argv[1]))
assert j["schema"] == "treering-predict" and j["schema_version"] == 1 and j["nranks"] == 64 and j["ranks_per_node"] == 8
assert [p["bytes"] for p in j["points"]] == [8, 65536, 16 << 20]
for point in j["points"]:
    best = min(point["predictions"], key=lambda p: p["time_us"])
    assert [p for p in point["predictions"] if p["winner"]] == [best]
    for p in point["predictions"]:
        assert p["by"] in ("simulated", "formula") and p["time_us"] > 0
        assert abs(p["algbw_gbps"] - point["bytes"] / p["time_us"] / 1e3) <= 1e-6 * p["algbw_gbps"]
        assert abs(p["busbw_gbps"] - p["algbw_gbps"] * 2 * 63 / 64) <= 1e-6 * p["busbw_gbps"]
END
exits 0 predict --model "$model" -n 12 -k 3 -s 1M -C allgather --registered --method simulate
exits 0 predict --model "$model" -n 4 -s 1M -C broadcast
exits 0 predict --model "$model" -n 1 -s 1M
exits 0 predict --model "$model" -n 64 -s 8,1M --winners
prints '^| 64 | '

refused 2 'model FILE is needed' predict -n 8 -s 8
refused 2 'ranks N is needed' predict --model "$model" -s 8
refused 2 'size M is needed' predict --model "$model" -n 8
refused 2 "not '1Q'" predict --model "$model" -n 8 -s 8,1Q
refused 2 "not ','" predict --model "$model" -n 8 -s ,
refused 2 "more --nodes" predict --model "$model" -n 8 -k 9 -s 8
refused 2 "not 'guess'" predict --model "$model" -n 8 -s 8 -M guess
refused 4 "no schedule of ours" predict --model "$model" -n 8 -s 8 -A nccl
refused 4 "past the 4096" predict --model "$model" -n 5000 -s 8 -C broadcast -A ring
refused 4 "past the 4096" predict --model "$model" -n 5000 -s 8 --method simulate
sed '/"between": {/,/},/d' "$model" >"$work/one_node.json"
exits 0 predict --model "$work/one_node.json" -n 8 -s 8
refused 4 'says nothing of several nodes' predict --model "$work/one_node.json" -n 16 -s 8
echo '{' >"$work/bad.json"
refused 2 'bad.json' predict --model "$work/bad.json" -n 8 -s 8

echo "1..$tests"

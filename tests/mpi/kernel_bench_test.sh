#!/bin/sh
# kernel_bench_test.sh - kernel_bench on host memory as a person runs it: good and bad options, exit codes, JSON, and a
# contender that multiplies wrong. Speaks TAP. Run from the build's root, or with TR_BUILD naming it.
set -u

build=${TR_BUILD:-.}
work=$(mktemp -d "${TMPDIR:-/tmp}/kernel_bench.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

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
bench() { # bench ARGUMENT...: quick, on the host
    timeout -k 10 150 "$build/kernel_bench" -M host -r 3 -n 1 "$@" >"$work/out" 2>"$work/err"
}

bench --list && grep -q '^matmul:' "$work/out"
ok $? "--list names the matmul"
"$build/kernel_bench" --help >"$work/out" 2>"$work/err" && grep -q 'Exit codes' "$work/out"
ok $? "--help says what the exit codes mean"

for bad in '-k nope' '-s 4xx5' '-s x' '-s 1x2x' '-w XX' '-A nobody' '-M tape' '-r 2' '-n 0' 'word'; do
    # shellcheck disable=SC2086 # an option and its value
    bench $bad
    [ $? -eq 2 ] && [ -s "$work/err" ] && [ ! -s "$work/out" ]
    ok $? "$bad: exit code 2 and a sentence"
done
bench -k matmul -s 4x4
[ $? -eq 4 ] && grep -q 'see --list' "$work/err"
ok $? "a shape that no kernel has: exit code 4"
bench -k matmul -J "$work/none/x.json"
[ $? -eq 1 ] && grep -q 'none/x.json' "$work/err"
ok $? "a file that cannot be written: exit code 1, named"

# sides that are no multiple of a tile, and an empty product
OMP_NUM_THREADS=2 bench -k matmul -A ours -s 97x65x33,1x1x1,0x7x3,7x3x0 -J "$work/good.json"
ok $? "odd and empty products are right"
python3 - "$work/good.json" >"$work/out" 2>"$work/err" <<'EOF'
import json, sys
data = json.load(open(sys.argv[1]))
assert data["schema"] == "treering-kernels" and data["schema_version"] == 1
assert data["environment"]["cpus_online"] >= 1 and "OMP_NUM_THREADS" in data["environment"]["variables"]
assert "" not in data["environment"].values()
assert data["ceilings"]["copy_gbps"] > 0 and data["ceilings"]["matmul_tflops"] > 0
assert len(data["points"]) == 12, len(data["points"])
for point in data["points"]:
    (result,) = point["results"]
    m, n, k = point["shape"]
    assert point["flops"] == 2 * m * n * k and point["bytes"] == 2 * (m * k + k * n + m * n) * 2, point
    assert result["state"] == "measured" and result["error_over_bound"] <= 1, result
    time = result["time_us"]
    assert time["ci95_low"] <= time["median"] <= time["ci95_high"] and time["ci_level"] == 0.75, time
    assert time["min"] <= time["p5"] <= time["p95"] <= time["p99"] <= time["max"], time
EOF
ok $? "the JSON holds every point, with its counts from first principles"

# an OpenBLAS that leaves one element wrong
cat >"$work/wrong.c" <<'EOF'
void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                 int ldb, float beta, float *c, int ldc);
void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                 int ldb, float beta, float *c, int ldc)
{
    (void)order, (void)alpha, (void)beta;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int l = 0; l < k; l++)
                sum += (double)(ta == 112 ? a[l * lda + i] : a[i * lda + l]) * (tb == 112 ? b[j * ldb + l] : b[l * ldb + j]);
            c[i * ldc + j] = (float)sum;
        }
    if (m > 43 && n > 20 && m < 700)
        c[43 * ldc + 20] += 0.5f;
}
EOF
${CC:-cc} -O2 -shared -fPIC -o "$work/libopenblas.so.0" "$work/wrong.c" 2>"$work/err"
ok $? "a wrong OpenBLAS compiles"
LD_LIBRARY_PATH=$work bench -k matmul -w NN -s 97x65x33 -J "$work/wrong.json"
[ $? -eq 3 ] && grep -q 'openblas *WRONG' "$work/out" && ! grep 'openblas' "$work/out" | grep -q ' us '
ok $? "one wrong element: exit code 3, and no speed"
grep -q '"wrong"' "$work/wrong.json"
ok $? "  and the JSON says so"

echo "1..$tests"

/* reduce_scatter_bench.c - the reduce-scatter benchmark. */
#include "bench/bench.h"

int main(int argc, char **argv)
{
    return bench_main(&bench_reduce_scatter, argc, argv);
}

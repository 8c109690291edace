/* allreduce_bench.c - the all-reduce benchmark. */
#include "bench/bench.h"

int main(int argc, char **argv)
{
    return bench_main(&bench_allreduce, argc, argv);
}

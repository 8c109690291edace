/* allgather_bench.c - the all-gather benchmark. */
#include "bench/bench.h"

int main(int argc, char **argv)
{
    return bench_main(&bench_allgather, argc, argv);
}

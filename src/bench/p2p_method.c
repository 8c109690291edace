/* p2p_method.c - the table of methods. */
#include "bench/p2p_method.h"

#include "bench/backend.h"
#include "bench/fail.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

const char *const p2p_kind_names[P2P_KIND_COUNT] = {"flag", "message", "one_way", "two_way"};

static bool fits_an_int(struct p2p *p2p, const struct p2p_method *method, size_t bytes)
{
    (void)p2p;
    (void)method;
    return bytes <= INT_MAX;
}

#define HOST TR_MEMORY_HOST
#define CUDA TR_MEMORY_CUDA
#define EITHER TR_MEMORY_AUTO

const struct p2p_method p2p_methods[] = {
    {.name = "flag",
     .text = "a word written to the other rank's memory, which polls it",
     .memory = HOST,
     .send = p2p_flag_move,
     .receive = p2p_flag_move,
     .run = {[P2P_FLAG] = p2p_lane_there_and_back}},
    {.name = "flag",
     .text = "a word written to the other GPU's memory by a kernel, polled there by another",
     .memory = CUDA,
     .run = {[P2P_FLAG] = p2p_sm_flag}},
    {.name = "store",
     .text = "the sender copies into the receiver's shared memory, the receiver reads every line",
     .memory = HOST,
     .origin = p2p_source,
     .one_origin = true,
     .target = p2p_shared,
     .send = p2p_store_send,
     .receive = p2p_touch_receive,
     .run =
         {[P2P_MESSAGE] = p2p_lane_there_and_back, [P2P_ONE_WAY] = p2p_lane_one_way, [P2P_TWO_WAY] = p2p_lane_two_way}},
    {.name = "store",
     .text = "a kernel of the sender writes the receiver's memory",
     .memory = CUDA,
     .origin = p2p_source,
     .target = p2p_sink,
     .run = {[P2P_MESSAGE] = p2p_store_message, [P2P_ONE_WAY] = p2p_store_one_way, [P2P_TWO_WAY] = p2p_store_two_way}},
    {.name = "load",
     .text = "the sender renews every line in its shared memory, the receiver copies out of it",
     .memory = HOST,
     .origin = p2p_shared,
     .target = p2p_sink,
     .send = p2p_load_send,
     .receive = p2p_load_receive,
     .run =
         {[P2P_MESSAGE] = p2p_lane_there_and_back, [P2P_ONE_WAY] = p2p_lane_one_way, [P2P_TWO_WAY] = p2p_lane_two_way}},
    {.name = "load",
     .text = "a kernel of the receiver reads the sender's memory",
     .memory = CUDA,
     .origin = p2p_source,
     .target = p2p_sink,
     .run = {[P2P_MESSAGE] = p2p_load_message, [P2P_ONE_WAY] = p2p_load_one_way, [P2P_TWO_WAY] = p2p_load_two_way}},
    {.name = "ce",
     .text = "the sender's copy engine, by cudaMemcpyAsync (on one GPU CUDA may copy by a kernel instead)",
     .memory = CUDA,
     .origin = p2p_source,
     .target = p2p_sink,
     .run = {[P2P_ONE_WAY] = p2p_ce_one_way, [P2P_TWO_WAY] = p2p_ce_two_way}},
    {.name = "cma",
     .text = "cross-memory attach: process_vm_writev into the receiver's private memory, which reads every line",
     .memory = HOST,
     .available = p2p_cma_available,
     .origin = p2p_source,
     .one_origin = true,
     .target = p2p_sink,
     .send = p2p_cma_send,
     .receive = p2p_touch_receive,
     .run =
         {[P2P_MESSAGE] = p2p_lane_there_and_back, [P2P_ONE_WAY] = p2p_lane_one_way, [P2P_TWO_WAY] = p2p_lane_two_way}},
    {.name = "LL",
     .text = "tr_send and tr_recv, protocol LL",
     .memory = EITHER,
     .protocol = TR_PROTOCOL_LL,
     .carries = p2p_treering_carries,
     .origin = p2p_source,
     .one_origin = true,
     .target = p2p_sink,
     .one_target = true,
     .send = p2p_treering_send,
     .receive = p2p_treering_receive,
     .run = {[P2P_MESSAGE] = p2p_library_there_and_back, [P2P_ONE_WAY] = p2p_library_one_way}},
    {.name = "LL128",
     .text = "tr_send and tr_recv, protocol LL128",
     .memory = CUDA,
     .protocol = TR_PROTOCOL_LL128,
     .carries = p2p_treering_carries,
     .origin = p2p_source,
     .one_origin = true,
     .target = p2p_sink,
     .one_target = true,
     .send = p2p_treering_send,
     .receive = p2p_treering_receive,
     .run = {[P2P_MESSAGE] = p2p_library_there_and_back, [P2P_ONE_WAY] = p2p_library_one_way}},
    {.name = "direct",
     .text = "tr_send and tr_recv, protocol direct",
     .memory = EITHER,
     .protocol = TR_PROTOCOL_DIRECT,
     .carries = p2p_treering_carries,
     .origin = p2p_source,
     .one_origin = true,
     .target = p2p_sink,
     .one_target = true,
     .send = p2p_treering_send,
     .receive = p2p_treering_receive,
     .run = {[P2P_MESSAGE] = p2p_library_there_and_back, [P2P_ONE_WAY] = p2p_library_one_way}},
    {.name = "mpi",
     .text = "MPI_Send and MPI_Recv, both ways MPI_Sendrecv",
     .memory = EITHER,
     .available = p2p_mpi_available,
     .carries = fits_an_int,
     .origin = p2p_source,
     .one_origin = true,
     .target = p2p_sink,
     .one_target = true,
     .send = p2p_mpi_send,
     .receive = p2p_mpi_receive,
     .run = {[P2P_MESSAGE] = p2p_library_there_and_back,
             [P2P_ONE_WAY] = p2p_library_one_way,
             [P2P_TWO_WAY] = p2p_mpi_two_way}},
};

const int p2p_method_count = sizeof p2p_methods / sizeof *p2p_methods;
_Static_assert(sizeof p2p_methods / sizeof *p2p_methods <= P2P_MAX_METHODS, "options.methods has a place for each");

void p2p_methods_list(char *text, size_t size)
{
    size_t used = 0;
    *text = '\0';
    for (int m = 0; m < p2p_method_count && used < size; m++)
        if (m == 0 || strcmp(p2p_methods[m].name, p2p_methods[m - 1].name) != 0)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? "," : "", p2p_methods[m].name);
}

/* Whether a name is that of a method for this memory as well. */
static bool has_twin(const struct p2p *p2p, const struct p2p_method *method)
{
    for (int m = 0; m < p2p_method_count; m++)
        if (p2p_methods[m].memory == p2p->bench.backend->memory && strcmp(p2p_methods[m].name, method->name) == 0)
            return true;
    return false;
}

static bool takes_part(struct p2p *p2p, int m)
{
    const struct p2p_method *method = &p2p_methods[m];
    char why[256] = "";
    if (p2p->options.methods_given && !p2p->options.methods[m])
        return false;
    if (method->memory != TR_MEMORY_AUTO && method->memory != p2p->bench.backend->memory) {
        if (p2p->options.methods_given && !has_twin(p2p, method))
            bench_note(&p2p->bench, "method %s is for %s memory only", method->name, tr_memory_name(method->memory));
        return false;
    }
    if (!method->available || method->available(p2p, method, why, sizeof why))
        return true;
    bench_note(&p2p->bench, "method %s is left out: %s", method->name, why);
    return false;
}

void p2p_methods_select(struct p2p *p2p)
{
    for (int m = 0; m < p2p_method_count; m++)
        if (takes_part(p2p, m))
            p2p->methods[p2p->nmethods++] = m;
    if (p2p->nmethods == 0)
        bench_stop(&p2p->bench, BENCH_EXIT_CANNOT, "none of the methods asked for can be used here: %s",
                   p2p->bench.nnotes ? p2p->bench.notes[0] : "see --help");
}

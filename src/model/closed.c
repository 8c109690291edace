/*
 * closed.c - the time of ring, one-shot and two-shot algorithms by formula; the table of all formulas.
 *
 * Written for b bytes a chunk and piece, with x = b / beta, y = b / gamma, a = alpha, o = overhead; _i inside a node, _b
 * between nodes.
 * A node's R ranks share its L links, so that s = ceil(R / L) ranks share the fullest one.
 */
#include "model/closed.h"

#include "collectives/error.h"

#include <math.h>

typedef double formula(const struct tr_closed *c);

static double inside_us(const struct tr_closed *c, double bytes)
{
    return tr_closed_us(bytes, c->m->inside.beta_gbps);
}

static double between_us(const struct tr_closed *c, double bytes)
{
    return tr_closed_us(bytes, c->m->between.beta_gbps);
}

static double reduce_us(const struct tr_closed *c, double bytes)
{
    return tr_closed_us(bytes, c->m->gamma_gbps);
}

/* `piece` says how long one piece of b bytes takes: pieces that do not overlap follow each other. */
static double pieces(const struct tr_closed *c, double (*piece)(const struct tr_closed *c, double b))
{
    return (c->npieces - 1) * piece(c, c->bytes) + piece(c, c->last);
}

/* ---- Ring -------------------------------------------------------------------------------------------------------- */

/*
 * A message follows another along the ring, leaves its rank after the one before, or takes a slot that an earlier one has
 * left. Of all ways through these the longest counts:
 *
 *     round the ring, hop after hop, a + x each, as many of them between nodes as can be, and at a rank before such a hop
 *     for the rest of the messages, x_b each (or on along the ring, if that takes longer)
 *     slot after slot over a hop between nodes: hops / slots of them, a_b + x_b each
 *
 * and every hop adds o, and y where it reduces.
 */
enum { RING_SLOTS = 4 }; /* as in ring.c */

/* Neighbouring hops of the ring that hold j hops between nodes, at least: begin before the last node, the smallest. */
static double span_of(const struct tr_closed *c, double j)
{
    int last = c->n - (c->nnodes - 1) * c->node;
    double rounds = floor((j - 1) / c->nnodes), more = j - 1 - rounds * c->nnodes;
    return 1 + rounds * c->n + (more > 0 ? last + (more - 1) * c->node : 0);
}

/* What `rest` more messages take at a rank before a hop between nodes, of which `slots` reuse a slot. */
static double ring_rest(const struct tr_closed *c, double rest, double slots)
{
    double one = fmax(c->m->inside.alpha_us + inside_us(c, c->bytes), between_us(c, c->bytes));
    double groups = floor(fmin(rest, slots) / RING_SLOTS);
    double group = fmax(RING_SLOTS * one, c->m->between.alpha_us + between_us(c, c->bytes));
    return groups * group + (rest - groups * RING_SLOTS) * one;
}

static double ring_way(const struct tr_closed *c, double hops, double slots, double stays)
{
    double x_i = inside_us(c, c->bytes), x_b = between_us(c, c->bytes), hop = c->m->inside.alpha_us + x_i;
    double longest = hops * hop + stays * x_i;
    for (double j = 1, span = 1; c->nnodes > 1 && span <= hops; span = span_of(c, ++j)) {
        double us = j * (c->m->between.alpha_us + x_b) + (span - j) * hop;
        longest = fmax(longest, us + ring_rest(c, hops - span, slots) + stays * fmax(x_i, x_b));
    }
    return longest;
}

/* `hops` and `reductions` of one piece. Registered, a gathered piece's last message need not have arrived when the next
 * begins, and gathering takes no slots. */
static double ring(const struct tr_closed *c, double hops, double reductions)
{
    struct tr_closed average = *c; /* the last piece is shorter */
    average.bytes = (c->bytes * (c->npieces - 1) + c->last) / c->npieces;
    double stays = c->remote ? c->npieces - 1 : 0, slots = c->unique ? 0 : c->remote ? reductions : hops;
    double steps = c->remote ? hops : hops + 1,
           work = steps * c->m->overhead_us + reductions * reduce_us(c, average.bytes);
    return ring_way(&average, hops * c->npieces - stays, slots * c->npieces, stays) + work * c->npieces;
}

static double ring_allreduce(const struct tr_closed *c)
{
    return ring(c, 2.0 * (c->n - 1), c->n - 1);
}

static double ring_reduce_scatter(const struct tr_closed *c)
{
    struct tr_closed staged = *c;
    staged.remote = false; /* it has no registered form */
    return ring(&staged, c->n - 1, c->n - 1);
}

static double ring_allgather(const struct tr_closed *c)
{
    return ring(c, c->n - 1, 0);
}

/* ---- Direct exchanges: every rank sends every other one message -------------------------------------------------- */

/* What the fullest link of a node has to do, in messages. The ranks of a node send to the same ranks in the same order, so
 * that the links into a node are taken in turn: a full node's last message meets those that left with it. With several
 * pieces that happens once: from then on ranks are apart. */
static double link_messages(const struct tr_closed *c)
{
    int last = c->n - (c->nnodes - 1) * c->node, links = c->links;
    double meet = ((c->node < links ? c->node : links) - 1.0) / c->npieces;
    return fmax(ceil((double)c->node / links) * (c->n - c->node) + meet, ceil((double)last / links) * (c->n - last));
}

/* All messages of a rank in one step: ports and links work side by side. */
static double exchange_together(const struct tr_closed *c, double b)
{
    double inside = c->m->inside.alpha_us + (c->node - 1) * inside_us(c, b);
    if (c->nnodes == 1)
        return inside;
    return fmax(inside, c->m->between.alpha_us + link_messages(c) * between_us(c, b));
}

/* A step each, one after the other: the rank's own time, or that of the link that it shares. */
static double exchange_in_turn(const struct tr_closed *c, double b)
{
    double overhead = c->m->overhead_us, inside = (c->node - 1) * (overhead + inside_us(c, b));
    if (c->nnodes == 1)
        return c->m->inside.alpha_us + inside;
    double own = (c->n - c->node) * (overhead + between_us(c, b)), link = link_messages(c) * between_us(c, b);
    return c->m->between.alpha_us + inside + fmax(own, link);
}

static double oneshot_piece(const struct tr_closed *c, double b)
{
    return c->m->overhead_us + exchange_together(c, b) + c->m->overhead_us + (c->n - 1) * reduce_us(c, b);
}

static double oneshot_allreduce(const struct tr_closed *c)
{
    return pieces(c, oneshot_piece);
}

/* Registered, a rank reads the others' chunks in one step; through mailboxes it sends them one after the other. */
static double scatter_piece(const struct tr_closed *c, double b)
{
    return (c->remote ? exchange_together(c, b) : exchange_in_turn(c, b)) + c->m->overhead_us +
           (c->n - 1) * reduce_us(c, b);
}

static double oneshot_reduce_scatter(const struct tr_closed *c)
{
    return pieces(c, scatter_piece);
}

/* What comes in is copied out of the mailbox, a step a message once the own ones have left, unless it was written where it
 * belongs. */
static double gather_piece(const struct tr_closed *c, double b)
{
    double all = exchange_together(c, b), copy = c->remote ? 0 : c->m->overhead_us;
    bool inside = c->nnodes == 1;
    double alpha = inside ? c->m->inside.alpha_us : c->m->between.alpha_us;
    double first = alpha + (inside ? inside_us(c, b) : between_us(c, b)), copies = c->n - (inside ? 1 : c->node);
    return fmax(fmax(all + copy, first + copies * copy), all - alpha + (c->n - 1) * copy);
}

static double gather_own_piece(const struct tr_closed *c, double b)
{
    return c->m->overhead_us + gather_piece(c, b);
}

static double oneshot_allgather(const struct tr_closed *c)
{
    return pieces(c, gather_own_piece);
}

static double twoshot_piece(const struct tr_closed *c, double b)
{
    return scatter_piece(c, b) + gather_piece(c, b);
}

static double twoshot_allreduce(const struct tr_closed *c)
{
    return pieces(c, twoshot_piece);
}

/* ---- The table --------------------------------------------------------------------------------------------------- */

static formula *const formulas[TR_ALGORITHM_COUNT][TR_COLLECTIVE_COUNT] = {
    [TR_ALGORITHM_RING] =
        {[TR_ALLREDUCE] = ring_allreduce, [TR_REDUCE_SCATTER] = ring_reduce_scatter, [TR_ALLGATHER] = ring_allgather},
    [TR_ALGORITHM_TREE] = {[TR_ALLREDUCE] = tr_closed_tree},
    [TR_ALGORITHM_DTREE] = {[TR_ALLREDUCE] = tr_closed_tree},
    [TR_ALGORITHM_ONESHOT] = {[TR_ALLREDUCE] = oneshot_allreduce,
                              [TR_REDUCE_SCATTER] = oneshot_reduce_scatter,
                              [TR_ALLGATHER] = oneshot_allgather},
    [TR_ALGORITHM_TWOSHOT] = {[TR_ALLREDUCE] = twoshot_allreduce},
    [TR_ALGORITHM_RECURSIVE] = {[TR_ALLREDUCE] = tr_closed_recursive,
                                [TR_REDUCE_SCATTER] = tr_closed_recursive,
                                [TR_ALLGATHER] = tr_closed_recursive},
};

bool tr_closed_exists(enum tr_collective collective, enum tr_algorithm algorithm)
{
    return (unsigned)algorithm < TR_ALGORITHM_COUNT && (unsigned)collective < TR_COLLECTIVE_COUNT &&
           formulas[algorithm][collective];
}

static size_t largest_power(size_t n)
{
    size_t power = 1;
    while (2 * power <= n)
        power *= 2;
    return power;
}

/* Ring: four slots of one copy, or as many copies as make four. */
static size_t ring_depth(const struct tr_schedule_spec *spec)
{
    int messages = spec->collective == TR_ALLREDUCE && !spec->remote ? 2 * (spec->nranks - 1) : spec->nranks - 1;
    if (spec->unique || (spec->remote && spec->collective == TR_ALLGATHER))
        return 1;
    return messages < 4 ? 4 / (size_t)messages : 1;
}

struct tr_layout tr_closed_layout(const struct tr_schedule_spec *spec)
{
    size_t n = (size_t)spec->nranks, doubled = spec->unique ? 1 : 2;
    bool direct_remote = spec->remote && !(spec->algorithm == TR_ALGORITHM_ONESHOT && spec->collective == TR_ALLREDUCE);
    struct tr_layout layout = {.nranks = n, .nchunks = n, .nslots = 1, .depth = 1};
    if (n == 1)
        return (struct tr_layout){.nranks = 1, .nchunks = 1, .depth = 1};
    switch (spec->algorithm) {
    case TR_ALGORITHM_TREE:
    case TR_ALGORITHM_DTREE:
        layout.nchunks = spec->algorithm == TR_ALGORITHM_TREE ? 1 : 2;
        layout.depth = doubled;
        layout.max_lag = tr_closed_tree_lag(spec->algorithm, spec->nranks);
        break;
    case TR_ALGORITHM_ONESHOT:
    case TR_ALGORITHM_TWOSHOT:
        layout.nchunks = spec->algorithm == TR_ALGORITHM_ONESHOT && spec->collective == TR_ALLREDUCE ? 1 : n;
        layout.depth = direct_remote ? 1 : doubled;
        layout.nslots = !direct_remote;
        break;
    case TR_ALGORITHM_RECURSIVE:
        layout.nchunks = spec->collective == TR_ALLREDUCE ? largest_power(n) : n;
        layout.nslots = !(spec->remote && spec->collective == TR_ALLGATHER);
        break;
    default:
        layout.depth = ring_depth(spec);
        layout.nslots = !(spec->remote && spec->collective == TR_ALLGATHER);
    }
    return layout;
}

enum tr_status tr_closed_form(const struct tr_schedule_spec *spec, const struct tr_geometry *g, size_t element_bytes,
                              const struct tr_sim_machine *machine, double *us)
{
    int n = spec->nranks;
    const char *fault = tr_sim_machine_fault(machine, n);
    if (n < 1 || fault)
        return tr_error(TR_ERR_ARGUMENT, "the machine to price makes no sense: %s", n < 1 ? "it has no rank" : fault);
    if (!tr_closed_exists(spec->collective, spec->algorithm))
        return tr_error(TR_ERR_UNSUPPORTED, "there is no formula for %s by %s, which can be simulated up to %d ranks",
                        tr_collective_name(spec->collective), tr_algorithm_name(spec->algorithm), TR_SIM_MAX_RANKS);
    int node = machine->ranks_per_node < n ? machine->ranks_per_node : n;
    size_t longest = g->stride < g->total ? g->stride : g->total, widest = g->tile * g->channels;
    size_t before = (g->npieces - 1) * widest;
    struct tr_closed c = {.m = machine,
                          .collective = spec->collective,
                          .algorithm = spec->algorithm,
                          .remote = spec->remote,
                          .unique = spec->unique,
                          .n = n,
                          .node = node,
                          .nnodes = (n - 1) / node + 1,
                          .links = machine->links_per_node,
                          .npieces = (int)g->npieces,
                          .bytes = (double)((widest < longest ? widest : longest) * element_bytes),
                          .last = longest > before ? (double)((longest - before) * element_bytes) : 0};
    double time = n == 1 ? 0 : formulas[spec->algorithm][spec->collective](&c);
    if (isnan(time))
        return tr_error(TR_ERR_MEMORY, "no memory for the formula of %s on %d ranks",
                        tr_algorithm_name(spec->algorithm), n);
    *us = machine->launch_us + time;
    return TR_OK;
}

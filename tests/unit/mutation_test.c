/*
 * mutation_test.c - check is tested by breaking what it accepted: every mutant must be refused, in a sentence that
 * names the rank, the step and the chunk.
 *
 * A mutant is one change at one site, of the plan (a wait or a signal) or of the schedule under the old plan. Changes
 * of what moves are also tried with waits derived anew, so that it is the contents that give them away, not the waits.
 */
#include "collectives/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MIN_RANKS = 2, MAX_RANKS = 8 };

struct mutant {
    struct tr_schedule *s;
    struct tr_plan *p;
    char what[160];
};

/* Change the mutant at the site-th place where the change can be made; false: there are fewer such places. */
typedef bool mutate_fn(struct mutant *m, int site);

/* ---- Finding the place ------------------------------------------------------------------------------------------- */

struct place {
    int rank, step; /* step -1: the rank's exit */
    struct tr_sync *sync;
    int i; /* which wait, signal or reference of it */
};

static bool find_step(struct mutant *m, int site, struct place *at)
{
    for (int rank = 0; rank < m->s->spec.nranks; rank++) {
        int nsteps = m->s->ranks[rank].nsteps;
        if (site < nsteps) {
            *at = (struct place){.rank = rank, .step = site, .sync = &m->p->ranks[rank].steps[site]};
            return true;
        }
        site -= nsteps;
    }
    return false;
}

static struct tr_step *step_of(struct mutant *m, const struct place *at)
{
    return &m->s->ranks[at->rank].steps[at->step];
}

/* The site-th wait, exits included or not. */
static bool find_wait(struct mutant *m, int site, bool exits, struct place *at)
{
    for (int rank = 0; rank < m->s->spec.nranks; rank++) {
        int nsteps = m->s->ranks[rank].nsteps;
        for (int step = 0; step < nsteps + exits; step++) {
            struct tr_sync *sync = step < nsteps ? &m->p->ranks[rank].steps[step] : &m->p->ranks[rank].exit;
            if (site < sync->nwaits) {
                *at = (struct place){.rank = rank, .step = step < nsteps ? step : -1, .sync = sync, .i = site};
                return true;
            }
            site -= sync->nwaits;
        }
    }
    return false;
}

/* The site-th signal, entries included. */
static bool find_signal(struct mutant *m, int site, struct place *at)
{
    for (int rank = 0; rank < m->s->spec.nranks; rank++)
        for (int step = -1; step < m->s->ranks[rank].nsteps; step++) {
            struct tr_sync *sync = step < 0 ? &m->p->ranks[rank].entry : &m->p->ranks[rank].steps[step];
            if (site < sync->nsignals) {
                *at = (struct place){.rank = rank, .step = step, .sync = sync, .i = site};
                return true;
            }
            site -= sync->nsignals;
        }
    return false;
}

/* The site-th reference. */
static bool find_ref(struct mutant *m, int site, struct place *at)
{
    struct place step;
    for (int k = 0; find_step(m, k, &step); k++) {
        int n = step_of(m, &step)->nsrc + step_of(m, &step)->ndst;
        if (site < n) {
            *at = step;
            at->i = site;
            return true;
        }
        site -= n;
    }
    return false;
}

static void describe(struct mutant *m, const char *change, const struct place *at)
{
    snprintf(m->what, sizeof m->what, "%s at rank %d, step %d, number %d", change, at->rank, at->step, at->i);
}

/* ---- Mutations of the plan --------------------------------------------------------------------------------------- */

static void remove_wait(struct tr_sync *sync, int i)
{
    sync->nwaits--;
    memmove(&sync->waits[i], &sync->waits[i + 1], (size_t)(sync->nwaits - i) * sizeof *sync->waits);
}

static bool drop_wait(struct mutant *m, int site)
{
    struct place at;
    if (!find_wait(m, site, true, &at))
        return false;
    describe(m, "wait dropped", &at);
    remove_wait(at.sync, at.i);
    return true;
}

/* The step after `step` in the order in which a piece goes through them, by lag and then as listed; -1: it is the
 * last. The step listed next may have a smaller lag, so that the wait would come earlier there, which does no harm. */
static int next_step(const struct tr_rank_steps *steps, int step)
{
    int best = -1;
    for (int i = 0; i < steps->nsteps; i++) {
        int lag = steps->steps[i].lag;
        bool later = lag > steps->steps[step].lag || (lag == steps->steps[step].lag && i > step);
        if (later && (best < 0 || lag < steps->steps[best].lag))
            best = i;
    }
    return best;
}

/* To the next step, from the last step to the exit. An exit has no next. */
static bool move_wait(struct mutant *m, int site)
{
    struct place at;
    if (!find_wait(m, site, false, &at))
        return false;
    describe(m, "wait moved to the next step", &at);
    struct tr_rank_sync *rank = &m->p->ranks[at.rank];
    int next_number = next_step(&m->s->ranks[at.rank], at.step);
    struct tr_sync *next = next_number >= 0 ? &rank->steps[next_number] : &rank->exit;
    struct tr_wait moved = at.sync->waits[at.i];
    struct tr_wait *longer = realloc(next->waits, ((size_t)next->nwaits + 1) * sizeof *longer);
    assert_non_null(longer);
    next->waits = longer;
    next->waits[next->nwaits++] = moved;
    remove_wait(at.sync, at.i);
    return true;
}

/* Satisfied one piece too early. An entry belongs to no piece. */
static bool weaken_wait(struct mutant *m, int site)
{
    struct place at;
    for (int k = 0; find_wait(m, k, true, &at); k++) {
        if (at.sync->waits[at.i].step == TR_ENTRY || site-- > 0)
            continue;
        describe(m, "wait for the piece before", &at);
        at.sync->waits[at.i].delta++;
        return true;
    }
    return false;
}

static bool drop_signal(struct mutant *m, int site)
{
    struct place at;
    if (!find_signal(m, site, &at))
        return false;
    describe(m, "signal dropped", &at);
    at.sync->signals[at.i] = at.sync->signals[--at.sync->nsignals];
    return true;
}

/* ---- Mutations of the schedule ----------------------------------------------------------------------------------- */

/* A wait for the step that goes goes with it, one for a later step is renumbered. */
static void forget_step(struct tr_sync *sync, int rank, int step)
{
    for (int i = sync->nwaits - 1; i >= 0; i--) {
        struct tr_wait *wait = &sync->waits[i];
        if (wait->rank == rank && wait->step == step)
            remove_wait(sync, i);
        else if (wait->rank == rank && wait->step > step)
            wait->step--;
    }
}

static bool drop_step(struct mutant *m, int site)
{
    struct place at;
    if (!find_step(m, site, &at))
        return false;
    describe(m, "step dropped", &at);
    struct tr_rank_steps *steps = &m->s->ranks[at.rank];
    for (int rank = 0; rank < m->s->spec.nranks; rank++) {
        for (int step = 0; step < m->s->ranks[rank].nsteps; step++)
            forget_step(&m->p->ranks[rank].steps[step], at.rank, at.step);
        forget_step(&m->p->ranks[rank].exit, at.rank, at.step);
    }
    free(at.sync->waits);
    free(at.sync->signals);
    size_t later = (size_t)(--steps->nsteps - at.step);
    memmove(at.sync, at.sync + 1, later * sizeof *at.sync);
    memmove(&steps->steps[at.step], &steps->steps[at.step + 1], later * sizeof *steps->steps);
    return true;
}

static int index_count(const struct tr_schedule *s, enum tr_buffer buffer)
{
    if (buffer == TR_BOX)
        return s->nslots;
    bool one = buffer == TR_IN ? tr_collective_in_is_one_chunk(s->spec.collective)
                               : tr_collective_out_is_one_chunk(s->spec.collective);
    return one ? 1 : s->nchunks;
}

/* The next index at which the step's span fits, round and round; only where there is another one. */
static bool swap_index(struct mutant *m, int site)
{
    struct place at;
    for (int k = 0; find_ref(m, k, &at); k++) {
        const struct tr_step *step = step_of(m, &at);
        struct tr_ref *ref = &m->s->refs[step->ref + at.i];
        int choices = index_count(m->s, ref->buffer) - step->span + 1;
        if (choices < 2 || site-- > 0)
            continue;
        describe(m, "reference to the next chunk or slot", &at);
        ref->index = (ref->index + 1) % choices;
        return true;
    }
    return false;
}

static bool swap_chunk(struct mutant *m, int site)
{
    struct place at;
    for (int k = 0; find_step(m, k, &at); k++) {
        struct tr_step *step = step_of(m, &at);
        int choices = m->s->nchunks - step->span + 1;
        if (choices < 2 || site-- > 0)
            continue;
        describe(m, "step on the next chunk", &at);
        step->chunk = (step->chunk + 1) % choices;
        return true;
    }
    return false;
}

static bool duplicate_source(struct mutant *m, int site)
{
    struct place at;
    for (int k = 0; find_ref(m, k, &at); k++) {
        struct tr_step *step = step_of(m, &at);
        if (at.i >= step->nsrc || site-- > 0)
            continue;
        describe(m, "source read twice", &at);
        int nrefs = step->nsrc + step->ndst;
        struct tr_ref *refs = realloc(m->s->refs, (size_t)(m->s->nrefs + nrefs + 1) * sizeof *refs);
        assert_non_null(refs);
        m->s->refs = refs;
        refs[m->s->nrefs] = refs[step->ref + at.i];
        memcpy(&refs[m->s->nrefs + 1], &refs[step->ref], (size_t)nrefs * sizeof *refs);
        step->ref = m->s->nrefs;
        step->nsrc++;
        m->s->nrefs += nrefs + 1;
        return true;
    }
    return false;
}

static bool writes_out(struct mutant *m, const struct place *at, int rank, int index)
{
    const struct tr_step *step = step_of(m, at);
    const struct tr_ref *dst = &m->s->refs[step->ref + step->nsrc];
    for (int i = 0; i < step->ndst; i++)
        if (dst[i].buffer == TR_OUT && dst[i].rank == rank && dst[i].index <= index &&
            index < dst[i].index + step->span)
            return true;
    return false;
}

/* Whether one and the same step writes chunk `index` of both ranks' OUT. Then both hold the same, and whoever waits
 * for the one has waited for the other: reading either is right. */
static bool written_together(struct mutant *m, int rank, int other, int index)
{
    struct place at;
    for (int k = 0; find_step(m, k, &at); k++)
        if (writes_out(m, &at, rank, index) && writes_out(m, &at, other, index))
            return true;
    return false;
}

static bool change_source_rank(struct mutant *m, int site)
{
    struct place at;
    for (int k = 0; find_ref(m, k, &at); k++) {
        const struct tr_step *step = step_of(m, &at);
        struct tr_ref *ref = &m->s->refs[step->ref + at.i];
        int other = (ref->rank + 1) % m->s->spec.nranks;
        bool twins = ref->buffer == TR_OUT && written_together(m, ref->rank, other, ref->index);
        if (at.i >= step->nsrc || twins || site-- > 0)
            continue;
        describe(m, "source of the next rank", &at);
        ref->rank = other;
        return true;
    }
    return false;
}

static bool unmark_final(struct mutant *m, int site)
{
    struct place at;
    for (int k = 0; find_step(m, k, &at); k++) {
        if (!step_of(m, &at)->final || site-- > 0)
            continue;
        describe(m, "final mark dropped", &at);
        step_of(m, &at)->final = false;
        return true;
    }
    return false;
}

static bool drop_slot(struct mutant *m, int site)
{
    if (site > 0 || m->s->nslots == 0)
        return false;
    m->s->nslots--;
    snprintf(m->what, sizeof m->what, "one mailbox slot fewer");
    return true;
}

static bool has_wait(const struct tr_sync *sync, const struct tr_wait *wait)
{
    for (int i = 0; i < sync->nwaits; i++)
        if (sync->waits[i].rank == wait->rank && sync->waits[i].step == wait->step &&
            sync->waits[i].delta == wait->delta)
            return true;
    return false;
}

static bool has_waits_of(struct mutant *m, struct mutant *other)
{
    struct place at;
    for (int k = 0; find_wait(other, k, true, &at); k++) {
        struct tr_rank_sync *rank = &m->p->ranks[at.rank];
        if (!has_wait(at.step < 0 ? &rank->exit : &rank->steps[at.step], &at.sync->waits[at.i]))
            return false;
    }
    return true;
}

/* Some exchanges need no second copy: the answer to one piece says that it was read before the next is sent. There the
 * plan for fewer copies has no wait that this one lacks, and the mutant is right. */
static bool drop_depth(struct mutant *m, int site)
{
    if (site > 0 || m->s->depth == 1)
        return false;
    m->s->depth--;
    snprintf(m->what, sizeof m->what, "one copy of the slots fewer");
    struct mutant fewer = {.s = m->s};
    if (tr_plan_build(m->s, m->p->protocol, &fewer.p) != TR_OK)
        return true;
    bool right = has_waits_of(m, &fewer);
    tr_plan_free(fewer.p);
    return !right;
}

static const struct mutation {
    const char *name;
    mutate_fn *mutate;
    bool contents; /* wrong with any waits: also tried with waits derived anew */
} mutations[] = {
    {"a dropped wait", drop_wait, false},
    {"a wait moved to the next step", move_wait, false},
    {"a wait for the piece before", weaken_wait, false},
    {"a dropped signal", drop_signal, false},
    {"a dropped step", drop_step, true},
    {"a reference to another chunk or slot", swap_index, true},
    {"a step on another chunk", swap_chunk, true},
    {"a contribution taken twice", duplicate_source, true},
    {"a source of another rank", change_source_rank, false},
    {"a dropped final mark", unmark_final, true},
    {"a mailbox of one slot fewer", drop_slot, true},
    {"a mailbox of one copy fewer", drop_depth, false},
};

/* ---- Trying ------------------------------------------------------------------------------------------------------ */

static void expect_objection(enum tr_status status, const struct mutant *m)
{
    const struct tr_schedule_spec *spec = &m->s->spec;
    const char *sentence = status ? tr_last_error() : "";
    bool names = strstr(sentence, "rank") && strstr(sentence, "step") && strstr(sentence, "chunk");
    if (status == TR_ERR_ARGUMENT && names)
        return;
    fail_msg("%s %s, %d ranks, root %d, remote %d, %s: %s: %s%s", tr_algorithm_name(spec->algorithm),
             tr_collective_name(spec->collective), spec->nranks, spec->root, spec->remote,
             tr_protocol_name(m->p->protocol), m->what,
             status ? "the sentence lacks rank, step or chunk: " : "accepted", sentence);
}

static void try_waits_derived_anew(const struct mutant *m)
{
    struct tr_plan *plan;
    enum tr_status status = tr_plan_build(m->s, m->p->protocol, &plan);
    if (status == TR_OK) {
        status = tr_check_plan(plan);
        tr_plan_free(plan);
    }
    expect_objection(status, m);
}

/* Whether the site exists. */
static bool try_site(const struct mutation *mutation, const struct tr_plan *plan, int site)
{
    struct mutant m = {.s = tr_schedule_copy(plan->schedule)};
    assert_non_null(m.s);
    m.p = tr_plan_copy(plan, m.s);
    assert_non_null(m.p);
    bool exists = mutation->mutate(&m, site);
    if (exists)
        expect_objection(tr_check_plan(m.p), &m);
    if (exists && mutation->contents)
        try_waits_derived_anew(&m);
    tr_plan_free(m.p);
    tr_schedule_free(m.s);
    return exists;
}

static int try_spec(const struct mutation *mutation, const struct tr_schedule_spec *spec)
{
    struct tr_schedule *schedule;
    struct tr_plan *plan;
    int site = 0;
    assert_int_equal(tr_schedule_build(spec, &schedule), TR_OK);
    assert_int_equal(tr_plan_build(schedule, spec->unique ? TR_PROTOCOL_LL : TR_PROTOCOL_DIRECT, &plan), TR_OK);
    assert_int_equal(tr_check_plan(plan), TR_OK);
    while (try_site(mutation, plan, site))
        site++;
    tr_plan_free(plan);
    tr_schedule_free(schedule);
    return site;
}

/* All variants of an algorithm: rank counts, the first and the last root, registered or not, LL or direct. */
static int try_algorithm(const struct mutation *mutation, enum tr_collective collective, enum tr_algorithm algorithm)
{
    int sites = 0;
    bool rooted = collective == TR_BROADCAST || collective == TR_REDUCE;
    for (int nranks = MIN_RANKS; nranks <= (collective == TR_SENDRECV ? 2 : MAX_RANKS); nranks++)
        for (int variant = 0; variant < (rooted ? 8 : 4); variant++) {
            struct tr_schedule_spec spec = {.collective = collective,
                                            .algorithm = algorithm,
                                            .nranks = nranks,
                                            .root = variant & 4 ? nranks - 1 : 0,
                                            .remote = variant & 1,
                                            .unique = variant & 2};
            sites += try_spec(mutation, &spec);
        }
    return sites;
}

static void test_mutation(void **state)
{
    const struct mutation *mutation = *state;
    int sites = 0;
    for (int c = 0; c < TR_COLLECTIVE_COUNT; c++)
        for (int a = 0; a < TR_ALGORITHM_COUNT; a++)
            if (tr_schedule_exists((enum tr_collective)c, (enum tr_algorithm)a))
                sites += try_algorithm(mutation, (enum tr_collective)c, (enum tr_algorithm)a);
    print_message("# %s: %d mutants\n", mutation->name, sites);
    assert_true(sites > 0);
}

int main(void)
{
    enum { COUNT = sizeof mutations / sizeof mutations[0] };
    struct CMUnitTest tests[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        tests[i] = (struct CMUnitTest){
            .name = mutations[i].name, .test_func = test_mutation, .initial_state = (void *)(uintptr_t)&mutations[i]};
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("mutation", tests, NULL, NULL);
}

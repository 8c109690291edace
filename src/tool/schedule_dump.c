/* schedule_dump.c - the steps of a schedule, for people and as JSON. */
#include "tool/schedule.h"

#include <jansson.h>
#include <stdio.h>

static const char *const buffer_names[TR_BUFFER_COUNT] = {[TR_IN] = "IN", [TR_OUT] = "OUT", [TR_BOX] = "BOX"};

const char *schedule_ref(const struct tr_ref *ref, int rank, char text[static REF_TEXT])
{
    if (ref->rank == rank)
        snprintf(text, REF_TEXT, "%s[%d]", buffer_names[ref->buffer], ref->index);
    else
        snprintf(text, REF_TEXT, "%d:%s[%d]", ref->rank, buffer_names[ref->buffer], ref->index);
    return text;
}

static void print_refs(const struct tr_ref *refs, int n, int rank, const char *between)
{
    char text[REF_TEXT];
    for (int k = 0; k < n; k++)
        printf("%s%s", k ? between : "", schedule_ref(&refs[k], rank, text));
}

static void print_chunks(const struct tr_step *step)
{
    char text[REF_TEXT];
    if (step->span == 1)
        snprintf(text, sizeof text, "chunk %d", step->chunk);
    else
        snprintf(text, sizeof text, "chunks %d..%d", step->chunk, step->chunk + step->span - 1);
    printf("%-16s", text);
}

static void print_step(const struct tr_schedule *s, int rank, int i)
{
    const struct tr_step *step = &s->ranks[rank].steps[i];
    printf("  %4d  ", i);
    print_chunks(step);
    if (s->max_lag)
        printf(" lag %-3d", step->lag);
    printf(" %-6s", step->final ? "final" : "");
    print_refs(&s->refs[step->ref], step->nsrc, rank, " + ");
    fputs(" -> ", stdout);
    print_refs(&s->refs[step->ref + step->nsrc], step->ndst, rank, ", ");
    putchar('\n');
}

void schedule_dump(const struct schedule_view *view)
{
    const struct tr_schedule *s = view->schedule;
    printf("# %s by %s, %d ranks: %d chunk%s, %d mailbox slot%s a rank x %d, largest lag %d\n",
           tr_collective_name(s->spec.collective), tr_algorithm_name(s->spec.algorithm), s->spec.nranks, s->nchunks,
           s->nchunks == 1 ? "" : "s", s->nslots, s->nslots == 1 ? "" : "s", s->depth, s->max_lag);
    printf(
        "# a step: number, chunks of the vector%s, sources added in this order -> destinations; 2:BOX[0] is rank 2's\n",
        s->max_lag ? ", iterations behind" : "");
    for (int r = 0; r < s->spec.nranks; r++) {
        printf("rank %d\n", r);
        for (int i = 0; i < s->ranks[r].nsteps; i++)
            print_step(s, r, i);
    }
}

static json_t *refs_json(const struct tr_ref *refs, int n)
{
    json_t *list = json_array();
    for (int k = 0; k < n; k++)
        json_array_append_new(list, json_pack("{si ss si}", "rank", refs[k].rank, "buffer",
                                              buffer_names[refs[k].buffer], "index", refs[k].index));
    return list;
}

static json_t *step_json(const struct tr_schedule *s, const struct tr_step *step)
{
    return json_pack("{si si si sb so so}", "chunk", step->chunk, "span", step->span, "lag", step->lag, "final",
                     step->final, "sources", refs_json(&s->refs[step->ref], step->nsrc), "destinations",
                     refs_json(&s->refs[step->ref + step->nsrc], step->ndst));
}

bool schedule_dump_json(const struct schedule_view *view)
{
    const struct tr_schedule *s = view->schedule;
    json_t *ranks = json_array();
    for (int r = 0; r < s->spec.nranks; r++) {
        json_t *steps = json_array();
        for (int i = 0; i < s->ranks[r].nsteps; i++)
            json_array_append_new(steps, step_json(s, &s->ranks[r].steps[i]));
        json_array_append_new(ranks, steps);
    }
    json_t *root = json_pack("{ss si ss ss si si sb sb si si si si so}", "schema", "treering-schedule",
                             "schema_version", 1, "collective", tr_collective_name(s->spec.collective), "algorithm",
                             tr_algorithm_name(s->spec.algorithm), "nranks", s->spec.nranks, "root", s->spec.root,
                             "remote", s->spec.remote, "unique", s->spec.unique, "nchunks", s->nchunks, "nslots",
                             s->nslots, "depth", s->depth, "max_lag", s->max_lag, "ranks", ranks);
    bool ok = root && json_dumpf(root, stdout, JSON_INDENT(1)) == 0 && putchar('\n') != EOF;
    json_decref(root);
    return ok;
}

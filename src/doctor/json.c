/* json.c - the findings as JSON, schema "treering-doctor" (docs/doctor.md). */
#include "doctor/finding.h"
#include "doctor/pairs.h"

#include <jansson.h>
#include <stdio.h>

enum { SCHEMA_VERSION = 1 };

static json_t *text_or_null(const char *text)
{
    return *text ? json_string(text) : json_null();
}

/* ---- Checks ------------------------------------------------------------------------------------------------------ */

static json_t *list_ranks(const struct doctor *doctor, const struct doctor_finding *finding)
{
    json_t *list = json_array();
    for (int r = 0; r < doctor->nranks; r++)
        if (finding->ranks[r])
            json_array_append_new(list, json_pack("{s:i, s:s}", "rank", r, "host", doctor->facts[r].host));
    return list;
}

static json_t *list_checks(const struct doctor *doctor, const struct doctor_finding *findings)
{
    json_t *list = json_array();
    for (int i = 0; i < doctor_nrows; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:o, s:o}", "name", doctor_rows[i].name, "verdict",
                                              doctor_verdict_names[findings[i].verdict], "finding", findings[i].text,
                                              "action", text_or_null(findings[i].advice), "ranks",
                                              list_ranks(doctor, &findings[i])));
    return list;
}

/* ---- Ranks ------------------------------------------------------------------------------------------------------- */

static json_t *describe_gpu(const struct doctor *doctor, int rank)
{
    const struct doctor_gpus *gpus = &doctor->gpus[rank];
    const struct doctor_card *card = &doctor->cards[rank];
    if (gpus->state != DOCTOR_GPU_WORKS)
        return json_null();
    const struct doctor_gpu *gpu = &gpus->gpus[gpus->chosen];
    json_t *object = json_pack("{s:i, s:s, s:s, s:s, s:I, s:I}", "device", gpus->chosen, "name", gpu->name, "uuid",
                               gpu->uuid, "bus_id", gpu->bus_id, "free_bytes", (json_int_t)gpus->free_bytes,
                               "total_bytes", (json_int_t)gpus->total_bytes);
    if (card->known)
        json_object_update_new(object, json_pack("{s:i, s:i, s:i, s:I, s:i, s:i, s:I}", "nvlinks", card->links,
                                                 "nvlinks_active", card->links_active, "nvlink_mbps", card->link_mbps,
                                                 "nvlink_errors", (json_int_t)card->link_errors, "sm_mhz", card->sm_mhz,
                                                 "sm_max_mhz", card->sm_most_mhz, "clocks_event_reasons",
                                                 (json_int_t)card->slowed));
    return object;
}

static json_t *list_visible(const struct doctor_gpus *gpus)
{
    json_t *list = json_array();
    for (int i = 0; i < gpus->ngpus; i++)
        json_array_append_new(list, json_string(gpus->gpus[i].uuid));
    return list;
}

static json_t *list_all_ranks(const struct doctor *doctor)
{
    json_t *list = json_array();
    for (int r = 0; r < doctor->nranks; r++) {
        const struct doctor_facts *facts = &doctor->facts[r];
        char cpus[256];
        cpus_text(&facts->cpus, cpus, sizeof cpus);
        json_array_append_new(list, json_pack("{s:i, s:s, s:i, s:s, s:o, s:o}", "rank", r, "host", facts->host, "pid",
                                              facts->pid, "cpus", cpus, "gpus_visible", list_visible(&doctor->gpus[r]),
                                              "gpu", describe_gpu(doctor, r)));
    }
    return list;
}

/* ---- Pairs ------------------------------------------------------------------------------------------------------- */

static json_t *trial(enum doctor_trial trial)
{
    return trial == DOCTOR_UNTRIED ? json_null() : json_boolean(trial == DOCTOR_WORKS);
}

static json_t *list_pairs(const struct doctor *doctor)
{
    json_t *list = json_array();
    for (int from = 0; from < doctor->nranks; from++)
        for (int to = 0; to < doctor->nranks; to++) {
            const struct doctor_pair *pair = &doctor_row(doctor, from)[to];
            if (from == to)
                continue;
            json_array_append_new(list, json_pack("{s:i, s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "from", from, "to",
                                                  to, "transport", doctor_link_names[pair->link], "shared_memory",
                                                  trial(pair->shared), "private_writes", trial(pair->private_),
                                                  "gpu_stores", trial(pair->stores), "gpu_copies", trial(pair->copies),
                                                  "gpu_loads", trial(pair->loads), "why", text_or_null(pair->why)));
        }
    return list;
}

bool doctor_print_json(const struct doctor *doctor, const struct doctor_finding *findings, int exit_code)
{
    json_t *root =
        json_pack("{s:s, s:i, s:s, s:i, s:s, s:i, s:o, s:o, s:o}", "schema", "treering-doctor", "schema_version",
                  SCHEMA_VERSION, "treering", tr_version(), "nranks", doctor->nranks, "verdict",
                  doctor_verdict_names[doctor_worst(findings)], "exit_code", exit_code, "checks",
                  list_checks(doctor, findings), "ranks", list_all_ranks(doctor), "pairs", list_pairs(doctor));
    bool written = root && json_dumpf(root, stdout, JSON_INDENT(2)) == 0 && putchar('\n') != EOF && fflush(stdout) == 0;
    json_decref(root);
    return written;
}

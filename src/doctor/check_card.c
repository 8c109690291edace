/* check_card.c - what the driver's monitor (NVML) says of the ranks' GPUs. */
#include "doctor/checks.h"
#include "doctor/pairs.h"

static bool is_unknown(const struct doctor *doctor, struct doctor_finding *finding)
{
    if (!doctor_uses_gpus(doctor)) {
        finding_say(finding, DOCTOR_NOT_APPLICABLE, "the ranks use host memory");
        return true;
    }
    if (doctor->cards[0].known)
        return false;
    finding_say(finding, DOCTOR_NOT_APPLICABLE, "not known: libnvidia-ml.so.1 was not found or does not know the GPU");
    return true;
}

static bool has_idle_links(const struct doctor *doctor, int rank)
{
    const struct doctor_card *card = &doctor->cards[rank];
    return card->links_active > 0 && (card->links_active < card->links || card->link_speeds_differ);
}

static bool has_no_active_link(const struct doctor *doctor, int rank)
{
    return doctor->cards[rank].links > 0 && doctor->cards[rank].links_active == 0;
}

static bool has_link_errors(const struct doctor *doctor, int rank)
{
    return doctor->cards[rank].link_errors > 0;
}

/* A single GPU, or one behind PCIe alone, may well have no active link: that is said, and judged by the pairs. */
void check_nvlink(const struct doctor *doctor, struct doctor_finding *finding)
{
    if (is_unknown(doctor, finding))
        return;
    int idle = finding_mark(doctor, finding, has_idle_links);
    int none = idle < 0 ? finding_mark(doctor, finding, has_no_active_link) : -1;
    int errors = idle < 0 && none < 0 ? finding_mark(doctor, finding, has_link_errors) : -1;
    int at = idle >= 0 ? idle : none >= 0 ? none : errors >= 0 ? errors : 0;
    const struct doctor_card *card = &doctor->cards[at];
    if (card->links == 0) {
        finding_say(finding, DOCTOR_NOT_APPLICABLE, "the GPU has none");
        return;
    }
    finding_say(
        finding, idle >= 0 || errors >= 0 ? DOCTOR_WARNING : DOCTOR_OK,
        "%d of %d links active at %.1f GB/s each way%s; %llu replays, recoveries and CRC errors on %d links since "
        "the driver was loaded",
        card->links_active, card->links, card->link_mbps / 1e3,
        card->link_speeds_differ ? " (the slowest; others are faster)" : "", card->link_errors,
        card->links_with_errors);
    if (idle >= 0)
        finding_advise(finding, "nvidia-smi nvlink -s shows which are down; reset the GPU, or have it looked at");
    else if (errors >= 0)
        finding_advise(finding, "nvidia-smi nvlink -e: a count that grows is a bad link");
}

static bool is_slowed(const struct doctor *doctor, int rank)
{
    return doctor_nvml_reason(doctor->cards[rank].slowed) != NULL;
}

/* The GPU is nearly idle now: its clocks may rest, but what holds them down under load shows as a reason. */
void check_clocks(const struct doctor *doctor, struct doctor_finding *finding)
{
    if (is_unknown(doctor, finding))
        return;
    int first = finding_mark(doctor, finding, is_slowed);
    const struct doctor_card *card = &doctor->cards[first < 0 ? 0 : first];
    finding_say(
        finding, first < 0 ? DOCTOR_OK : DOCTOR_WARNING, "SM %d of %d MHz, memory %d of %d MHz, %d C, %s%s",
        card->sm_mhz, card->sm_most_mhz, card->memory_mhz, card->memory_most_mhz, card->celsius,
        first < 0 ? "nothing slows it down" : "slowed down: ", first < 0 ? "" : doctor_nvml_reason(card->slowed));
    if (first >= 0)
        finding_advise(finding,
                       "nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE says more; results will vary until it ends");
}

/*
 * nvml.h - what the driver's monitoring library says of a GPU: links, clocks, and what slows it down.
 *
 * libnvidia-ml.so.1 comes with the driver and is loaded at run time: without it everything is unknown.
 */
#ifndef DOCTOR_NVML_H
#define DOCTOR_NVML_H

#include <stdbool.h>

struct doctor_card {
    bool known;
    char driver[32];
    int links, links_active; /* NVLinks; 0: the GPU has none */
    int link_mbps;           /* of one active link, one way, MB/s; 0: not told */
    int link_speeds_differ;
    unsigned long long link_errors; /* replays, recoveries and CRC errors since the driver was loaded; all links */
    int links_with_errors;
    int sm_mhz, sm_most_mhz, memory_mhz, memory_most_mhz;
    unsigned long long slowed; /* why the clocks are low: bits of nvmlClocksEventReasons */
    int celsius;
};

/* Fill in for the GPU with this UUID; known is false where NVML does not know it. */
void doctor_nvml_look(const char *uuid, struct doctor_card *card);

/* The same for the clocks, what slows them down and the temperature alone, which takes less time. */
void doctor_nvml_look_at_clocks(const char *uuid, struct doctor_card *card);

/* Whether NVLink joins two GPUs, directly or through switches. */
bool doctor_nvml_joined(const char *uuid, const char *other);

/* The first reason among `slowed` that costs speed, for people; NULL: none does. */
const char *doctor_nvml_reason(unsigned long long slowed);

#endif

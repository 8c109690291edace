/*
 * nvml.c - asks NVML. Its interface is declared here as far as it is used (NVML API Reference Guide, "Device Queries",
 * "NvLink Methods", "Field Value Queries"), since the toolkit's header is a package of its own that few have; the
 * functions keep their names and arguments for good, a change gets a new name.
 */
#include "doctor/nvml.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct nvml_device *nvml_device;

/* nvmlFieldValue_t */
struct nvml_field {
    unsigned id, scope;
    long long timestamp, latency_us;
    int type, result;
    union {
        double real;
        unsigned u32;
        unsigned long long u64;
    } value;
};

enum {
    NVML_CLOCK_SM = 1,
    NVML_CLOCK_MEM = 2,
    NVML_TEMPERATURE_GPU = 0,
    NVML_P2P_CAPS_INDEX_NVLINK = 2,
    NVML_P2P_STATUS_OK = 0,
    NVML_FI_DEV_NVLINK_GET_SPEED = 164, /* MB/s of the link in `scope` */
    NVML_LINKS = 36,                    /* NVML_NVLINK_MAX_LINKS */
    NVML_LINK_ERRORS = 4,               /* replay, recovery, CRC of flits, CRC of data */
};

/* Functions, 0 when they succeed. */
static struct {
    pthread_once_t once;
    bool works;
    int (*init)(void);
    int (*driver)(char *text, unsigned size);
    int (*by_uuid)(const char *uuid, nvml_device *device);
    int (*clock)(nvml_device device, int type, unsigned *mhz);
    int (*clock_most)(nvml_device device, int type, unsigned *mhz);
    int (*slowed)(nvml_device device, unsigned long long *reasons);
    int (*temperature)(nvml_device device, int sensor, unsigned *celsius);
    int (*link_state)(nvml_device device, unsigned link, int *active);
    int (*link_errors)(nvml_device device, unsigned link, int counter, unsigned long long *errors);
    int (*fields)(nvml_device device, int count, struct nvml_field *fields);
    int (*p2p)(nvml_device device, nvml_device other, int index, int *status);
} nvml = {.once = PTHREAD_ONCE_INIT};

static const struct {
    const char *name;
    void *function; /* where its address goes */
} symbols[] = {
    {"nvmlInit_v2", &nvml.init},
    {"nvmlSystemGetDriverVersion", &nvml.driver},
    {"nvmlDeviceGetHandleByUUID", &nvml.by_uuid},
    {"nvmlDeviceGetClockInfo", &nvml.clock},
    {"nvmlDeviceGetMaxClockInfo", &nvml.clock_most},
    {"nvmlDeviceGetCurrentClocksThrottleReasons", &nvml.slowed},
    {"nvmlDeviceGetTemperature", &nvml.temperature},
    {"nvmlDeviceGetNvLinkState", &nvml.link_state},
    {"nvmlDeviceGetNvLinkErrorCounter", &nvml.link_errors},
    {"nvmlDeviceGetFieldValues", &nvml.fields},
    {"nvmlDeviceGetP2PStatus", &nvml.p2p},
};

static void load(void)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *address = dlsym(library, symbols[i].name);
        if (!address)
            return;
        memcpy(symbols[i].function, &address, sizeof address);
    }
    nvml.works = nvml.init() == 0;
}

static bool find(const char *uuid, nvml_device *device)
{
    pthread_once(&nvml.once, load);
    return nvml.works && nvml.by_uuid(uuid, device) == 0;
}

static int clock_of(int (*ask)(nvml_device device, int type, unsigned *mhz), nvml_device device, int type)
{
    unsigned mhz = 0;
    return ask(device, type, &mhz) == 0 ? (int)mhz : 0;
}

static int link_speed(nvml_device device, unsigned link)
{
    struct nvml_field field = {.id = NVML_FI_DEV_NVLINK_GET_SPEED, .scope = link};
    return nvml.fields(device, 1, &field) == 0 && field.result == 0 ? (int)field.value.u32 : 0;
}

static void look_at_link(nvml_device device, unsigned link, struct doctor_card *card)
{
    int active = 0;
    if (nvml.link_state(device, link, &active) != 0)
        return;
    card->links++;
    card->links_active += active != 0;
    unsigned long long before = card->link_errors, errors;
    for (int counter = 0; counter < NVML_LINK_ERRORS; counter++)
        if (nvml.link_errors(device, link, counter, &errors) == 0)
            card->link_errors += errors;
    card->links_with_errors += card->link_errors != before;
    int mbps = active ? link_speed(device, link) : 0;
    if (mbps && card->link_mbps && mbps != card->link_mbps)
        card->link_speeds_differ = 1;
    if (mbps && (!card->link_mbps || mbps < card->link_mbps))
        card->link_mbps = mbps;
}

static void look_at_clocks(nvml_device device, struct doctor_card *card)
{
    unsigned celsius = 0;
    card->sm_mhz = clock_of(nvml.clock, device, NVML_CLOCK_SM);
    card->sm_most_mhz = clock_of(nvml.clock_most, device, NVML_CLOCK_SM);
    card->memory_mhz = clock_of(nvml.clock, device, NVML_CLOCK_MEM);
    card->memory_most_mhz = clock_of(nvml.clock_most, device, NVML_CLOCK_MEM);
    if (nvml.slowed(device, &card->slowed) != 0)
        card->slowed = 0;
    if (nvml.temperature(device, NVML_TEMPERATURE_GPU, &celsius) == 0)
        card->celsius = (int)celsius;
}

void doctor_nvml_look(const char *uuid, struct doctor_card *card)
{
    nvml_device device;
    memset(card, 0, sizeof *card);
    card->known = find(uuid, &device);
    if (!card->known)
        return;
    nvml.driver(card->driver, sizeof card->driver);
    for (unsigned link = 0; link < NVML_LINKS; link++)
        look_at_link(device, link, card);
    look_at_clocks(device, card);
}

void doctor_nvml_look_at_clocks(const char *uuid, struct doctor_card *card)
{
    nvml_device device;
    memset(card, 0, sizeof *card);
    card->known = find(uuid, &device);
    if (card->known)
        look_at_clocks(device, card);
}

bool doctor_nvml_joined(const char *uuid, const char *other)
{
    nvml_device a, b;
    int status = NVML_P2P_STATUS_OK + 1;
    return find(uuid, &a) && find(other, &b) && nvml.p2p(a, b, NVML_P2P_CAPS_INDEX_NVLINK, &status) == 0 &&
           status == NVML_P2P_STATUS_OK;
}

static const struct {
    unsigned long long bit;
    const char *text;
} reasons[] = {
    {0x40, "too hot (hardware slowdown)"},
    {0x20, "too hot (software slowdown)"},
    {0x80, "the power supply asks for less (power brake)"},
    {0x8, "hardware slowdown"},
    {0x4, "the power limit is reached"},
};

const char *doctor_nvml_reason(unsigned long long slowed)
{
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (slowed & reasons[i].bit)
            return reasons[i].text;
    return NULL;
}

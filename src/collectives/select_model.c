/*
 * select_model.c - the model of this machine, from which AUTO takes the fastest way to run a call.
 *
 * Rank 0 finds and reads the file and gives the curves to all, so that all choose alike. A file that was asked for must be
 * there and fit this communicator; the one in the user's own folder is passed over, and info.model says why, where it
 * does not.
 */
#include "collectives/comm.h"
#include "collectives/error.h"
#include "model/choice.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Where the file is ------------------------------------------------------------------------------------------- */

void tr_comm_machine(const struct tr_comm *comm, struct tr_machine *machine)
{
    const struct tr_comm_info *info = &comm->info;
    bool cuda = comm->memory == TR_MEMORY_CUDA;
    *machine = (struct tr_machine){
        .memory = comm->memory, .nranks = comm->size, .ranks_on_device = cuda ? info->ranks_on_device : 0};
    snprintf(machine->name, sizeof machine->name, "%s", cuda ? info->device_name : info->cpu_name);
    snprintf(machine->host, sizeof machine->host, "%s", info->host);
}

/* "NVIDIA H200" -> "nvidia-h200" */
static void append_slug(char *text, size_t size, const char *name)
{
    size_t n = strlen(text);
    for (bool gap = false; *name && n + 2 < size; name++) {
        if (isalnum((unsigned char)*name)) {
            if (gap && text[n - 1] != '-')
                text[n++] = '-';
            text[n++] = (char)tolower((unsigned char)*name);
        }
        gap = !isalnum((unsigned char)*name);
    }
    text[n] = '\0';
}

enum tr_status tr_model_default_path(const struct tr_machine *machine, char *path, size_t size)
{
    const char *home = getenv("HOME"), *config = getenv("XDG_CONFIG_HOME");
    bool has_config = config && *config == '/';
    if (!has_config && !(home && *home == '/'))
        return tr_error(TR_ERR_ARGUMENT, "neither XDG_CONFIG_HOME nor HOME names a folder: set HOME");
    char name[160] = "";
    append_slug(name, sizeof name, tr_memory_name(machine->memory));
    strcat(name, "-");
    append_slug(name, 128, machine->name);
    int n = snprintf(path, size, "%s%s/treering/%s-%d-ranks", has_config ? config : home, has_config ? "" : "/.config",
                     name, machine->nranks);
    if (machine->ranks_on_device > 1 && n > 0 && (size_t)n < size)
        n += snprintf(path + n, size - (size_t)n, "-%d-a-gpu", machine->ranks_on_device);
    if (n > 0 && (size_t)n < size)
        n += snprintf(path + n, size - (size_t)n, ".json");
    return n > 0 && (size_t)n < size ? TR_OK : tr_error(TR_ERR_ARGUMENT, "the path of the user's folder is too long");
}

struct source {
    char path[PATH_MAX]; /* "": none */
    bool asked_for;
};

static void find_source(const struct tr_comm *comm, const struct tr_machine *machine, struct source *source)
{
    const char *given = comm->config.model ? comm->config.model : getenv("TREERING_MODEL");
    *source = (struct source){.asked_for = given && *given};
    if (source->asked_for && strcmp(given, "none") == 0)
        return;
    if (source->asked_for)
        snprintf(source->path, sizeof source->path, "%s", given);
    else if (tr_model_default_path(machine, source->path, sizeof source->path) != TR_OK ||
             access(source->path, F_OK) != 0)
        source->path[0] = '\0';
}

/* ---- Whether it fits --------------------------------------------------------------------------------------------- */

/* True if the model was measured on such a machine and launch; else `why` says in what they differ. */
static bool fits(const struct tr_model *model, const struct tr_machine *machine, char *why, size_t size)
{
    const struct tr_machine *measured = &model->machine;
    if (measured->memory != machine->memory)
        snprintf(why, size, "it is for %s memory, this communicator is on %s memory", tr_memory_name(measured->memory),
                 tr_memory_name(machine->memory));
    else if (strcmp(measured->name, machine->name) != 0)
        snprintf(why, size, "it is for '%.80s', this machine is '%.80s'", measured->name, machine->name);
    else if (measured->nranks != machine->nranks)
        snprintf(why, size, "it is for %d ranks, this communicator has %d", measured->nranks, machine->nranks);
    else if (measured->ranks_on_device != machine->ranks_on_device)
        snprintf(why, size, "it is for %d ranks a GPU, here are %d", measured->ranks_on_device,
                 machine->ranks_on_device);
    else if (model->ncurves == 0)
        snprintf(why, size, "it has no fitted curves");
    else
        return true;
    return false;
}

/* Read the model on this rank; `model` stays NULL where AUTO shall use the built-in table. */
static enum tr_status read_model(struct tr_comm *comm, const struct source *source, const struct tr_machine *machine,
                                 struct tr_model **out)
{
    char why[256];
    struct tr_model *model = NULL;
    snprintf(comm->info.model, sizeof comm->info.model, "built-in table");
    if (!source->path[0])
        return TR_OK;
    enum tr_status status = tr_model_read(source->path, &model);
    if (status == TR_OK && fits(model, machine, why, sizeof why)) {
        snprintf(comm->info.model, sizeof comm->info.model, "%.250s", source->path);
        *out = model;
        return TR_OK;
    }
    tr_model_free(model);
    if (source->asked_for)
        return status ? status
                      : tr_error(TR_ERR_ARGUMENT,
                                 "the model %s does not fit: %s; run treering tune here, or set TREERING_MODEL=none",
                                 source->path, why);
    snprintf(comm->info.model, sizeof comm->info.model, "built-in table; not %.120s: %.100s", source->path,
             status ? tr_last_error() : why);
    return TR_OK;
}

/* ---- Giving it to all -------------------------------------------------------------------------------------------- */

static enum tr_status broadcast(struct tr_comm *comm, void *data, size_t bytes, const char *what)
{
    MPI_Request request;
    if (MPI_Ibcast(data, (int)bytes, MPI_BYTE, 0, comm->mpi, &request) != MPI_SUCCESS)
        return tr_error(TR_ERR_MPI, "MPI_Ibcast of %s failed", what);
    return tr_comm_wait(comm, 1, &request, what);
}

static enum tr_status share_curves(struct tr_comm *comm, const struct tr_curve *mine, int ncurves)
{
    size_t bytes = (size_t)ncurves * sizeof *mine;
    struct tr_curve *curves = malloc(bytes);
    enum tr_status status = curves ? TR_OK : tr_error(TR_ERR_MEMORY, "no memory for the %d curves of a model", ncurves);
    status = tr_comm_agree(comm, status);
    if (status == TR_OK && comm->rank == 0)
        memcpy(curves, mine, bytes);
    if (status == TR_OK)
        status = broadcast(comm, curves, bytes, "the model's curves");
    if (status == TR_OK)
        status = tr_comm_agree(comm, tr_chooser_create(curves, ncurves, &comm->chooser));
    if (status != TR_ERR_TIMEOUT) /* MPI may yet write into a broadcast that timed out */
        free(curves);
    return status;
}

enum tr_status tr_select_open_model(struct tr_comm *comm)
{
    struct tr_model *model = NULL;
    struct tr_machine machine;
    struct source source;
    enum tr_status status = TR_OK;
    int ncurves = 0;
    if (comm->rank == 0) {
        tr_comm_machine(comm, &machine);
        find_source(comm, &machine, &source);
        status = read_model(comm, &source, &machine, &model);
        ncurves = model ? model->ncurves : 0;
    }
    status = tr_comm_agree(comm, status);
    if (status == TR_OK)
        status = broadcast(comm, comm->info.model, sizeof comm->info.model, "the model's name");
    if (status == TR_OK)
        status = broadcast(comm, &ncurves, sizeof ncurves, "the number of the model's curves");
    if (status == TR_OK && ncurves > 0)
        status = share_curves(comm, model ? model->curves : NULL, ncurves);
    tr_model_free(model);
    return status;
}

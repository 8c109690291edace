/* result_file.c - reading the JSON that the benches write, described in docs/results.md. */
#include "model/result_file.h"
#include "collectives/error.h"
#include "model/reader.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NEWEST_VERSION = 2,
    MOST_BYTES = 32 << 20, /* of a file; a sweep of a hundred sizes has 1 MiB */
    MOST_POINTS = 100000,
    MOST_CONTENDERS = 1000, /* at one point */
    MOST_RANKS = 1 << 20,
    MOST_CHANNELS = 1 << 16
};
static const double most_us = 1e15;
static const long long most_bytes = 1LL << 60;

/* A text from the machine that was measured, cut to fit; "" where it is not known. */
static void read_fact(const struct tr_node *object, const char *key, char *text, size_t size)
{
    char whole[1024] = "";
    if (tr_member(object, key).value)
        tr_read_text(object, key, whole, sizeof whole);
    size_t length = strnlen(whole, size);
    if (length == size) /* before the character that does not fit whole */
        for (length--; length > 0 && (whole[length] & 0xC0) == 0x80;)
            length--;
    memcpy(text, whole, length);
    text[length] = '\0';
}

static void read_gpu(const struct tr_node *root, struct tr_machine *machine)
{
    struct tr_node ranks = tr_read_array(root, "ranks", MOST_RANKS);
    struct tr_node first = tr_read_item(&ranks, 0);
    read_fact(&first, "device_name", machine->name, sizeof machine->name);
    machine->ranks_on_device = (int)tr_read_whole(&first, "ranks_on_device", 1, MOST_RANKS);
}

static void read_machine(const struct tr_node *root, struct tr_machine *machine)
{
    struct tr_node environment = tr_read_object(root, "environment");
    machine->memory = tr_read_memory(root, "memory");
    machine->nranks = (int)tr_read_whole(root, "nranks", 1, MOST_RANKS);
    read_fact(&environment, "host", machine->host, sizeof machine->host);
    if (machine->memory == TR_MEMORY_CUDA) {
        read_gpu(root, machine);
    } else {
        read_fact(&environment, "cpu", machine->name, sizeof machine->name);
        machine->ranks_on_device = 0;
    }
}

/* Null, or what was asked for: a number (version 1), or an array of numbers. */
static bool read_channels(const struct tr_node *options)
{
    struct tr_node channels = tr_member(options, "channels");
    if (json_is_array(channels.value))
        return true;
    if (channels.value)
        tr_read_whole(options, "channels", 1, MOST_CHANNELS);
    return channels.value != NULL;
}

static void read_options(const struct tr_node *root, struct tr_result_file *file)
{
    static const char *const buffers[] = {"plain", "registered"};
    struct tr_node options = tr_read_object(root, "options");
    file->in_place = tr_read_boolean(&options, "in_place");
    file->registered = tr_read_choice(&options, "buffers", buffers, 2) == 1;
    file->fixed_channels = read_channels(&options);
    file->graph = tr_read_whole(&options, "graph_launches", 0, INT32_MAX) > 0;
}

/* ---- Points ------------------------------------------------------------------------------------------------------ */

static void read_time(const struct tr_node *object, struct tr_result *result)
{
    struct tr_node time = tr_read_object(object, "time_us");
    result->median_us = tr_read_number(&time, "median", 0, most_us);
    result->ci_low_us = tr_read_number(&time, "ci95_low", 0, most_us);
    result->ci_high_us = tr_read_number(&time, "ci95_high", 0, most_us);
    if (!(result->ci_low_us <= result->median_us && result->median_us <= result->ci_high_us))
        tr_refuse(&time, "has a median of %g outside its interval from %g to %g", result->median_us, result->ci_low_us,
                  result->ci_high_us);
}

static void read_result(const struct tr_node *object, struct tr_result *result)
{
    static const char *const states[] = {"measured", "wrong", "not_served"};
    tr_read_text(object, "contender", result->contender, sizeof result->contender);
    result->peer = tr_read_boolean(object, "peer");
    result->algorithm = tr_read_algorithm(object, "algorithm");
    result->measured = tr_read_choice(object, "state", states, 3) == 0;
    bool resolved = !result->peer && (result->measured || tr_member(object, "protocol").value);
    if (resolved) {
        result->protocol = tr_read_protocol(object, "protocol");
        result->channels = (int)tr_read_whole(object, "channels", 1, MOST_CHANNELS);
    }
    if (result->measured)
        read_time(object, result);
}

static bool grow(struct tr_result_file *file, size_t more)
{
    size_t n = (size_t)file->nresults + more;
    struct tr_result *results = realloc(file->results, (n ? n : 1) * sizeof *results);
    if (!results)
        return false;
    memset(results + file->nresults, 0, more * sizeof *results);
    file->results = results;
    return true;
}

static enum tr_status read_point(const struct tr_node *point, struct tr_result_file *file)
{
    size_t bytes = (size_t)tr_read_whole(point, "bytes", 0, most_bytes);
    enum tr_datatype datatype = tr_read_datatype(point, "datatype");
    bool has_op = tr_member(point, "op").value;
    enum tr_op op = has_op ? tr_read_op(point, "op") : TR_SUM;
    struct tr_node results = tr_read_array(point, "results", MOST_CONTENDERS);
    size_t n = tr_array_length(&results);
    if (!grow(file, n))
        return tr_error(TR_ERR_MEMORY, "no memory for the results in %s: free some", file->path);
    for (size_t i = 0; i < n && tr_reader_good(point->reader); i++) {
        struct tr_node item = tr_read_item(&results, i);
        struct tr_result *result = &file->results[file->nresults++];
        *result = (struct tr_result){.datatype = datatype, .has_op = has_op, .op = op, .bytes = bytes};
        read_result(&item, result);
    }
    return point->reader->status;
}

static enum tr_status read_file(const struct tr_node *root, struct tr_result_file *file)
{
    tr_read_schema(root, "treering-bench", NEWEST_VERSION);
    file->collective = tr_read_collective(root, "collective");
    read_machine(root, &file->machine);
    read_options(root, file);
    struct tr_node environment = tr_read_object(root, "environment");
    if (tr_member(&environment, "cpus_online").value)
        file->cpus = (int)tr_read_whole(&environment, "cpus_online", 1, MOST_RANKS);
    struct tr_node points = tr_read_array(root, "points", MOST_POINTS);
    enum tr_status status = root->reader->status;
    for (size_t i = 0; i < tr_array_length(&points) && status == TR_OK; i++) {
        struct tr_node point = tr_read_item(&points, i);
        status = read_point(&point, file);
    }
    return status;
}

/* ---- The file ---------------------------------------------------------------------------------------------------- */

enum tr_status tr_result_file_parse(const char *path, const char *text, size_t length, struct tr_result_file **file)
{
    struct tr_reader reader;
    enum tr_status status = tr_reader_open(&reader, path, "measure again, or give another file", text, length);
    if (status != TR_OK)
        return status;
    struct tr_node root = tr_reader_root(&reader);
    struct tr_result_file *made = calloc(1, sizeof *made);
    if (!made) {
        status = tr_error(TR_ERR_MEMORY, "no memory for what %.300s holds: free some", path);
        goto close_reader;
    }
    snprintf(made->path, sizeof made->path, "%s", path);
    status = read_file(&root, made);
    if (status == TR_OK)
        *file = made;
    else
        tr_result_file_free(made);
close_reader:
    tr_reader_close(&reader);
    return status;
}

enum tr_status tr_result_file_read(const char *path, struct tr_result_file **file)
{
    char *text;
    size_t length;
    enum tr_status status = tr_file_text(path, MOST_BYTES, &text, &length);
    if (status != TR_OK)
        return status;
    status = tr_result_file_parse(path, text, length, file);
    free(text);
    return status;
}

void tr_result_file_free(struct tr_result_file *file)
{
    if (!file)
        return;
    free(file->results);
    free(file);
}

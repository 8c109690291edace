/* result_file_test.c - result files are read as they were written, and refused with line and field when they are not. */
#include "model/result_file.h"
#include "mutate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static enum tr_status parse(const char *path, const char *text, size_t length)
{
    struct tr_result_file *file = NULL;
    enum tr_status status = tr_result_file_parse(path, text, length, &file);
    assert_true((status == TR_OK) == (file != NULL));
    tr_result_file_free(file);
    return status;
}

/* Three sizes of ring, twoshot, auto and mpi from a real run; twoshot marked wrong at the second. */
static void test_real_file(void **state)
{
    (void)state;
    size_t length;
    char *text = mutate_load("bench_v1.json", &length);
    struct tr_result_file *file;
    assert_int_equal(tr_result_file_parse("x.json", text, length, &file), TR_OK);
    assert_int_equal(file->collective, TR_ALLREDUCE);
    assert_int_equal(file->machine.memory, TR_MEMORY_HOST);
    assert_int_equal(file->machine.nranks, 2);
    assert_string_equal(file->machine.name, "AMD EPYC");
    assert_true(file->registered && !file->in_place && !file->graph);
    assert_int_equal(file->nresults, 12);
    const struct tr_result *ring = &file->results[0], *wrong = &file->results[5], *mpi = &file->results[11];
    assert_string_equal(ring->contender, "ring");
    assert_true(ring->measured && !ring->peer && ring->has_op && ring->bytes == 8);
    assert_int_equal(ring->algorithm, TR_ALGORITHM_RING);
    assert_int_equal(ring->protocol, TR_PROTOCOL_LL);
    assert_int_equal(ring->datatype, TR_F32);
    assert_true(ring->ci_low_us <= ring->median_us && ring->median_us <= ring->ci_high_us && ring->ci_low_us > 0);
    assert_true(!wrong->measured && wrong->median_us == 0);
    assert_string_equal(wrong->contender, "twoshot");
    assert_true(mpi->peer && mpi->measured && mpi->bytes == 16777216);
    assert_int_equal(mpi->protocol, TR_PROTOCOL_AUTO);
    assert_int_equal(mpi->channels, 0);
    tr_result_file_free(file);
    free(text);
}

static void test_truncated_at_every_byte(void **state)
{
    (void)state;
    size_t length;
    char *text = mutate_load("bench_v1.json", &length);
    mutate_truncate(text, length, parse);
    free(text);
}

static void test_every_value_mutated(void **state)
{
    (void)state;
    size_t length;
    char *text = mutate_load("bench_v1.json", &length);
    int refused = mutate_values(text, length, parse);
    print_message("# %d mutations were refused\n", refused);
    assert_true(refused > 2000);
    free(text);
}

static void test_hostile_texts(void **state)
{
    (void)state;
    mutate_hostile(parse);
}

/* ---- Sentences --------------------------------------------------------------------------------------------------- */

/* Replace the first `from` after `after`; the result is to be refused with a sentence that has `sentence` in it. */
static const struct {
    const char *after, *from, *to, *sentence;
} changes[] = {
    {"", "treering-bench", "treering-model", ":2: field schema is \"treering-model\", not treering-bench"},
    {"", "\"schema_version\": 1", "\"schema_version\": 3", ":3: field schema_version is 3, not from 1 to 2"},
    {"", "\"memory\": \"host\"", "\"memory\": \"auto\"", ":6: field memory is \"auto\", not host or cuda"},
    {"", "\"nranks\": 2", "\"nranks\": -2", ":7: field nranks is -2, not from 1 to 1048576"},
    {"", "\"buffers\": \"registered\"", "\"buffers\": true", "field options.buffers is not a text"},
    {"\"points\"", "\"bytes\": 8", "\"bytes\": -8", "field points[0].bytes is -8, not from 0 to"},
    {"\"points\"", "\"datatype\": \"f32\"", "\"datatype\": \"f33\"",
     "field points[0].datatype is \"f33\", not f64, f32"},
    {"\"points\"", "\"state\": \"measured\"", "\"state\": \"fast\"",
     "points[0].results[0].state is \"fast\", not measured, wrong or not_served"},
    {"\"bytes\": 65536",
     "\"median\":", "\"Median\":", "points[1].results[0].time_us.median is missing; it must be a number"},
    {"\"bytes\": 65536", "\"median\": ", "\"median\": -", "points[1].results[0].time_us.median is -"},
    {"\"bytes\": 65536", "\"median\": ", "\"median\": 1000", "points[1].results[0].time_us has a median of 1000"},
    {"\"contender\": \"mpi\"", "\"algorithm\": \"mpi\"", "\"algorithm\": \"pmi\"",
     "points[0].results[3].algorithm is \"pmi\""},
};

/* The line on which `text` has what was changed, counted from 1. */
static size_t line_at(const char *text, const char *place)
{
    size_t line = 1;
    for (; text < place; text++)
        line += *text == '\n';
    return line;
}

static void check_change(const char *text, size_t i)
{
    const char *place = strstr(strstr(text, changes[i].after), changes[i].from);
    assert_non_null(place);
    size_t head = (size_t)(place - text), room = strlen(text) + 100;
    char *changed = malloc(room), line[32];
    assert_non_null(changed);
    snprintf(changed, room, "%.*s%s%s", (int)head, text, changes[i].to, place + strlen(changes[i].from));
    assert_int_equal(parse("x.json", changed, strlen(changed)), TR_ERR_ARGUMENT);
    if (!strstr(tr_last_error(), changes[i].sentence))
        fail_msg("'%s' is not in '%s'", changes[i].sentence, tr_last_error());
    if (!strstr(changes[i].sentence, "missing") && !strstr(changes[i].sentence, "time_us has")) {
        snprintf(line, sizeof line, "x.json:%zu: ", line_at(text, place));
        assert_true(strncmp(tr_last_error(), line, strlen(line)) == 0);
    }
    free(changed);
}

static void test_sentences_name_line_and_field(void **state)
{
    (void)state;
    size_t length;
    char *text = mutate_load("bench_v1.json", &length);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        check_change(text, i);
    free(text);
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

static char folder[] = "/tmp/treering-result-XXXXXX";

static const char *in_folder(const char *name)
{
    static char place[256];
    snprintf(place, sizeof place, "%s/%s", folder, name);
    return place;
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static void test_what_is_no_file(void **state)
{
    (void)state;
    struct tr_result_file *file = NULL;
    assert_int_equal(tr_result_file_read(folder, &file), TR_ERR_ARGUMENT);
    assert_int_equal(tr_result_file_read(in_folder("none"), &file), TR_ERR_SYSTEM);
    assert_int_equal(tr_result_file_read("", &file), TR_ERR_SYSTEM);
    assert_int_equal(tr_result_file_read("/dev/zero", &file), TR_ERR_ARGUMENT);
    assert_int_equal(mkfifo(in_folder("fifo"), 0600), 0);
    assert_int_equal(tr_result_file_read(in_folder("fifo"), &file), TR_ERR_ARGUMENT); /* and waits for no writer */
    assert_int_equal(unlink(in_folder("fifo")), 0);
    assert_null(file);
}

static void test_sizes_of_files(void **state)
{
    static const off_t sizes[] = {0, 1, 1 << 20, 1 << 30, (off_t)1 << 40};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) { /* holes: zeros */
        struct tr_result_file *file = NULL;
        FILE *stream = fopen(in_folder("large"), "w");
        assert_non_null(stream);
        assert_int_equal(ftruncate(fileno(stream), sizes[i]), 0);
        fclose(stream);
        assert_int_equal(tr_result_file_read(in_folder("large"), &file), TR_ERR_ARGUMENT);
        assert_int_equal(unlink(in_folder("large")), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_real_file),
        cmocka_unit_test(test_truncated_at_every_byte),
        cmocka_unit_test(test_every_value_mutated),
        cmocka_unit_test(test_hostile_texts),
        cmocka_unit_test(test_sentences_name_line_and_field),
        cmocka_unit_test(test_what_is_no_file),
        cmocka_unit_test(test_sizes_of_files),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

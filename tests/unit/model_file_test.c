/* model_file_test.c - models are read as they were written, files appear whole, and what is no model is refused. */
#include "model/model.h"
#include "mutate.h"

#include <dirent.h>
#include <math.h>
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
    struct tr_model *model = NULL;
    enum tr_status status = tr_model_parse(path, text, length, &model);
    assert_true((status == TR_OK) == (model != NULL));
    tr_model_free(model);
    return status;
}

/* ---- A model ----------------------------------------------------------------------------------------------------- */

static struct tr_parameters parameters[] = {
    {TR_PROTOCOL_LL,
     8,
     65536,
     {0.25, 0, 0.5},
     {1.0 / 3, 0.3, 0.4},
     {0.1, 0, 0.2},
     {2.5, 2, INFINITY},
     {INFINITY, 7, INFINITY},
     17,
     0.04,
     0.2},
    {TR_PROTOCOL_DIRECT, 8, 4096, {0, 0, 0.5}, {1, 0.3, 1.4}, {0, 0, 1}, {20, 19, 21}, {9, 7, 11}, 5, 0.01, 0.1},
    {TR_PROTOCOL_DIRECT,
     8192,
     INFINITY,
     {0, 0, 0.5},
     {2, 0.3, 4},
     {0, 0, 2},
     {10, 9, 11},
     {INFINITY, 7, INFINITY},
     0,
     0,
     0},
};

static struct tr_curve curves[] = {
    {.collective = TR_REDUCE_SCATTER,
     .registered = true,
     .algorithm = TR_ALGORITHM_RECURSIVE,
     .protocol = TR_PROTOCOL_DIRECT,
     .channels = 16,
     .fit = {.nsegments = 2,
             .segments = {{0, 1024, 4, {2, 1, 3}, {INFINITY, 9, INFINITY}, {INFINITY, 1, INFINITY}},
                          {2048, 1e9, 9, {0, 0, 3}, {0.1, 0.09, 0.2}, {0, 0, 30}}},
             .median_residual = 0.01,
             .largest_residual = 0.3}},
    {.collective = TR_ALLREDUCE,
     .algorithm = TR_ALGORITHM_MPI,
     .protocol = TR_PROTOCOL_AUTO,
     .fit = {.nsegments = 1, .segments = {{8, 8, 1, {2, 1, 3}, {4, 3, 5}, {8, 3, 15}}}}},
};

static struct tr_model made = {
    .machine = {TR_MEMORY_CUDA, "NVIDIA \"H200\" \xc3\xa9", "host-1", 8, 8},
    .origin = "a run",
    .between = {2.5, 50, 4},
    .ranks_per_node = 8,
    .parameters = parameters,
    .nparameters = 3,
    .curves = curves,
    .ncurves = 2,
};

static char folder[] = "/tmp/treering-model-XXXXXX";

static const char *in_folder(const char *name)
{
    static char place[2][256];
    static int used;
    used = !used;
    snprintf(place[used], sizeof place[used], "%s/%s", folder, name);
    return place[used];
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(in_folder("m.json"));
    return rmdir(folder);
}

static void check_same(const struct tr_model *a, const struct tr_model *b)
{
    assert_memory_equal(&a->machine.memory, &b->machine.memory, sizeof a->machine.memory);
    assert_string_equal(a->machine.name, b->machine.name);
    assert_string_equal(a->machine.host, b->machine.host);
    assert_string_equal(a->origin, b->origin);
    assert_true(a->machine.nranks == b->machine.nranks && a->machine.ranks_on_device == b->machine.ranks_on_device);
    assert_true(a->ranks_per_node == b->ranks_per_node && a->between.links_per_node == b->between.links_per_node);
    assert_true(a->between.alpha_us == b->between.alpha_us && a->between.beta_gbps == b->between.beta_gbps);
    assert_true(a->nparameters == b->nparameters && a->ncurves == b->ncurves);
    for (int i = 0; i < a->nparameters; i++)
        assert_memory_equal(&a->parameters[i], &b->parameters[i], sizeof a->parameters[i]);
    for (int i = 0; i < a->ncurves; i++)
        assert_memory_equal(&a->curves[i], &b->curves[i], sizeof a->curves[i]);
}

static void test_round_trip(void **state)
{
    (void)state;
    struct tr_model *model;
    assert_int_equal(tr_model_write(&made, in_folder("m.json")), TR_OK);
    assert_int_equal(tr_model_read(in_folder("m.json"), &model), TR_OK);
    check_same(&made, model);
    tr_model_free(model);
    struct tr_model one_level = made;
    one_level.between = (struct tr_between){0};
    assert_int_equal(tr_model_write(&one_level, in_folder("m.json")), TR_OK);
    assert_int_equal(tr_model_read(in_folder("m.json"), &model), TR_OK);
    check_same(&one_level, model);
    tr_model_free(model);
}

static char *written(size_t *length)
{
    assert_int_equal(tr_model_write(&made, in_folder("m.json")), TR_OK);
    FILE *stream = fopen(in_folder("m.json"), "r");
    assert_non_null(stream);
    char *text = calloc(1, 65536);
    assert_non_null(text);
    *length = fread(text, 1, 65535, stream);
    fclose(stream);
    return text;
}

static void test_truncated_at_every_byte(void **state)
{
    (void)state;
    size_t length;
    char *text = written(&length);
    mutate_truncate(text, length, parse);
    free(text);
}

static void test_every_value_mutated(void **state)
{
    (void)state;
    size_t length;
    char *text = written(&length);
    int refused = mutate_values(text, length, parse);
    print_message("# %d mutations were refused\n", refused);
    assert_true(refused > 1500);
    free(text);
}

static void test_hostile_texts(void **state)
{
    (void)state;
    mutate_hostile(parse);
}

/* ---- What contradicts itself ------------------------------------------------------------------------------------- */

static void refuse(const char *sentence)
{
    struct tr_model *model = NULL;
    assert_int_equal(tr_model_write(&made, in_folder("m.json")), TR_OK);
    assert_int_equal(tr_model_read(in_folder("m.json"), &model), TR_ERR_ARGUMENT);
    assert_null(model);
    if (!strstr(tr_last_error(), sentence))
        fail_msg("'%s' is not in '%s'", sentence, tr_last_error());
}

static void test_contradictions(void **state)
{
    (void)state;
    const struct tr_parameters good = parameters[2];
    const struct tr_curve good_curve = curves[0];
    parameters[2].from_bytes = 4096;
    refuse("field parameters[2] has sizes in common with parameters[1]");
    parameters[2] = good;
    parameters[2].alpha_us.low = 3;
    refuse("field parameters[2].alpha_us has a value of 2 outside its interval from 3 to 4");
    parameters[2] = good;
    parameters[2].to_bytes = 1;
    refuse("field parameters[2] runs from 8192 to 1 bytes");
    parameters[2] = good;
    curves[0].fit.segments[1].from_bytes = 1024;
    refuse("field curves[0].segments[1] begins at 1024 bytes, before");
    curves[0] = good_curve;
    curves[0].fit.segments[1].beta_gbps = (struct tr_interval){0, 0, 1};
    refuse("field curves[0].segments[1].beta_gbps has a value of 0");
    curves[0] = good_curve;
    curves[0].fit.nsegments = 0;
    refuse("field curves[0].segments is empty");
    curves[0] = good_curve;
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

static int count_files(void)
{
    DIR *open = opendir(folder);
    int n = -2; /* . and .. */
    assert_non_null(open);
    while (readdir(open))
        n++;
    closedir(open);
    return n;
}

static void test_nothing_is_left_behind(void **state)
{
    (void)state;
    assert_int_equal(tr_model_write(&made, in_folder("m.json")), TR_OK);
    assert_int_equal(count_files(), 1);
    assert_int_equal(tr_model_write(&made, in_folder("none/m.json")), TR_ERR_SYSTEM);
    assert_int_equal(tr_model_write(&made, folder), TR_ERR_SYSTEM);
    assert_int_equal(tr_model_write(&made, "/dev/full"), TR_ERR_SYSTEM);
    struct tr_model no_text = made;
    memcpy(no_text.origin, "\xff", 2);
    assert_int_equal(tr_model_write(&no_text, in_folder("m.json")), TR_ERR_MEMORY);
    assert_int_equal(count_files(), 1);
    struct tr_model *model;
    assert_int_equal(tr_model_read(in_folder("m.json"), &model), TR_OK); /* as it was */
    tr_model_free(model);
}

static void test_link_leads_to_the_file(void **state)
{
    (void)state;
    struct stat status;
    assert_int_equal(tr_model_write(&made, in_folder("m.json")), TR_OK);
    assert_int_equal(symlink("m.json", in_folder("link")), 0);
    assert_int_equal(tr_model_write(&made, in_folder("link")), TR_OK);
    assert_int_equal(lstat(in_folder("link"), &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_int_equal(unlink(in_folder("link")), 0);
    assert_int_equal(symlink("nowhere/m.json", in_folder("link")), 0);
    assert_int_equal(tr_model_write(&made, in_folder("link")), TR_ERR_SYSTEM);
    assert_int_equal(unlink(in_folder("link")), 0);
}

/* ---- Use --------------------------------------------------------------------------------------------------------- */

static void test_parameters_by_size(void **state)
{
    (void)state;
    assert_ptr_equal(tr_model_parameters(&made, TR_PROTOCOL_LL, 0), &parameters[0]);
    assert_ptr_equal(tr_model_parameters(&made, TR_PROTOCOL_LL, 1e12), &parameters[0]);
    assert_ptr_equal(tr_model_parameters(&made, TR_PROTOCOL_DIRECT, 8), &parameters[1]);
    assert_ptr_equal(tr_model_parameters(&made, TR_PROTOCOL_DIRECT, 4096), &parameters[1]);
    assert_ptr_equal(tr_model_parameters(&made, TR_PROTOCOL_DIRECT, 5000), &parameters[1]); /* the nearer */
    assert_ptr_equal(tr_model_parameters(&made, TR_PROTOCOL_DIRECT, 7000), &parameters[2]);
    assert_ptr_equal(tr_model_parameters(&made, TR_PROTOCOL_DIRECT, 1e15), &parameters[2]);
    assert_null(tr_model_parameters(&made, TR_PROTOCOL_LL128, 8));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_truncated_at_every_byte),
        cmocka_unit_test(test_every_value_mutated),
        cmocka_unit_test(test_hostile_texts),
        cmocka_unit_test(test_contradictions),
        cmocka_unit_test(test_nothing_is_left_behind),
        cmocka_unit_test(test_link_leads_to_the_file),
        cmocka_unit_test(test_parameters_by_size),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

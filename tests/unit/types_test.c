/* types_test.c - names, sizes, their parsing, and the sentence that failing calls leave. */
#include "collectives/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static void test_sizes(void **state)
{
    (void)state;
    static const size_t sizes[TR_DATATYPE_COUNT] = {8, 4, 2, 2, 8, 4, 1};
    for (int d = 0; d < TR_DATATYPE_COUNT; d++)
        assert_int_equal(tr_datatype_size((enum tr_datatype)d), sizes[d]);
    assert_int_equal(tr_datatype_size(TR_DATATYPE_COUNT), 0);
    assert_int_equal(tr_datatype_size((enum tr_datatype)(-1)), 0);
}

/* Every name parses back to its value, and a text that is no name leaves the output alone. */
#define TEST_NAMES(kind, enumeration, count)                                                      \
    static void test_##kind##_names(void **state)                                                 \
    {                                                                                             \
        (void)state;                                                                              \
        for (int i = 0; i < (count); i++) {                                                       \
            enumeration value = (enumeration)((i + 1) % (count));                                 \
            assert_int_equal(tr_##kind##_parse(tr_##kind##_name((enumeration)i), &value), TR_OK); \
            assert_int_equal(value, i);                                                           \
        }                                                                                         \
        enumeration untouched = (enumeration)1;                                                   \
        assert_int_equal(tr_##kind##_parse("nonsense", &untouched), TR_ERR_ARGUMENT);             \
        assert_int_equal(tr_##kind##_parse("", &untouched), TR_ERR_ARGUMENT);                     \
        assert_int_equal(tr_##kind##_parse(NULL, &untouched), TR_ERR_ARGUMENT);                   \
        assert_int_equal(untouched, 1);                                                           \
        assert_string_equal(tr_##kind##_name((enumeration)(count)), "?");                         \
        assert_string_equal(tr_##kind##_name((enumeration)(-1)), "?");                            \
    }

TEST_NAMES(datatype, enum tr_datatype, TR_DATATYPE_COUNT)
TEST_NAMES(op, enum tr_op, TR_OP_COUNT)
TEST_NAMES(algorithm, enum tr_algorithm, TR_ALGORITHM_COUNT)
TEST_NAMES(protocol, enum tr_protocol, TR_PROTOCOL_COUNT)
TEST_NAMES(memory, enum tr_memory, TR_MEMORY_COUNT)

static void test_collective_names(void **state)
{
    (void)state;
    for (int a = 0; a < TR_COLLECTIVE_COUNT; a++)
        for (int b = 0; b < a; b++)
            assert_string_not_equal(tr_collective_name((enum tr_collective)a),
                                    tr_collective_name((enum tr_collective)b));
    assert_string_equal(tr_collective_name(TR_COLLECTIVE_COUNT), "?");
}

static void test_parse_ignores_case(void **state)
{
    (void)state;
    enum tr_protocol protocol;
    assert_int_equal(tr_protocol_parse("ll128", &protocol), TR_OK);
    assert_int_equal(protocol, TR_PROTOCOL_LL128);
}

static void test_parse_lists_names(void **state)
{
    (void)state;
    enum tr_algorithm algorithm;
    tr_algorithm_parse("rign", &algorithm);
    assert_non_null(strstr(tr_last_error(), "\"rign\""));
    for (int a = 0; a < TR_ALGORITHM_COUNT; a++)
        assert_non_null(strstr(tr_last_error(), tr_algorithm_name((enum tr_algorithm)a)));
}

static void test_status_texts(void **state)
{
    (void)state;
    for (int s = 0; s < TR_STATUS_COUNT; s++)
        assert_true(tr_strerror((enum tr_status)s) && tr_strerror((enum tr_status)s)[0]);
    assert_string_equal(tr_strerror(TR_STATUS_COUNT), "unknown status");
    assert_string_equal(tr_strerror((enum tr_status)(-1)), "unknown status");
}

static void test_sentence(void **state)
{
    (void)state;
    assert_int_equal(tr_error(TR_ERR_ARGUMENT, "root %d", 7), TR_ERR_ARGUMENT);
    assert_string_equal(tr_last_error(), "root 7");
    tr_error_set_place(3, "node1");
    tr_error(TR_ERR_MEMORY, "because: %s", tr_last_error());
    assert_string_equal(tr_last_error(), "rank 3 on node1: because: root 7");
    tr_error_relay(TR_ERR_MEMORY, "rank 0 on node0: lost");
    assert_string_equal(tr_last_error(), "rank 0 on node0: lost");
    tr_error_set_place(-1, NULL);
    tr_error(TR_ERR_MEMORY, "plain");
    assert_string_equal(tr_last_error(), "plain");
}

static void test_long_sentence_is_cut(void **state)
{
    (void)state;
    char text[2 * TR_ERROR_BYTES];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    tr_error_set_place(3, "node1");
    tr_error(TR_ERR_MEMORY, "%s", text);
    assert_int_equal(strlen(tr_last_error()), TR_ERROR_BYTES - 1);
    tr_error_relay(TR_ERR_MEMORY, text);
    assert_int_equal(strlen(tr_last_error()), TR_ERROR_BYTES - 1);
    tr_error_set_place(-1, NULL);
}

static void test_version(void **state)
{
    (void)state;
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", TR_VERSION_MAJOR, TR_VERSION_MINOR, TR_VERSION_PATCH);
    assert_string_equal(tr_version(), text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_datatype_names),
        cmocka_unit_test(test_op_names),
        cmocka_unit_test(test_algorithm_names),
        cmocka_unit_test(test_protocol_names),
        cmocka_unit_test(test_memory_names),
        cmocka_unit_test(test_collective_names),
        cmocka_unit_test(test_parse_ignores_case),
        cmocka_unit_test(test_parse_lists_names),
        cmocka_unit_test(test_status_texts),
        cmocka_unit_test(test_sentence),
        cmocka_unit_test(test_long_sentence_is_cut),
        cmocka_unit_test(test_version),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

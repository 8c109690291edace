/* mutate.c - break a JSON text in every way, for tests of what reads it. */
#include "mutate.h"

#include <ctype.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char path[] = "dir/some.json";

/* A refusal names the file and a line that the text has. */
static void check_sentence(const char *text, size_t length)
{
    const char *sentence = strstr(tr_last_error(), "dir/some.json:");
    assert_non_null(sentence);
    char *end;
    long line = strtol(sentence + strlen(path) + 1, &end, 10), lines = 1;
    for (size_t i = 0; i < length; i++)
        lines += text[i] == '\n';
    assert_int_equal(*end, ':');
    assert_in_range(line, 1, lines);
}

/* An exact copy, so that a sanitizer or valgrind sees a read past its end. */
static enum tr_status parse_copy(const char *text, size_t length, mutate_parse *parse)
{
    char *copy = malloc(length ? length : 1);
    assert_non_null(copy);
    memcpy(copy, text, length);
    enum tr_status status = parse(path, copy, length);
    free(copy);
    return status;
}

void mutate_truncate(const char *text, size_t length, mutate_parse *parse)
{
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        length--;
    for (size_t cut = 0; cut < length; cut++) {
        assert_int_equal(parse_copy(text, cut, parse), TR_ERR_ARGUMENT);
        check_sentence(text, cut);
    }
    assert_int_equal(parse_copy(text, length, parse), TR_OK);
}

/* ---- Values ------------------------------------------------------------------------------------------------------ */

static const char *const values[] = {
    "null",
    "true",
    "-1",
    "0",
    "1",
    "9223372036854775807",
    "-9223372036854775808",
    "1e308",
    "-1e308",
    "1e-320",
    "0.5",
    "\"\"",
    "\"NaN\"",
    "\"auto\"",
    "\"mpi\"",
    "[]",
    "{}",
    "[[]]",
    "[null]",
    "[{}]",
    "\"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\""};
enum { NVALUES = sizeof values / sizeof *values };

struct mutation {
    json_t *root;
    mutate_parse *parse;
    int refused;
};

static void try(struct mutation *m)
{
    char *text = json_dumps(m->root, JSON_INDENT(1));
    assert_non_null(text);
    size_t length = strlen(text);
    enum tr_status status = parse_copy(text, length, m->parse);
    if (status != TR_OK) {
        assert_int_equal(status, TR_ERR_ARGUMENT);
        check_sentence(text, length);
        m->refused++;
    }
    free(text);
}

static void walk(struct mutation *m, json_t *value);

static void walk_object(struct mutation *m, json_t *object)
{
    json_t *names = json_array(), *name;
    const char *key;
    json_t *member;
    size_t i;
    json_object_foreach(object, key, member) json_array_append_new(names, json_string(key));
    json_array_foreach(names, i, name)
    {
        key = json_string_value(name);
        member = json_incref(json_object_get(object, key));
        walk(m, member);
        for (int v = 0; v < NVALUES; v++) {
            json_object_set_new(object, key, json_loads(values[v], JSON_DECODE_ANY, NULL));
            try(m);
        }
        json_object_del(object, key);
        try(m);
        json_object_set_new(object, key, member);
    }
    json_decref(names);
}

static void walk_array(struct mutation *m, json_t *array)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        json_t *item = json_incref(json_array_get(array, i));
        walk(m, item);
        for (int v = 0; v < NVALUES; v++) {
            json_array_set_new(array, i, json_loads(values[v], JSON_DECODE_ANY, NULL));
            try(m);
        }
        json_array_set_new(array, i, item);
    }
}

static void walk(struct mutation *m, json_t *value)
{
    if (json_is_object(value))
        walk_object(m, value);
    else if (json_is_array(value))
        walk_array(m, value);
}

int mutate_values(const char *text, size_t length, mutate_parse *parse)
{
    struct mutation m = {.root = json_loadb(text, length, 0, NULL), .parse = parse};
    assert_non_null(m.root);
    walk(&m, m.root);
    json_decref(m.root);
    return m.refused;
}

/* ---- Hostile texts ----------------------------------------------------------------------------------------------- */

static void refuse(const char *text, size_t length, mutate_parse *parse)
{
    assert_int_equal(parse_copy(text, length, parse), TR_ERR_ARGUMENT);
    check_sentence(text, length);
}

/* Opening brackets alone, then brackets that are closed again. */
static void refuse_depth(size_t depth, mutate_parse *parse)
{
    char *text = malloc(2 * depth);
    assert_non_null(text);
    memset(text, '[', depth);
    memset(text + depth, ']', depth);
    refuse(text, depth, parse);
    refuse(text, 2 * depth, parse);
    free(text);
}

void mutate_hostile(mutate_parse *parse)
{
    static const char *const texts[] = {"",
                                        " ",
                                        "\n\n",
                                        "{",
                                        "}",
                                        "[]",
                                        "{}",
                                        "null",
                                        "NaN",
                                        "1",
                                        "\"treering-bench\"",
                                        "{\"schema\"}",
                                        "{\"schema\":}",
                                        "{\"schema\": NaN}",
                                        "{\"schema\": Infinity}",
                                        "{\"schema\": 1e999}",
                                        "{\"a\": 99999999999999999999}",
                                        "{\"schema\": 1, \"schema\": 2}",
                                        "{\"a\": \"\\ud800\"}",
                                        "{\"a\": \"\xff\xfe\"}",
                                        "{\"a\": \"\xc0\x80\"}",
                                        "\xef\xbb\xbf{}",
                                        "{\"a\": 1,}",
                                        "{'a': 1}",
                                        "{\"a\": 01}",
                                        "{\"a\": \"\n\"}",
                                        "{} {}",
                                        "{\"schema\": []}",
                                        "{\"a\": \"\\u0000\"}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        refuse(texts[i], strlen(texts[i]), parse);
    refuse("{}\0{}", 5, parse);
    refuse("\0", 1, parse);
    refuse_depth(100, parse);
    refuse_depth(5000000, parse);
}

char *mutate_load(const char *name, size_t *length)
{
    char place[4096];
    const char *folder = getenv("srcdir");
    snprintf(place, sizeof place, "%s/tests/data/%s", folder ? folder : ".", name);
    FILE *stream = fopen(place, "r");
    assert_non_null(stream);
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    *length = fread(text, 1, (1 << 20) - 1, stream);
    fclose(stream);
    return text;
}

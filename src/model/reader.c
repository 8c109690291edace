/*
 * reader.c - typed access to a JSON file that need not be trusted.
 *
 * Jansson parses and validates, but keeps no places of values. The line of a field that is refused is found afterwards by a
 * scan that skips from value to value; it relies on text that jansson has accepted, in which brackets and quotes match.
 */
#include "model/reader.h"
#include "collectives/error.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- The text ---------------------------------------------------------------------------------------------------- */

static enum tr_status cannot_read(const char *path, const char *why)
{
    return tr_error(TR_ERR_SYSTEM, "cannot read %.300s: %s: give the path of a file that can be read", path, why);
}

static enum tr_status check_file(const char *path, int fd, size_t most_bytes, size_t *bytes)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return cannot_read(path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return tr_error(TR_ERR_ARGUMENT, "%.300s is no regular file: give the path of a JSON file", path);
    if (status.st_size > (off_t)most_bytes)
        return tr_error(TR_ERR_ARGUMENT, "%.300s has %lld bytes, more than the %zu of any such file: give another",
                        path, (long long)status.st_size, most_bytes);
    *bytes = (size_t)status.st_size;
    return TR_OK;
}

/* What is appended meanwhile is not read. */
static enum tr_status read_all(const char *path, int fd, size_t bytes, char *text, size_t *length)
{
    size_t used = 0;
    while (used < bytes) {
        ssize_t got = read(fd, text + used, bytes - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return cannot_read(path, strerror(errno));
        if (got == 0)
            break;
        used += (size_t)got;
    }
    *length = used;
    return TR_OK;
}

static enum tr_status file_text(const char *path, int fd, size_t most_bytes, char **text, size_t *length)
{
    size_t bytes = 0;
    enum tr_status status = check_file(path, fd, most_bytes, &bytes);
    if (status != TR_OK)
        return status;
    char *buffer = malloc(bytes + 1);
    if (!buffer)
        return tr_error(TR_ERR_MEMORY, "no memory for the %zu bytes of %.300s: free some", bytes, path);
    status = read_all(path, fd, bytes, buffer, length);
    if (status == TR_OK)
        *text = buffer;
    else
        free(buffer);
    return status;
}

enum tr_status tr_file_text(const char *path, size_t most_bytes, char **text, size_t *length)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return cannot_read(path, strerror(errno));
    enum tr_status status = file_text(path, fd, most_bytes, text, length);
    close(fd);
    return status;
}

enum tr_status tr_reader_open(struct tr_reader *reader, const char *path, const char *remedy, const char *text,
                              size_t length)
{
    json_error_t error;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!root && json_error_code(&error) == json_error_out_of_memory)
        return tr_error(TR_ERR_MEMORY, "no memory for what %.300s holds: free some", path);
    if (!root)
        return tr_error(TR_ERR_ARGUMENT, "%.300s:%d: column %d: this is no JSON: %.150s: %s", path, error.line,
                        error.column, error.text, remedy);
    *reader = (struct tr_reader){path, remedy, text, length, root, TR_OK};
    return TR_OK;
}

void tr_reader_close(struct tr_reader *reader)
{
    json_decref(reader->root);
    reader->root = NULL;
}

/* ---- Where a value stands ---------------------------------------------------------------------------------------- */

static const char *skip_space(const char *p, const char *end)
{
    while (p < end && strchr(" \t\r\n", *p))
        p++;
    return p;
}

/* `p` is at the opening quote; returns what follows the closing one. */
static const char *skip_string(const char *p, const char *end)
{
    for (p++; p < end && *p != '"'; p++)
        if (*p == '\\')
            p++;
    return p < end ? p + 1 : end;
}

static const char *skip_value(const char *p, const char *end)
{
    int depth = 0;
    while (p < end) {
        if (*p == '"') {
            p = skip_string(p, end);
        } else if (depth == 0 && strchr(",]} \t\r\n", *p)) {
            return p;
        } else {
            depth += (*p == '[' || *p == '{') - (*p == ']' || *p == '}');
            p++;
        }
        if (depth == 0 && strchr("]}\"", p[-1]))
            return p;
    }
    return end;
}

/* To the next member or item after a value; NULL at the end of the object or array. */
static const char *next(const char *p, const char *end)
{
    p = skip_space(p, end);
    return p < end && *p == ',' ? skip_space(p + 1, end) : NULL;
}

/* `p` is at the array's bracket. NULL: it has no such item. */
static const char *find_item(const char *p, const char *end, size_t index)
{
    p = skip_space(p + 1, end);
    for (; p && index > 0; index--)
        p = next(skip_value(p, end), end);
    return p;
}

/* `p` is at the object's brace. NULL: it has no such member, or its key is written with escapes. */
static const char *find_member(const char *p, const char *end, const char *key)
{
    size_t length = strlen(key);
    p = skip_space(p + 1, end);
    while (p && p < end && *p == '"') {
        const char *after = skip_string(p, end);
        bool same = (size_t)(after - p) == length + 2 && memcmp(p + 1, key, length) == 0;
        const char *value = skip_space(skip_space(after, end) + 1, end); /* past the colon */
        if (same)
            return value;
        p = next(skip_value(value, end), end);
    }
    return NULL;
}

/* The value, or the nearest one around it that can be found. */
static const char *find(const struct tr_node *node)
{
    const char *text = node->reader->text, *end = text + node->reader->length;
    if (!node->parent)
        return skip_space(text, end);
    const char *around = find(node->parent), *found = NULL;
    if (around < end && *around == (node->key ? '{' : '['))
        found = node->key ? find_member(around, end, node->key) : find_item(around, end, node->index);
    return found && found < end ? found : around;
}

static size_t line_of(const struct tr_node *node)
{
    size_t line = 1;
    const char *place = find(node);
    for (const char *p = node->reader->text; p < place; p++)
        line += *p == '\n';
    return line;
}

/* "points[3].results[1].time_us.median"; returns the length, at most size - 1. */
static size_t name_of(const struct tr_node *node, char *name, size_t size)
{
    if (!node->parent) {
        *name = '\0';
        return 0;
    }
    size_t used = name_of(node->parent, name, size);
    int more = node->key ? snprintf(name + used, size - used, "%s%s", used ? "." : "", node->key)
                         : snprintf(name + used, size - used, "[%zu]", node->index);
    return used + (size_t)more < size ? used + (size_t)more : size - 1;
}

void tr_refuse(const struct tr_node *node, const char *format, ...)
{
    struct tr_reader *reader = node->reader;
    char name[160], what[400];
    if (!tr_reader_good(reader))
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    name_of(node, name, sizeof name);
    reader->status = tr_error(TR_ERR_ARGUMENT, "%.300s:%zu: %s%s %s: %s", reader->path, line_of(node),
                              *name ? "field " : "the file", name, what, reader->remedy);
}

/* ---- Members ----------------------------------------------------------------------------------------------------- */

struct tr_node tr_member(const struct tr_node *object, const char *key)
{
    json_t *value = json_object_get(object->value, key);
    return (struct tr_node){
        .reader = object->reader, .parent = object, .key = key, .value = json_is_null(value) ? NULL : value};
}

/* Refuses what is absent, or not as `wanted` says. */
static bool accept(const struct tr_node *node, bool right, const char *wanted)
{
    if (!right)
        tr_refuse(node, node->value ? "is not %s" : "is missing; it must be %s", wanted);
    return right && tr_reader_good(node->reader);
}

static void check_object(struct tr_node *node)
{
    if (!accept(node, json_is_object(node->value), "an object"))
        node->value = NULL;
}

struct tr_node tr_read_object(const struct tr_node *object, const char *key)
{
    struct tr_node node = tr_member(object, key);
    check_object(&node);
    return node;
}

struct tr_node tr_read_array(const struct tr_node *object, const char *key, size_t most)
{
    struct tr_node node = tr_member(object, key);
    if (accept(&node, json_is_array(node.value), "an array") && json_array_size(node.value) > most)
        tr_refuse(&node, "has %zu items, not at most %zu", json_array_size(node.value), most);
    if (!tr_reader_good(node.reader))
        node.value = NULL;
    return node;
}

size_t tr_array_length(const struct tr_node *array)
{
    return json_array_size(array->value);
}

struct tr_node tr_read_item(const struct tr_node *array, size_t index)
{
    struct tr_node node = {array->reader, array, NULL, index, json_array_get(array->value, index)};
    check_object(&node);
    return node;
}

bool tr_read_boolean(const struct tr_node *object, const char *key)
{
    struct tr_node node = tr_member(object, key);
    return accept(&node, json_is_boolean(node.value), "true or false") && json_is_true(node.value);
}

long long tr_read_whole(const struct tr_node *object, const char *key, long long low, long long high)
{
    struct tr_node node = tr_member(object, key);
    if (!accept(&node, json_is_integer(node.value), "a whole number"))
        return 0;
    long long number = json_integer_value(node.value);
    if (low <= number && number <= high)
        return number;
    tr_refuse(&node, "is %lld, not from %lld to %lld", number, low, high);
    return 0;
}

double tr_read_number(const struct tr_node *object, const char *key, double low, double high)
{
    struct tr_node node = tr_member(object, key);
    if (isinf(high) && tr_reader_good(node.reader) && json_is_null(json_object_get(object->value, key)))
        return INFINITY;
    if (!accept(&node, json_is_number(node.value), "a number"))
        return 0;
    double number = json_number_value(node.value);
    if (low <= number && number <= high)
        return number;
    tr_refuse(&node, "is %g, not from %g to %g", number, low, high);
    return 0;
}

static bool has_control(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return true;
    return false;
}

void tr_read_text(const struct tr_node *object, const char *key, char *text, size_t size)
{
    struct tr_node node = tr_member(object, key);
    *text = '\0';
    if (!accept(&node, json_is_string(node.value), "a text"))
        return;
    if (has_control(json_string_value(node.value)))
        tr_refuse(&node, "has a control character, which a terminal might obey");
    else if (json_string_length(node.value) < size)
        memcpy(text, json_string_value(node.value), json_string_length(node.value) + 1);
    else
        tr_refuse(&node, "has %zu bytes, not fewer than %zu", json_string_length(node.value), size);
}

/* ---- Names ------------------------------------------------------------------------------------------------------- */

int tr_read_choice(const struct tr_node *object, const char *key, const char *const names[], int n)
{
    struct tr_node node = tr_member(object, key);
    if (!accept(&node, json_is_string(node.value), "a text"))
        return 0;
    char list[200] = "";
    for (int i = 0; i < n; i++) {
        if (strcmp(json_string_value(node.value), names[i]) == 0)
            return i;
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i == 0 ? "" : i == n - 1 ? " or " : ", ", names[i]);
    }
    tr_refuse(&node, "is \"%.40s\", not %s", json_string_value(node.value), list);
    return 0;
}

enum tr_datatype tr_read_datatype(const struct tr_node *object, const char *key)
{
    const char *names[TR_DATATYPE_COUNT];
    for (int i = 0; i < TR_DATATYPE_COUNT; i++)
        names[i] = tr_datatype_name((enum tr_datatype)i);
    return (enum tr_datatype)tr_read_choice(object, key, names, TR_DATATYPE_COUNT);
}

enum tr_op tr_read_op(const struct tr_node *object, const char *key)
{
    const char *names[TR_OP_COUNT];
    for (int i = 0; i < TR_OP_COUNT; i++)
        names[i] = tr_op_name((enum tr_op)i);
    return (enum tr_op)tr_read_choice(object, key, names, TR_OP_COUNT);
}

enum tr_collective tr_read_collective(const struct tr_node *object, const char *key)
{
    const char *names[TR_COLLECTIVE_COUNT];
    for (int i = 0; i < TR_COLLECTIVE_COUNT; i++)
        names[i] = tr_collective_name((enum tr_collective)i);
    return (enum tr_collective)tr_read_choice(object, key, names, TR_COLLECTIVE_COUNT);
}

enum tr_algorithm tr_read_algorithm(const struct tr_node *object, const char *key)
{
    const char *names[TR_ALGORITHM_COUNT];
    for (int i = 0; i < TR_ALGORITHM_COUNT; i++)
        names[i] = tr_algorithm_name((enum tr_algorithm)i);
    return (enum tr_algorithm)tr_read_choice(object, key, names, TR_ALGORITHM_COUNT);
}

enum tr_protocol tr_read_protocol(const struct tr_node *object, const char *key)
{
    const char *names[TR_PROTOCOL_COUNT];
    for (int i = 0; i < TR_PROTOCOL_COUNT; i++)
        names[i] = tr_protocol_name((enum tr_protocol)i);
    return (enum tr_protocol)tr_read_choice(object, key, names, TR_PROTOCOL_COUNT);
}

enum tr_memory tr_read_memory(const struct tr_node *object, const char *key)
{
    const char *names[] = {tr_memory_name(TR_MEMORY_HOST), tr_memory_name(TR_MEMORY_CUDA)};
    return tr_read_choice(object, key, names, 2) == 0 ? TR_MEMORY_HOST : TR_MEMORY_CUDA;
}

void tr_read_schema(const struct tr_node *root, const char *schema, int newest)
{
    if (!json_is_object(root->value))
        tr_refuse(root, "is not an object");
    tr_read_choice(root, "schema", &schema, 1);
    tr_read_whole(root, "schema_version", 1, newest);
}

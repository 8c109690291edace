/*
 * reader.h - typed access to a JSON file that need not be trusted.
 *
 * The first thing that is not as wanted is recorded, with file, line and field; what is asked for after that is zeros and
 * empty arrays. So a file is read straight through, and tr_reader_status() looked at once, before it is believed.
 * Fields that nobody asks for are ignored.
 */
#ifndef TR_READER_H
#define TR_READER_H

#include "treering.h"

#include <jansson.h>
#include <stdbool.h>

struct tr_reader {
    const char *path;   /* for sentences */
    const char *remedy; /* what to do about a bad file, "measure again", say */
    const char *text;
    size_t length;
    json_t *root;
    enum tr_status status;
};

/* A value in the file: the root, a member of an object (key), or an item of an array (index). */
struct tr_node {
    struct tr_reader *reader;
    const struct tr_node *parent; /* NULL: the root; otherwise it must live as long as this one */
    const char *key;              /* NULL: an item */
    size_t index;
    const json_t *value; /* NULL: absent, or JSON's null */
};

/* Read a regular file of at most `most_bytes` into memory, which the caller frees. A pipe or a device is refused, and
 * nothing is waited for. Errors: SYSTEM, ARGUMENT (no regular file, or too long), MEMORY. */
enum tr_status tr_file_text(const char *path, size_t most_bytes, char **text, size_t *length);

/* Parse text, which must outlive the reader. Errors: ARGUMENT (with line and column), MEMORY. */
enum tr_status tr_reader_open(struct tr_reader *reader, const char *path, const char *remedy, const char *text,
                              size_t length);
void tr_reader_close(struct tr_reader *reader);

static inline struct tr_node tr_reader_root(struct tr_reader *reader)
{
    return (struct tr_node){.reader = reader, .value = reader->root};
}

static inline bool tr_reader_good(const struct tr_reader *reader)
{
    return reader->status == TR_OK;
}

/* Record that a node is not as wanted; printf format, what follows "field X ", as in "is %g, not ...". Only the first
 * complaint counts. */
void tr_refuse(const struct tr_node *node, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A member that may be absent or null: its value is NULL then. */
struct tr_node tr_member(const struct tr_node *object, const char *key);

/* ---- Members that must be there and of the type; zeros otherwise ------------------------------------------------- */

struct tr_node tr_read_object(const struct tr_node *object, const char *key);
/* An array of 0 to `most` objects. */
struct tr_node tr_read_array(const struct tr_node *object, const char *key, size_t most);
size_t tr_array_length(const struct tr_node *array);
struct tr_node tr_read_item(const struct tr_node *array, size_t index);

bool tr_read_boolean(const struct tr_node *object, const char *key);
/* A whole number, low <= n <= high. */
long long tr_read_whole(const struct tr_node *object, const char *key, long long low, long long high);
/* A number, low <= x <= high; where `high` is INFINITY, null is read as that. */
double tr_read_number(const struct tr_node *object, const char *key, double low, double high);
/* Text of less than `size` bytes. */
void tr_read_text(const struct tr_node *object, const char *key, char *text, size_t size);
/* The place of a text among `n` names. */
int tr_read_choice(const struct tr_node *object, const char *key, const char *const names[], int n);

enum tr_datatype tr_read_datatype(const struct tr_node *object, const char *key);
enum tr_op tr_read_op(const struct tr_node *object, const char *key);
enum tr_collective tr_read_collective(const struct tr_node *object, const char *key);
enum tr_algorithm tr_read_algorithm(const struct tr_node *object, const char *key);
enum tr_protocol tr_read_protocol(const struct tr_node *object, const char *key);
enum tr_memory tr_read_memory(const struct tr_node *object, const char *key); /* host or cuda */

/* Refuse any "schema" but `schema`, and any "schema_version" that is not in 1..newest. */
void tr_read_schema(const struct tr_node *root, const char *schema, int newest);

#endif

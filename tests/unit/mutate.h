/* mutate.h - break a JSON text in every way, for tests of what reads it. */
#ifndef TESTS_MUTATE_H
#define TESTS_MUTATE_H

#include "treering.h"

/* What reads the text. */
typedef enum tr_status mutate_parse(const char *path, const char *text, size_t length);

/* Cut the text after every byte but the last few, which are space: everything must be refused with file and line. */
void mutate_truncate(const char *text, size_t length, mutate_parse *parse);

/* Replace every value of the text, in turn, by values of every type and out of every range, and leave it out: it must be
 * taken or refused with file, line and field. Returns how many were refused. */
int mutate_values(const char *text, size_t length, mutate_parse *parse);

/* Texts and files that are no JSON, or no sensible one. */
void mutate_hostile(mutate_parse *parse);

/* The whole file beside the tests, ended by 0; the caller frees it. */
char *mutate_load(const char *name, size_t *length);

#endif

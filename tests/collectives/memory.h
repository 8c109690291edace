/*
 * memory.h - the memory in which the tested buffers lie, as the tests of every memory kind see it. Two implementations,
 * memory_host.c and memory_cuda.c; a program links one. What fails ends the program (tap.h).
 */
#ifndef TESTS_MEMORY_H
#define TESTS_MEMORY_H

#include "treering.h"

#include <stdbool.h>

/* Why this machine cannot run the tests; NULL: it can. */
const char *memory_unavailable(void);

enum tr_memory memory_kind(void);

/* Protocols to ask for, and numbers of channels. Both lists end with -1. */
extern const int memory_protocols[], memory_channels[];

/* Work on the memory and the device of this communicator from now on. */
void memory_attach(const struct tr_comm *comm);

/* Memory that the library has not heard of. */
void *memory_new(size_t bytes);
void memory_delete(void *ptr);

/* Host memory to keep images of it in. */
void *memory_new_image(size_t bytes);
void memory_delete_image(void *image);

/* What to pass as the calls' stream. */
void *memory_stream(void);

/* Copy from an image into the memory, and back; the second waits for earlier calls. */
void memory_put(void *to, const void *image, size_t bytes);
void memory_get(void *image, const void *from, size_t bytes);

/* Wait until earlier calls are done. */
void memory_finish(void);

/* Bytes of memory of this kind in use: by this process on the host, by all processes on a GPU. */
size_t memory_in_use(void);

#endif

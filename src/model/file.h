/* file.h - a file that appears complete or not at all. */
#ifndef TR_FILE_H
#define TR_FILE_H

#include "treering.h"

/* Write text under a temporary name beside `path` (a link: beside what it leads to), then rename it. What is no regular
 * file, a FIFO say, is written straight to. Errors: SYSTEM. */
enum tr_status tr_file_write(const char *path, const char *text, size_t length);

#endif

/* sizes.c - sizes in bytes as people write them, and the sizes of a sweep. */
#include "bench/sizes.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char units[] = "KMGT"; /* 1024^1 .. 1024^4 */

/* The power of two that a suffix stands for, -1 if it is none. */
static int suffix_shift(const char *suffix)
{
    if (*suffix == '\0')
        return 0;
    const char *unit = strchr(units, toupper((unsigned char)*suffix));
    return unit && suffix[1] == '\0' ? 10 * (int)(unit - units + 1) : -1;
}

bool size_parse(const char *text, size_t *bytes)
{
    if (!isdigit((unsigned char)*text))
        return false;
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    int shift = suffix_shift(end);
    if (errno || shift < 0 || number > SIZE_MAX >> shift)
        return false;
    *bytes = (size_t)number << shift;
    return true;
}

const char *size_format(size_t bytes, char text[static SIZE_TEXT])
{
    int unit = 0;
    while (unit < 4 && bytes && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    if (unit == 0)
        snprintf(text, SIZE_TEXT, "%zu", bytes);
    else
        snprintf(text, SIZE_TEXT, "%zu%c", bytes, units[unit - 1]);
    return text;
}

size_t size_round_down(size_t bytes)
{
    int shift = 0;
    while (bytes >> shift > 7)
        shift++;
    return bytes >> shift << shift;
}

bool size_next(const struct size_range *range, size_t bytes, size_t *next)
{
    size_t room = range->last - bytes;
    if (range->step) {
        if (range->step > room)
            return false;
        *next = bytes + range->step;
        return true;
    }
    if (bytes == 0 || bytes > range->last / range->factor)
        return false;
    *next = bytes * range->factor;
    return true;
}

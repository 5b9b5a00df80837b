/*
 * batch_raw.h - the members of a row as they were written.
 *
 * A value that is read and written again is another text: 2^64 becomes a
 * rounded real, 0.10 becomes 0.1.  What a row only carries along is copied
 * from its text instead.
 */
#ifndef BATCH_BATCH_RAW_H
#define BATCH_BATCH_RAW_H

#include <stdbool.h>
#include <stddef.h>

/* Walks the members of an object that json.h has accepted, in their order,
 * which is that of jv_iter: */
struct raw {
    const char *at, *end;
    const char *value; /* [size] the present member's value */
    size_t size;
};
/* For text whose first byte that is no blank is the object's '{'. */
void raw_init(struct raw *r, const char *text, size_t size);
/* The next member; false after the last. */
bool raw_next(struct raw *r);

/* Would json.h change a number of this value? */
bool raw_changes(const char *value, size_t size);

#endif

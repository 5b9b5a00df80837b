/*
 * sized.h - structs of options that grow without breaking the programs that
 * were built before they did.
 *
 * Such a struct begins with a size_t, its size as the program knows it.
 * What the library knows beyond that keeps its default; what the program
 * knows beyond the library must be zero, else it asks for something that is
 * not there.  So members are only ever added at the end; one that lands in what
 * was padding has its default there, put by the `_init' of the newer library.
 */
#ifndef UTIL_SIZED_H
#define UTIL_SIZED_H

#include <stddef.h>

#include "util/error.h"

/* What an `_init' of the program's does: fill the first size bytes of o from
 * defaults [known], a rest with zero, and set its size. */
void sized_init(void *o, size_t size, const void *defaults, size_t known);

/*
 * The library's own copy of what a program gave: own [known] holds the
 * defaults, which stay if given is NULL.  CAG_E_USAGE, naming type, if given
 * was not filled by its `_init'; CAG_E_UNSUPPORTED if it sets a member that
 * only a newer library has.
 */
cag_status sized_take(void *own, size_t known, const void *given,
                      const char *type, cag_error *err);

#endif

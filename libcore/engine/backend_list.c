/*
 * backend_list.c - what there is to compute with, for people to read.
 */
#include <cag/tool/names.h>
#include <cag/backend.h>
#include <stddef.h>

#include "kernels/kernels.h"

const char *cag_kernels_at(int i, bool *usable, bool *chosen)
{
    const char *why;
    bool can;
    const struct kernels *k = kernels_at(i, &can);

    if (!k)
        return NULL;
    if (usable)
        *usable = can;
    if (chosen)
        *chosen = k == kernels_get(&why);
    return k->name;
}

const char *cag_backend_at(int i)
{
    return i == 0 ? "cpu" : NULL;
}

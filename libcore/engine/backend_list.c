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

const char *cag_fast_how(void)
{
    static const int any = KT_F16, four_bits = KT_Q4_0;
    const struct kernels *k = kernels_get(NULL);
    const char *why;

    if (k && kernels_fast_get(k, &any, 1, &why))
        return "products and attention in bf16";
    if (k && kernels_fast_get(k, &four_bits, 1, &why))
        return "4-bit weights are multiplied with 8 bits";
    return NULL;
}

const char *cag_backend_at(int i)
{
    return i == 0 ? "cpu" : NULL;
}

/*
 * sized.c - see sized.h.
 */
#include "util/sized.h"

#include <cag.h>
#include <string.h>

const char *cag_version(void)
{
    return CAG_VERSION;
}

/* No struct of options will ever be larger: another size is no size. */
#define SIZED_MAX 4096

void sized_init(void *o, size_t size, const void *defaults, size_t known)
{
    memset(o, 0, size);
    memcpy(o, defaults, size < known ? size : known);
    memcpy(o, &size, sizeof size);
}

cag_status sized_take(void *own, size_t known, const void *given,
                      const char *type, cag_error *err)
{
    const unsigned char *p = given;
    size_t size;

    if (!given)
        return CAG_OK;
    memcpy(&size, given, sizeof size);
    if (size < sizeof size || size > SIZED_MAX)
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "%s has size %zu: fill it with %s_init first", type,
                        size, type);
    for (size_t i = known; i < size; i++)
        if (p[i])
            return cag_fail(err, CAG_E_UNSUPPORTED, NULL, -1,
                            "%s has %zu bytes and sets byte %zu; this version "
                            "of libcag knows %zu: use a newer one",
                            type, size, i, known);
    memcpy(own, given, size < known ? size : known);
    memcpy(own, &known, sizeof known);
    return CAG_OK;
}

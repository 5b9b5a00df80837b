/*
 * kvc_precision.c - the names of precisions: what META records, manifests and
 * options say.
 */
#include <string.h>

#include <cag/session.h>

static const char *const names[] = { "default", "exact", "fast", "fast8",
                                     "auto" };

const char *cag_precision_name(cag_precision p)
{
    return p >= CAG_PRECISION_DEFAULT && p <= CAG_PRECISION_AUTO ? names[p]
                                                                 : NULL;
}

cag_precision cag_precision_of(const char *name)
{
    for (int i = CAG_PRECISION_EXACT; i <= CAG_PRECISION_AUTO; i++)
        if (strcmp(name, names[i]) == 0)
            return (cag_precision)i;
    return CAG_PRECISION_DEFAULT;
}

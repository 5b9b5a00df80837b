/*
 * kernels.c - which sets exist, which of them this CPU runs, which is used.
 *
 * The portable sets run everywhere.
 */
#include "kernels/kernels.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const struct kernels *const sets[] = {
    &kernels_ref,
    &kernels_scalar,
};
enum { N_SET = sizeof sets / sizeof sets[0] };

const struct kernels *kernels_at(int i, bool *usable)
{
    if (i < 0 || i >= N_SET)
        return NULL;
    *usable = true;
    return sets[i];
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const struct kernels *chosen;
static const char *refusal;

static void choose(void)
{
    const char *want = getenv("CAG_KERNELS");
    bool usable;

    for (int i = N_SET - 1; i >= 0; i--) {
        const struct kernels *k = kernels_at(i, &usable);

        if (want && *want && strcmp(k->name, want) != 0)
            continue;
        if (usable) {
            chosen = k;
            return;
        }
        if (want && *want) {
            refusal = "this CPU cannot run the set named by CAG_KERNELS";
            return;
        }
    }
    refusal = "CAG_KERNELS names no set; known are ref, scalar";
}

const struct kernels *kernels_get(const char **why)
{
    pthread_once(&once, choose);
    if (!chosen && why)
        *why = refusal;
    return chosen;
}

/*
 * backend_load.c - from a device's name to a backend.
 *
 * The CPU is always there.  A CUDA device is driven by a plugin that is
 * opened at run time, so that one set of tools serves machines with and
 * without a driver; a build without the plugin says so and never falls back
 * to the CPU behind the user's back.
 */
#include "engine/backend.h"

#include <string.h>

#include "engine/backend_cpu.h"
#include "util/error.h"

/* "cuda" or "cuda:N" with a plain decimal N */
static bool is_cuda(const char *device)
{
    if (strncmp(device, "cuda", 4) != 0)
        return false;
    device += 4;
    if (*device == '\0')
        return true;
    if (*device++ != ':')
        return false;
    size_t n = strspn(device, "0123456789");
    return n >= 1 && n <= 3 && device[n] == '\0';
}

cag_status backend_load(const char *device, const cag_model *m,
                        const struct backend_opts *opts,
                        struct backend **out, cag_error *err)
{
    if (device == NULL || strcmp(device, "auto") == 0 ||
        strcmp(device, "cpu") == 0)
        return cpu_new(m, opts, out, err);
    if (is_cuda(device))
        return cag_fail(err, CAG_E_UNSUPPORTED, NULL, -1,
                        "device '%s': this build has no CUDA plugin; use "
                        "--device cpu",
                        device);
    return cag_fail(err, CAG_E_USAGE, NULL, -1,
                    "unknown device '%s', expected auto, cpu, cuda or cuda:N",
                    device);
}

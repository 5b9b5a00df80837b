/*
 * backend_load.c - from a device's name to a backend.
 *
 * The CPU is always there.  A GPU is driven by a plugin that is opened at run
 * time, so that one set of tools serves machines with and without a driver.
 * Who names a GPU gets it or an error; "auto" takes the first GPU that works,
 * else the CPU, and says why: quietly where there is no GPU, as a warning
 * where there is one that cannot be used.
 *
 * The plugin is looked for beside the program (a build tree), in ../lib/cag
 * (an installed tree, wherever it was moved to), and in the library directory
 * of the build.  It is never closed: the driver's threads outlive a backend.
 */
#include "engine/backend.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cag.h>
#include <cag/backend.h>

#include "engine/backend_plugin.h"
#include "util/error.h"
#include "util/trust.h"

#ifndef CAG_LIBDIR
#define CAG_LIBDIR "/usr/local/lib"
#endif

/* ------------------------------------------------------------- the plugin */

/* Candidate i in path; false past the last, or when it cannot be named. */
static bool candidate(int i, char path[PATH_MAX])
{
    static const char *const beside[] = { "", "../lib/cag/" };
    char exe[PATH_MAX];
    ssize_t n;
    int len;

    if (i == 2) {
        len =
            snprintf(path, PATH_MAX, "%s/cag/%s", CAG_LIBDIR, CUDA_PLUGIN_FILE);
        return len < PATH_MAX;
    }
    n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n < 0)
        return false;
    exe[n] = '\0';
    char *slash = strrchr(exe, '/');
    if (!slash)
        return false;
    slash[1] = '\0';
    len = snprintf(path, PATH_MAX, "%s%s%s", exe, beside[i], CUDA_PLUGIN_FILE);
    return len < PATH_MAX;
}

/* What is found by itself runs with the caller's rights: it must be his or
 * root's, and not everybody's to write. */
static cag_status check_owner(const char *path, cag_error *err)
{
    struct stat s;

    if (stat(path, &s) != 0)
        return cag_fail_sys(err, CAG_E_UNSUPPORTED, errno, path,
                            "cannot read the CUDA plugin");
    if (!trust_owner(&s))
        return cag_fail(err, CAG_E_UNSUPPORTED, path, -1,
                        "the CUDA plugin belongs to user %lu, neither to you "
                        "nor to root, and is not loaded",
                        (unsigned long)s.st_uid);
    if (s.st_mode & S_IWOTH)
        return cag_fail(err, CAG_E_UNSUPPORTED, path, -1,
                        "the CUDA plugin may be written by everybody, and is "
                        "not loaded; chmod o-w it");
    return CAG_OK;
}

/* The plugin's path; CAG_E_UNSUPPORTED names the places. */
static cag_status find_plugin(const char *named, char path[PATH_MAX],
                              cag_error *err)
{
    if (named) {
        size_t n = strlen(named);
        if (n < PATH_MAX && access(named, R_OK) == 0) {
            memcpy(path, named, n + 1);
            return CAG_OK;
        }
        return cag_fail(err, CAG_E_UNSUPPORTED, named, -1,
                        "cannot read the CUDA plugin");
    }
    for (int i = 0; i < 3; i++)
        if (candidate(i, path) && access(path, R_OK) == 0)
            return check_owner(path, err);
    return cag_fail(err, CAG_E_UNSUPPORTED, NULL, -1,
                    "there is no CUDA plugin (%s) beside the program, in "
                    "../lib/cag or in %s/cag",
                    CUDA_PLUGIN_FILE, CAG_LIBDIR);
}

static cag_status open_plugin(const char *path, const struct cuda_plugin **out,
                              cag_error *err)
{
    const struct cuda_plugin *p;
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL), *sym;
    cuda_plugin_fn *entry;

    if (!so) {
        const char *why = dlerror();
        return cag_fail(err, CAG_E_UNSUPPORTED, path, -1,
                        "cannot load the CUDA plugin: %s%s", why,
                        strstr(why, "libcublas")
                            ? "; name its directory in LD_LIBRARY_PATH"
                            : "");
    }
    sym = dlsym(so, CUDA_PLUGIN_ENTRY);
    if (!sym)
        return cag_fail(err, CAG_E_UNSUPPORTED, path, -1,
                        "is no CUDA plugin of cag: it has no %s",
                        CUDA_PLUGIN_ENTRY);
    memcpy(&entry, &sym, sizeof entry); /* what POSIX means by a cast */
    p = entry();
    if (p->abi != cuda_plugin_abi() || strcmp(p->version, CAG_VERSION) != 0)
        return cag_fail(err, CAG_E_UNSUPPORTED, path, -1,
                        "the CUDA plugin is of another build of cag, this is "
                        "%s",
                        CAG_VERSION);
    *out = p;
    return CAG_OK;
}

static cag_status get_plugin(const char *named, char path[PATH_MAX],
                             const struct cuda_plugin **out, cag_error *err)
{
    cag_status st = find_plugin(named, path, err);

    return !st ? open_plugin(path, out, err) : st;
}

/* ----------------------------------------------------------------- devices */

/* Whether the machine has the driver of a GPU, plugin or not: what it shows
 * on Linux, in a container, under WSL, on a Jetson. */
static bool has_driver(void)
{
    static const char *const sign[] = { "/proc/driver/nvidia/version",
                                        "/dev/nvidiactl", "/dev/nvhost-gpu",
                                        "/dev/nvgpu" };

    for (size_t i = 0; i < sizeof sign / sizeof sign[0]; i++)
        if (access(sign[i], F_OK) == 0)
            return true;
    /* every WSL2 has /dev/dxg: only with this is it NVIDIA's */
    return access("/dev/dxg", F_OK) == 0 &&
           access("/usr/lib/wsl/lib/libcuda.so.1", F_OK) == 0;
}

/* *present: a driver answered, so there is something to complain about. */
static cag_status count_devices(const struct cuda_plugin *p, int *n,
                                bool *present, cag_error *err)
{
    cag_error why = CAG_ERROR_INIT;
    int driver = 0, runtime = 0;
    cag_status st = p->count(n, &driver, &runtime, &why);

    *present = has_driver();
    if (driver == 0)
        return cag_fail(err, CAG_E_BACKEND, NULL, -1,
                        "there is no NVIDIA driver");
    if (driver / 1000 < runtime / 1000) {
        *present = true;
        return cag_fail(err, CAG_E_BACKEND, NULL, -1,
                        "the driver supports CUDA %d.%d, the plugin needs "
                        "%d.%d",
                        driver / 1000, driver % 1000 / 10, runtime / 1000,
                        runtime % 1000 / 10);
    }
    if (st)
        return cag_error_copy(err, &why);
    if (*n == 0)
        return cag_fail(err, CAG_E_BACKEND, NULL, -1, "the driver sees no GPU");
    *present = true;
    return CAG_OK;
}

static cag_status open_cuda(int ordinal, const cag_model *m,
                            const struct backend_opts *opts,
                            struct backend **out, bool *present, int *n_device,
                            cag_error *err)
{
    const struct cuda_plugin *p;
    struct backend *gpu = NULL;
    char path[PATH_MAX];
    cag_status st;
    int n = 0;

    *n_device = 0;
    *present = has_driver();
    st = find_plugin(opts->plugin, path, err);
    if (st) {
        *present = opts->plugin != NULL; /* none is no fault of a GPU */
        return st;
    }
    st = open_plugin(path, &p, err);
    if (!st)
        st = count_devices(p, &n, present, err);
    if (st)
        return st;
    *n_device = n;
    if (ordinal >= n)
        return cag_fail(err, CAG_E_BACKEND, NULL, -1,
                        "there is no cuda:%d, the driver sees %d GPU%s",
                        ordinal, n, n == 1 ? "" : "s");
    st = p->open(ordinal, m, opts, &gpu, err);
    if (st)
        return st;
    if (gpu->layer0 > 0)
        return split_new(m, opts, gpu, out, err);
    *out = gpu;
    return CAG_OK;
}

/* "cuda" or "cuda:N" with a plain decimal N */
static bool is_cuda(const char *device, int *ordinal)
{
    *ordinal = 0;
    if (strncmp(device, "cuda", 4) != 0)
        return false;
    device += 4;
    if (*device == '\0')
        return true;
    if (*device++ != ':')
        return false;
    size_t n = strspn(device, "0123456789");
    *ordinal = (int)strtol(device, NULL, 10);
    return n >= 1 && n <= 3 && device[n] == '\0';
}

/* The first GPU that works; the error is that of the first there is. */
static cag_status open_any(const cag_model *m, const struct backend_opts *opts,
                           struct backend **out, bool *present, cag_error *err)
{
    int n = 0;
    cag_status st = open_cuda(0, m, opts, out, present, &n, err);

    for (int i = 1; st && i < n; i++) {
        cag_error other = CAG_ERROR_INIT;
        bool there;

        if (open_cuda(i, m, opts, out, &there, &n, &other) == CAG_OK)
            st = CAG_OK;
    }
    return st;
}

static cag_status open_auto(const cag_model *m, const struct backend_opts *opts,
                            struct backend **out, cag_error *err)
{
    cag_error why = CAG_ERROR_INIT;
    bool present = false;
    cag_status st;

    if (opts->kv_f32) {
        st = cpu_new(m, opts, out, err);
        if (!st)
            snprintf((*out)->note, sizeof(*out)->note,
                     "cpu: K and V are kept as f32");
        return st;
    }
    /* cuBLAS alone takes half a second to load: not where there is no use */
    if (!opts->plugin && !has_driver())
        cag_fail(&why, CAG_E_BACKEND, NULL, -1, "there is no NVIDIA driver");
    else if (open_any(m, opts, out, &present, &why) == CAG_OK)
        return CAG_OK;
    st = cpu_new(m, opts, out, err);
    if (st)
        return st;
    (*out)->warn = present;
    snprintf((*out)->note, sizeof(*out)->note,
             present ? "using the CPU, not the GPU: %s" : "cpu: %s", why.msg);
    return CAG_OK;
}

bool cag_device_is_name(const char *device)
{
    int ordinal;

    return strcmp(device, "auto") == 0 || strcmp(device, "cpu") == 0 ||
           is_cuda(device, &ordinal);
}

bool cag_gpu_layers_of(const char *text, int *n)
{
    size_t len = strspn(text, "0123456789");

    *n = 0;
    if (strcmp(text, "all") == 0)
        return true;
    if (strcmp(text, "auto") == 0)
        *n = CAG_GPU_LAYERS_AUTO;
    else if (len >= 1 && len <= 6 && text[len] == '\0')
        *n = (int)strtol(text, NULL, 10);
    return *n != 0;
}

cag_status backend_load(const char *device, const cag_model *m,
                        const struct backend_opts *opts, struct backend **out,
                        cag_error *err)
{
    bool present;
    int ordinal, n;

    if (!device || strcmp(device, "auto") == 0)
        return open_auto(m, opts, out, err);
    if (strcmp(device, "cpu") == 0) {
        cag_status st = cpu_new(m, opts, out, err);
        if (!st)
            snprintf((*out)->note, sizeof(*out)->note, "cpu: as asked");
        return st;
    }
    if (!is_cuda(device, &ordinal))
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "unknown device '%s', expected auto, cpu, cuda or "
                        "cuda:N",
                        device);
    cag_error why = CAG_ERROR_INIT;
    cag_status st = open_cuda(ordinal, m, opts, out, &present, &n, &why);
    if (!st)
        return st;
    cag_fail(err, st, why.file[0] != '\0' ? why.file : NULL, -1,
             "--device %s: %s", device, why.msg);
    if (err)
        err->sys = why.sys;
    return st;
}

/* ------------------------------------------------------------ for a reader */

void cag_cuda_list(const char *plugin,
                   void (*line)(void *ctx, const char *text), void *ctx)
{
    const struct cuda_plugin *p;
    cag_error err = CAG_ERROR_INIT;
    char path[PATH_MAX], text[PATH_MAX + 64];
    bool present;
    int n = 0;

    if (!plugin && !has_driver()) /* the reason that a run gives, too */
        line(ctx, "there is no NVIDIA driver");
    if (get_plugin(plugin, path, &p, &err) != CAG_OK) {
        snprintf(text, sizeof text, "%s%s%s", err.file,
                 err.file[0] != '\0' ? ": " : "", err.msg);
        line(ctx, text);
        return;
    }
    snprintf(text, sizeof text, "plugin %s", path);
    line(ctx, text);
    if (count_devices(p, &n, &present, &err) != CAG_OK &&
        (plugin || has_driver()))
        line(ctx, err.msg);
    for (int i = 0; i < n; i++) {
        struct cuda_device d;
        if (p->describe(i, &d, &err) != CAG_OK) {
            line(ctx, err.msg);
            continue;
        }
        snprintf(text, sizeof text,
                 "cuda:%d %s, compute capability %d.%d, %llu MiB%s", i, d.name,
                 d.sm / 10, d.sm % 10, (unsigned long long)(d.mem_total >> 20),
                 d.sm < d.sm_min ? " (too old for the kernels)" : "");
        line(ctx, text);
    }
}

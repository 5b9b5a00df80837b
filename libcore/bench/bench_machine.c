/*
 * bench_machine.c - where a figure was taken: facts every report carries.
 *
 * Read from /proc and uname; what cannot be read is left out, since a figure
 * without its CPU's frequency is still a figure.
 */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "kernels/limits.h"
#include "kvc/kvc_codec.h"
#include "bench/bench.h"
#include "util/error.h"
#include "tokenizer/pretok.h"
#include "util/file.h"
#include "util/hash.h"
#include "util/mem.h"

/* The first line of text "key<blanks>: value" (or NULL), value in out. */
static bool proc_value(const char *text, const char *key, char *out,
                       size_t size)
{
    size_t n = strlen(key);

    for (const char *l = text; l; l = strchr(l, '\n')) {
        l += *l == '\n';
        if (!strncmp(l, key, n)) {
            const char *v = l + n;
            size_t len;

            v += strspn(v, " \t");
            if (*v != ':')
                continue;
            v += 1 + strspn(v + 1, " \t");
            len = strcspn(v, "\n");
            if (len >= size)
                len = size - 1;
            memcpy(out, v, len);
            out[len] = '\0';
            return true;
        }
        if (!*l)
            break;
    }
    return false;
}

/* Of the CPU's hundred flags those that decide which kernels can run. */
static void pick_flags(const char *all, struct buf *out)
{
    static const char *const want[] = {
        "sse4_2",   "avx",     "avx2", "fma",   "f16c",
        "avx_vnni", "avx512",  "amx",  "asimd", "fphp",
        "asimdhp",  "asimddp", "bf16", "i8mm",  "sve",
    };

    while (*all) {
        size_t n = strcspn(all, " ");
        for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
            size_t w = strlen(want[i]);
            bool family = !strcmp(want[i], "avx512") ||
                          !strcmp(want[i], "amx") || !strcmp(want[i], "sve");
            if (n < w || strncmp(all, want[i], w) || (n > w && !family))
                continue;
            if (out->size)
                buf_char(out, ' ');
            buf_add(out, all, n);
            break;
        }
        all += n + strspn(all + n, " ");
    }
}

static cag_status cpu_facts(cag_bench_report *r, cag_error *err)
{
    struct buf info = BUF_INIT, flags = BUF_INIT;
    char value[4096];
    cag_status st = CAG_OK;

    if (file_read("/proc/cpuinfo", (size_t)16 << 20, &info, NULL) || !info.data)
        goto out;
    if (proc_value(info.data, "model name", value, sizeof value) ||
        proc_value(info.data, "CPU part", value, sizeof value))
        st = cag_bench_set(r, "cpu", value, err);
    if (!st && (proc_value(info.data, "flags", value, sizeof value) ||
                proc_value(info.data, "Features", value, sizeof value))) {
        pick_flags(value, &flags);
        st = buf_failed(&flags)
                 ? cag_fail_nomem(err, "CPU flags")
                 : cag_bench_set(r, "cpu_flags", flags.data ? flags.data : "",
                                 err);
    }
out:
    buf_free(&flags);
    buf_free(&info);
    return st;
}

static cag_status system_facts(cag_bench_report *r, cag_error *err)
{
    struct buf b = BUF_INIT;
    struct utsname u;
    char value[256];
    cag_status st = CAG_OK;

    if (uname(&u) == 0) {
        snprintf(value, sizeof value, "%.80s %.80s %.80s", u.sysname, u.release,
                 u.machine);
        st = cag_bench_set(r, "system", value, err);
    }
    if (!st && !file_read("/proc/loadavg", 4096, &b, NULL) && b.data) {
        snprintf(value, sizeof value, "%.*s", (int)strcspn(b.data, " \n"),
                 b.data);
        st = cag_bench_set(r, "load_average", value, err);
    }
    buf_clear(&b);
    if (!st && !file_read("/proc/meminfo", 65536, &b, NULL) && b.data &&
        proc_value(b.data, "MemTotal", value, sizeof value))
        st = cag_bench_set(r, "memory", value, err);
    buf_free(&b);
    return st;
}

static cag_status library_facts(cag_bench_report *r, cag_error *err)
{
    char text[256], pcre2[64];

    pretok_library(pcre2);
    snprintf(text, sizeof text, "zstd %s, %s, xxhash %s, pcre2 %s",
             kvc_codec_library(), hash_sha256_library(), hash_xxh3_library(),
             pcre2);
    return cag_bench_set(r, "libraries", text, err);
}

cag_status bench_machine(cag_bench_report *r, cag_error *err)
{
    char value[64];
    time_t now = time(NULL);
    struct tm tm;
    cag_status st = CAG_OK;

    if (gmtime_r(&now, &tm) &&
        strftime(value, sizeof value, "%Y-%m-%dT%H:%M:%SZ", &tm))
        st = cag_bench_set(r, "date", value, err);
    if (!st)
        st = cpu_facts(r, err);
    if (!st) {
        snprintf(value, sizeof value, "%d", pool_default_size());
        st = cag_bench_set(r, "cpus_usable", value, err);
    }
    if (!st)
        st = system_facts(r, err);
    if (!st)
        st = cag_bench_set(r, "fma_probe", kernels_fma_name(), err);
#if defined(__clang__)
    if (!st)
        st = cag_bench_set(r, "compiler", __VERSION__, err);
#else
    if (!st)
        st = cag_bench_set(r, "compiler", "gcc " __VERSION__, err);
#endif
    return st ? st : library_facts(r, err);
}

/*
 * fuzz_manifest.c - any bytes as a manifest.
 *
 * One that is let through keeps the promises of its schema.
 */
#include <stdlib.h>
#include <string.h>

#include "source/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int within(int64_t v, int64_t lo, int64_t hi)
{
    return v == -1 || (v >= lo && v <= hi);
}

static void check_source(const cag_source_spec *s)
{
    if (!s->path || !*s->path || !strcmp(s->path, "-"))
        abort();
    if (s->filter && !s->filter[0])
        abort();
    if (!s->filter && (s->filter_timeout_s > 0 || s->filter_max_bytes))
        abort();
    if (s->filter_timeout_s > 86400 || s->filter_max_bytes > 1u << 30)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cag_error err = CAG_ERROR_INIT;
    cag_manifest *m;

    if (manifest_parse(data, size, "dir/fuzz.yaml", &m, &err)) {
        if (!err.msg[0] || strchr(err.msg, '\n'))
            abort();
        return 0;
    }
    if (m->n_source < 1 || !within(m->ctx_size, 64, 1 << 24) ||
        !within(m->reserve, 0, 1 << 24) || !within(m->threads, 1, 512) ||
        !within(m->batch_size, 1, 65536) || m->max_memory < -1 ||
        (m->system && m->system_file))
        abort();
    for (int i = 0; i < m->n_source; i++)
        check_source(&m->source[i]);
    cag_manifest_free(m);
    return 0;
}

/*
 * kept.c - see kept.h.
 */
#include "ask/kept.h"

#include <string.h>

#include "ask/kb.h"
#include "engine/session.h"
#include "model/model.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"

#define LEAST_SAME 16 /* tokens: below that a new session is as quick */

struct item {
    const cag_kb *kb;
    char *owner;
    int32_t *ids; /* [n] */
    size_t n;
    cag_session *session;
    uint64_t bytes;
    double used_s;
};

struct cag_kept {
    struct item *item; /* [n], room for max_n */
    int n, max_n;
    uint64_t bytes, max_bytes;
    double idle_s;
    int64_t n_reused; /* tokens */
};

cag_status cag_kept_new(int max_n, uint64_t max_bytes, double idle_s,
                        cag_kept **out, cag_error *err)
{
    cag_kept *k = mem_zalloc(sizeof *k);

    if (k)
        k->item = mem_alloc_array((size_t)max_n + 1, sizeof *k->item);
    if (!k || !k->item) {
        mem_free(k);
        return cag_fail_nomem(err, "sessions");
    }
    k->max_n = max_n;
    k->max_bytes = max_bytes;
    k->idle_s = idle_s;
    *out = k;
    return CAG_OK;
}

/* Take item i out; its session is the caller's. */
static cag_session *take(cag_kept *k, int i)
{
    struct item *it = &k->item[i];
    cag_session *s = it->session;

    k->bytes -= it->bytes;
    mem_free(it->owner);
    mem_free(it->ids);
    *it = k->item[--k->n];
    return s;
}

static void drop(cag_kept *k, int i)
{
    cag_session_free(take(k, i));
}

bool kept_clear(cag_kept *k)
{
    bool any = k->n > 0;

    while (k->n)
        drop(k, k->n - 1);
    return any;
}

void cag_kept_free(cag_kept *k)
{
    if (!k)
        return;
    kept_clear(k);
    mem_free(k->item);
    mem_free(k);
}

void cag_kept_forget(cag_kept *k, const cag_kb *kb)
{
    for (int i = k->n - 1; i >= 0; i--)
        if (k->item[i].kb == kb)
            drop(k, i);
}

void cag_kept_expire(cag_kept *k)
{
    double now = clock_s();

    for (int i = k->n - 1; i >= 0; i--)
        if (now - k->item[i].used_s > k->idle_s)
            drop(k, i);
}

void cag_kept_figures(const cag_kept *k, int *n, uint64_t *bytes,
                      int64_t *n_reused)
{
    *n = k->n;
    *bytes = k->bytes;
    *n_reused = k->n_reused;
}

static size_t common(const struct item *it, const int32_t *ids, size_t n)
{
    size_t i = 0;

    while (i < n && i < it->n && it->ids[i] == ids[i])
        i++;
    return i;
}

cag_session *kept_take(cag_kept *k, const cag_kb *kb, const char *owner,
                       const int32_t *ids, size_t n, int64_t need_tok,
                       size_t *n_same)
{
    int best = -1;
    size_t most = LEAST_SAME - 1;
    cag_session *s;

    for (int i = 0; i < k->n; i++) {
        const struct item *it = &k->item[i];
        size_t same;

        if (it->kb != kb || strcmp(it->owner, owner) != 0 ||
            session_max_tok(it->session) < need_tok)
            continue;
        same = common(it, ids, n - 1); /* one is left to be read */
        /* a question that begins alike is no reason to end a conversation */
        if (same > most && 2 * same >= it->n) {
            most = same;
            best = i;
        }
    }
    if (best < 0)
        return NULL;
    s = take(k, best);
    if (cag_session_truncate(s, (int)(kb->n_ids + most), NULL)) {
        cag_session_free(s);
        return NULL;
    }
    *n_same = most;
    k->n_reused += (int64_t)most;
    return s;
}

static void drop_oldest(cag_kept *k)
{
    int oldest = 0;

    for (int i = 1; i < k->n; i++)
        if (k->item[i].used_s < k->item[oldest].used_s)
            oldest = i;
    drop(k, oldest);
}

void kept_put(cag_kept *k, const cag_kb *kb, const char *owner,
              const int32_t *ids, size_t n, cag_session *s)
{
    struct item it = { .kb = kb, .n = n, .session = s, .used_s = clock_s() };
    /* as many pages as were touched; f32 takes twice as much */
    it.bytes = (uint64_t)(cag_session_n_tok(s) - (int)kb->n_ids) * 2 *
               kb->model->info.kv_bytes_per_tok;
    if (k->max_n && it.bytes <= k->max_bytes &&
        !cag_session_truncate(s, (int)(kb->n_ids + n), NULL)) {
        it.owner = mem_strdup(owner);
        it.ids = mem_alloc_array(n, sizeof *it.ids);
    }
    if (!it.owner || !it.ids) {
        mem_free(it.owner);
        mem_free(it.ids);
        cag_session_free(s);
        return;
    }
    memcpy(it.ids, ids, n * sizeof *ids);
    while (k->n && (k->n >= k->max_n || k->bytes + it.bytes > k->max_bytes))
        drop_oldest(k);
    k->item[k->n++] = it;
    k->bytes += it.bytes;
}

/*
 * session_view.c - which tokens of its prefix a session sees.
 *
 * Ranges become bits on the grid of tiles once, when they are set; a pass
 * only hands the pointer on.
 */
#include "engine/engine.h"
#include "util/error.h"
#include "util/mem.h"

/* Bits [from, to) of a word. */
static uint64_t bits(int from, int to)
{
    uint64_t below = ((uint64_t)1 << from) - 1;

    return (to == KV_TILE ? UINT64_MAX : ((uint64_t)1 << to) - 1) & ~below;
}

static void show(struct kv_view *v, int32_t from, int32_t to)
{
    while (from < to) {
        int tile = from / KV_TILE, end = (tile + 1) * KV_TILE;

        end = end < to ? end : to;
        v->tile[tile] |= bits(from % KV_TILE, end - tile * KV_TILE);
        from = end;
    }
}

static cag_status check_ranges(const cag_session *s,
                               const struct token_range *range, int n,
                               cag_error *err)
{
    int32_t at = 0;

    if (!s->prefix)
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "a view of a session that has no prefix");
    for (int i = 0; i < n; i++) {
        if (range[i].from < at || range[i].to <= range[i].from ||
            range[i].to > s->prefix->n_tok)
            return cag_fail(err, CAG_E_USAGE, NULL, -1,
                            "view: range %d is tokens %d to %d, expected "
                            "ascending ranges in %d to %d",
                            i, (int)range[i].from, (int)range[i].to, (int)at,
                            s->prefix->n_tok);
        at = range[i].to;
    }
    return CAG_OK;
}

bool engine_has_views(const cag_engine *e)
{
    return e->backend->views;
}

cag_status session_set_view(cag_session *s, const struct token_range *range,
                            int n, cag_error *err)
{
    struct kv_view *v = NULL;

    if (range) {
        cag_status st = check_ranges(s, range, n, err);

        if (st)
            return st;
        if (!engine_has_views(s->engine))
            return cag_fail(err, CAG_E_UNSUPPORTED, NULL, -1,
                            "device %s cannot answer from a part of the "
                            "knowledge; use --device cpu",
                            cag_engine_device(s->engine));
        int n_tok = s->prefix->n_tok, n_tile = (n_tok - 1) / KV_TILE + 1;

        v = mem_zalloc(sizeof *v + (size_t)n_tile * sizeof v->tile[0]);
        if (!v)
            return cag_fail_nomem(err, "view of a session");
        v->n_tile = n_tile;
        for (int i = 0; i < n; i++)
            show(v, range[i].from, range[i].to);
        show(v, n_tok, n_tile * KV_TILE);
    }
    mem_free(s->view);
    s->view = v;
    return CAG_OK;
}

/*
 * batch_shard.c - see batch_shard.h and cag/tool/shard.h.
 *
 * The line has nothing of the run itself (time, machine), so that a run that
 * is repeated writes the same bytes.  It has no "line", which every row has.
 */
#include "batch/batch_shard.h"

#include <stdio.h>
#include <string.h>

#include "ask/kb.h"
#include "ask/turn.h"
#include "batch/batch_row.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/mem.h"

/* What decides the rows besides question and cache: options_key says how an
 * answer comes about, the rest what is then told of it. */
static cag_status options_digest(const cag_kb *kb, const cag_batch_opts *o,
                                 char out[17], cag_error *err)
{
    uint8_t digest[SHA256_SIZE];
    struct buf b = BUF_INIT;
    cag_ask_params p;
    char key[17];
    cag_status st = turn_params(&p, o->params, err);

    if (st)
        return st;
    p.sampling.row = 0;
    st = row_options_key(kb, &p, key, err);
    if (st)
        return st;
    buf_printf(&b, "%s %d %d %s", key, p.evidence, (int)p.require,
               o->question_field ? o->question_field : "");
    st = buf_failed(&b) ? cag_fail_nomem(err, "options")
                        : sha256_buf(b.data, b.size, digest, err);
    buf_free(&b);
    if (!st)
        hash_hex(digest, 8, out);
    return st;
}

cag_status cag_shard_of(const cag_kb *kb, const cag_batch_opts *o,
                        const cag_batch_report *r, cag_shard *out,
                        cag_error *err)
{
    uint8_t digest[sizeof r->input_digest];

    memset(out, 0, sizeof *out);
    out->shard = o->shard;
    out->n_shard = o->n_shard;
    out->n_row = r->n_ok + r->n_failed;
    out->n_failed = r->n_failed;
    out->n_input = r->n_input;
    snprintf(out->content_id, sizeof out->content_id, "%s",
             cag_kvc_get_info(kb->kvc)->content_id);
    memcpy(digest, &r->input_digest, sizeof digest);
    hash_hex(digest, sizeof digest, out->questions);
    return options_digest(kb, o, out->options, err);
}

cag_status cag_shard_line(const cag_shard *s, char **line, size_t *n,
                          cag_error *err)
{
    struct buf b = BUF_INIT;

    buf_printf(&b,
               "{\"schema\":1,\"complete\":true,\"shard\":%d,\"shards\":%d,"
               "\"rows\":%lld,\"failed\":%lld,\"input_rows\":%lld,"
               "\"content_id\":\"%s\",\"options\":\"%s\","
               "\"questions\":\"%s\"}\n",
               s->shard, s->n_shard, (long long)s->n_row,
               (long long)s->n_failed, (long long)s->n_input, s->content_id,
               s->options, s->questions);
    if (buf_failed(&b)) {
        buf_free(&b);
        return cag_fail_nomem(err, "row");
    }
    *line = buf_detach(&b, n);
    return CAG_OK;
}

/* A member of n hex digits, at most. */
static bool take_hex(const jv *line, const char *key, size_t n, char *out)
{
    const char *s = jv_get_str(line, key, NULL);

    if (!s || strlen(s) > n || s[strspn(s, "0123456789abcdef")])
        return false;
    memcpy(out, s, strlen(s) + 1);
    return true;
}

static bool take_count(const jv *line, const char *key, int64_t most,
                       int64_t *out)
{
    const jv *v = jv_get(line, key);

    *out = jv_int(v, -1);
    return jv_type(v) == JV_INT && *out >= 0 && *out <= most;
}

bool shard_read(const jv *line, cag_shard *s)
{
    int64_t shard, n_shard;

    memset(s, 0, sizeof *s);
    if (jv_type(line) != JV_OBJECT || jv_get(line, "line") ||
        !jv_get_bool(line, "complete", false) ||
        !take_count(line, "shards", CAG_SHARDS_MAX, &n_shard) ||
        !take_count(line, "shard", n_shard - 1, &shard) ||
        !take_count(line, "rows", INT64_MAX, &s->n_row) ||
        !take_count(line, "failed", s->n_row, &s->n_failed) ||
        !take_count(line, "input_rows", INT64_MAX, &s->n_input) ||
        !take_hex(line, "content_id", 64, s->content_id) ||
        !take_hex(line, "options", 16, s->options) ||
        !take_hex(line, "questions", 16, s->questions))
        return false;
    s->shard = (int)shard;
    s->n_shard = (int)n_shard;
    return true;
}

/*
 * batch_known.c - see batch_known.h.
 *
 * Rows are indexed by a hash and compared in full before they are believed.
 * Ids are compared by their 64-bit hash alone: a false alarm among a million
 * ids has a chance of 3e-8, and keeps memory at 16 bytes a row.
 */
#include "batch/batch_known.h"

#include "ask/answer_copy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batch/batch_shard.h"
#include "util/hash.h"
#include "util/mem.h"

/* What one remembered answer may hold, so that all of them stay small. */
#define RECENT_MAX ((size_t)8 << 10)

/* All that must be equal for an answer to be the same row's. */
static bool put_identity(struct buf *b, const char *question, size_t n,
                         const char *key, const jv *row, const char *text,
                         size_t size)
{
    buf_add(b, question, n);
    buf_char(b, '\0');
    buf_str(b, key);
    buf_char(b, '\0');
    row_ids(b, row, text, size);
    return !buf_failed(b);
}

static int by_hash(const void *a, const void *b)
{
    const struct known_row *x = a, *y = b;

    if (x->hash != y->hash)
        return x->hash > y->hash ? 1 : -1;
    return (x->at > y->at) - (x->at < y->at);
}

static bool put_row_identity(struct buf *b, const jv *row, const char *text,
                             size_t size)
{
    size_t n;
    const char *q = jv_str(jv_get(row, "question"), &n);
    const char *key = jv_get_str(row, "options", NULL);

    return q && key && put_identity(b, q, n, key, row, text, size);
}

/* An answer, the error of a bad row, or the end of a shard without rows. */
static bool is_row(const jv *row)
{
    cag_shard end;

    return jv_type(row) == JV_OBJECT &&
           (shard_read(row, &end) ||
            (jv_get(row, "answer")
                 ? jv_get_str(row, "options", NULL) != NULL
                 : jv_get(row, "error") &&
                       jv_type(jv_get(row, "line")) == JV_INT));
}

/* One line of the earlier output.  PATH.part begins with a row, or is no file
 * of rows; any other line that is no answer is passed over. */
static cag_status load_line(void *ctx, const char *line, size_t size,
                            uint64_t at, cag_error *err)
{
    struct known *k = ctx;
    struct buf b = BUF_INIT;
    jv *row = NULL;
    cag_status st = jv_parse(line, size, NULL, &row, NULL);

    if (st == CAG_E_NOMEM)
        return cag_fail_nomem(err, "rows to resume");
    if (st)
        row = NULL;
    st = CAG_OK;
    if (at == 0 && !is_row(row))
        st = rows_foreign(k->earlier, err);
    else if (row && jv_type(row) == JV_OBJECT && jv_get(row, "answer") &&
             !jv_get(row, "error") && put_row_identity(&b, row, line, size)) {
        if (k->n_row == k->cap_row) {
            size_t more = k->cap_row ? 2 * k->cap_row : 256, bytes;
            void *v = mem_mul(&bytes, more, sizeof *k->row)
                          ? mem_realloc(k->row, bytes)
                          : NULL;

            if (v) {
                k->row = v;
                k->cap_row = more;
            } else {
                st = cag_fail_nomem(err, "rows to resume");
            }
        }
        if (!st)
            k->row[k->n_row++] = (struct known_row){ xxh3_64(b.data, b.size),
                                                     at, (uint32_t)size };
    }
    buf_free(&b);
    jv_free(row);
    return st;
}

cag_status known_init(struct known *k, const cag_rows *earlier, cag_error *err)
{
    cag_status st = CAG_OK;

    memset(k, 0, sizeof *k);
    k->earlier = earlier;
    k->recent = mem_alloc_array(KNOWN_RECENT, sizeof *k->recent);
    if (!k->recent)
        return cag_fail_nomem(err, "batch");
    if (earlier)
        st = rows_each(earlier, load_line, k, err);
    if (k->n_row)
        qsort(k->row, k->n_row, sizeof *k->row, by_hash);
    return st;
}

void known_release(struct known *k)
{
    for (int i = 0; k->recent && i < KNOWN_RECENT; i++) {
        mem_free(k->recent[i].question);
        cag_answer_release(&k->recent[i].answer);
    }
    mem_free(k->recent);
    mem_free(k->row);
    mem_free(k->id);
    memset(k, 0, sizeof *k);
}

/* Does this earlier row answer the one whose identity is want? */
static bool take(const struct known *k, const struct known_row *d,
                 const struct buf *want, cag_answer *a)
{
    struct buf b = BUF_INIT, line = BUF_INIT;
    jv *row = NULL;
    bool same = rows_read(k->earlier, d->at, d->size, &line) &&
                jv_parse(line.data, line.size, NULL, &row, NULL) == CAG_OK &&
                put_row_identity(&b, row, line.data, line.size) &&
                b.size == want->size && !memcmp(b.data, want->data, b.size) &&
                row_read_answer(row, a);

    buf_free(&line);
    buf_free(&b);
    jv_free(row);
    return same;
}

bool known_earlier(const struct known *k, const struct row *r, const char *key,
                   cag_answer *a)
{
    struct buf want = BUF_INIT;
    size_t lo = 0, hi = k->n_row;
    bool found = false;

    if (k->n_row && put_identity(&want, r->question, r->size, key, r->input,
                                 r->text, r->text_size)) {
        uint64_t hash = xxh3_64(want.data, want.size);

        while (lo < hi) {
            size_t mid = lo + (hi - lo) / 2;

            if (k->row[mid].hash < hash)
                lo = mid + 1;
            else
                hi = mid;
        }
        for (; !found && lo < k->n_row && k->row[lo].hash == hash; lo++)
            found = take(k, &k->row[lo], &want, a);
    }
    buf_free(&want);
    return found;
}

static struct known_answer *slot_of(const struct known *k, const struct row *r,
                                    const char *key)
{
    uint64_t h = xxh3_64(r->question, r->size) ^ xxh3_64(key, strlen(key));

    return &k->recent[h % KNOWN_RECENT];
}

void known_add(struct known *k, const struct row *r, const char *key,
               const cag_answer *a)
{
    struct known_answer *s = slot_of(k, r, key), fresh = { .size = r->size };
    size_t n_why = a->reasoning ? strlen(a->reasoning) : 0;

    if (r->params.sampling.temperature > 0 || !a->text ||
        r->size > RECENT_MAX || a->size > RECENT_MAX || n_why > RECENT_MAX)
        return;
    snprintf(fresh.key, sizeof fresh.key, "%s", key);
    fresh.question = mem_strndup(r->question, r->size);
    if (!fresh.question || answer_copy(&fresh.answer, a, NULL)) {
        mem_free(fresh.question);
        return;
    }
    mem_free(s->question);
    cag_answer_release(&s->answer);
    *s = fresh;
}

const cag_answer *known_recent(const struct known *k, const struct row *r,
                               const char *key)
{
    const struct known_answer *s = slot_of(k, r, key);

    return r->params.sampling.temperature <= 0 && s->question &&
                   s->size == r->size && !strcmp(s->key, key) &&
                   !memcmp(s->question, r->question, r->size)
               ? &s->answer
               : NULL;
}

/* The table doubles at half full; line 0 marks a free place. */
static cag_status grow_ids(struct known *k, cag_error *err)
{
    size_t cap = k->cap_id ? 2 * k->cap_id : 1024;
    struct known_id *v = mem_alloc_array(cap, sizeof *v);

    if (!v)
        return cag_fail_nomem(err, "ids");
    for (size_t i = 0; i < k->cap_id; i++) {
        size_t at = k->id[i].hash & (cap - 1);

        if (!k->id[i].line)
            continue;
        while (v[at].line)
            at = (at + 1) & (cap - 1);
        v[at] = k->id[i];
    }
    mem_free(k->id);
    k->id = v;
    k->cap_id = cap;
    return CAG_OK;
}

cag_status known_id(struct known *k, const struct row *r, int64_t *line,
                    cag_error *err)
{
    struct buf b = BUF_INIT;
    cag_status st = CAG_OK;
    uint64_t hash;
    size_t at;

    *line = 0;
    if (!jv_get(r->input, "id") && !jv_get(r->input, "custom_id"))
        return CAG_OK;
    if (2 * (k->n_id + 1) > k->cap_id)
        st = grow_ids(k, err);
    row_ids(&b, r->input, r->text, r->text_size);
    if (!st && buf_failed(&b))
        st = cag_fail_nomem(err, "ids");
    if (st)
        goto out;
    hash = xxh3_64(b.data, b.size);
    for (at = hash & (k->cap_id - 1); k->id[at].line;
         at = (at + 1) & (k->cap_id - 1))
        if (k->id[at].hash == hash) {
            *line = k->id[at].line;
            goto out;
        }
    k->id[at] = (struct known_id){ hash, r->line };
    k->n_id++;
out:
    buf_free(&b);
    return st;
}

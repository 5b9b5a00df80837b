/*
 * kv_export.c - keys and values of a cache as a safetensors file.
 *
 * The file is a u64 with the size of the header, the header (JSON, padded with
 * blanks to 8 bytes), and the tensors in the order of their offsets.  All
 * offsets follow from the shape, so the header comes first and each chunk goes
 * to its places as it is read: memory is that of one chunk.
 *
 * In a tile keys lie by groups of 16 tokens and values by groups of 32
 * channels (kv_tile.h); here a token's channels lie together.
 */
#include <cag/tool/export.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/kv_tile.h"
#include "engine/q8h_decode.h"
#include "kvc/kvc_read.h"
#include "util/error.h"
#include "util/file.h"
#include "util/mem.h"
#include "util/rd.h"

#define SCHEMA "{\"__metadata__\":{\"cag_export\":\"1\","

struct export
{
    const cag_kvc *k;
    const struct kvc_shape *s;
    struct file_out out;
    uint64_t data;         /* where the tensors begin             */
    uint64_t tensor_bytes; /* of each of them                     */
    size_t row_bytes;      /* of a token and head                 */
    uint8_t *raw;          /* a chunk, where it is not in place   */
    uint8_t *rows;         /* [chunk_tok][d_head] of one head     */
    float *tile[2];        /* q8h: K and V, decoded               */
};

/* ----------------------------------------------------------------- header */

static void put_str(struct buf *b, const char *key, const char *value)
{
    jv *v = jv_new_str(value ? value : "", value ? strlen(value) : 0);

    buf_printf(b, "\"%s\":", key);
    if (v)
        jv_dump(v, b);
    else
        b->failed = true;
    jv_free(v);
    buf_char(b, ',');
}

static void put_metadata(const struct export *x, struct buf *b)
{
    const cag_kvc_info *i = cag_kvc_get_info(x->k);
    size_t n;
    const int32_t *id = cag_kvc_ids(x->k, &n);

    put_str(b, "model", i->model_name);
    put_str(b, "arch", i->model_arch);
    put_str(b, "content_id", i->content_id);
    put_str(b, "binding", i->binding);
    put_str(b, "weights_sha256", i->weights_sha256);
    put_str(b, "config_sha256", i->config_sha256);
    put_str(b, "tokenizer_sha256", i->tokenizer_sha256);
    put_str(b, "template_sha256", i->template_sha256);
    put_str(b, "text_sha256", i->text_sha256);
    put_str(b, "codec", i->codec);
    put_str(b, "numerics", i->numerics);
    put_str(b, "precision", i->precision);
    put_str(b, "tool", i->tool);
    put_str(b, "keys", "rotated at positions from 0, half-split channels");
    buf_printf(b, "\"layers\":\"%d\",\"tokens\":\"%d\",\"ids\":\"[",
               x->s->n_layer, x->s->n_tok);
    for (size_t t = 0; t < n; t++)
        buf_printf(b, "%s%d", t ? "," : "", (int)id[t]);
    buf_str(b, "]\"}");
}

static cag_status put_header(struct export *x, cag_error *err)
{
    struct buf b = BUF_INIT;
    uint8_t size[8];
    cag_status st = CAG_OK;

    buf_str(&b, SCHEMA);
    put_metadata(x, &b);
    for (int i = 0; i < 2 * x->s->n_layer; i++)
        buf_printf(&b,
                   ",\"layer.%d.%c\":{\"dtype\":\"%s\",\"shape\":[1,%d,%d,%d],"
                   "\"data_offsets\":[%llu,%llu]}",
                   i / 2, i & 1 ? 'v' : 'k',
                   x->s->kv_class == KVC_CLASS_F16 ? "F16" : "F32",
                   x->s->n_kv_head, x->s->n_tok, x->s->d_head,
                   (unsigned long long)x->tensor_bytes * (unsigned)i,
                   (unsigned long long)x->tensor_bytes * (unsigned)(i + 1));
    buf_char(&b, '}');
    while (!buf_failed(&b) && b.size % 8)
        buf_char(&b, ' ');
    if (buf_failed(&b))
        st = cag_fail_nomem(err, "header");
    rd_put64(size, b.size);
    if (!st)
        st = file_out_pwrite(&x->out, size, sizeof size, 0, err);
    if (!st)
        st = file_out_pwrite(&x->out, b.data, b.size, sizeof size, err);
    x->data = sizeof size + b.size;
    buf_free(&b);
    return st;
}

/* ------------------------------------------------------------------- data */

/* Tokens [0, n) of a tile of elements of e bytes, as rows. */
static void untile(const uint8_t *tile, bool is_v, size_t e, int d_head, int n,
                   uint8_t *rows)
{
    for (int t = 0; t < n; t++)
        for (int c = 0; c < d_head; c++, rows += e)
            memcpy(rows, tile + kv_tile_at(is_v, d_head, t, c) * e, e);
}

/* The rows of one head of K (0) or V (1) of a chunk. */
static cag_status take_rows(struct export *x, const struct q8h_chunk *c,
                            int is_v, int head, int n_tok, cag_error *err)
{
    const struct kv_pair decoded = { KV_F32, x->tile[0], x->tile[1] };
    size_t e = x->row_bytes / (size_t)x->s->d_head;
    cag_status st = CAG_OK;

    for (int t = 0; t < n_tok && !st; t += KVC_TILE) {
        int n = n_tok - t < KVC_TILE ? n_tok - t : KVC_TILE;
        const uint8_t *tile =
            c->raw + kvc_tile_off(x->s, c->chunk, is_v, head, t / KVC_TILE);

        if (kvc_is_q8h(x->s)) {
            st = q8h_tile(c, head, t / KVC_TILE, n, &decoded, err);
            tile = (const uint8_t *)x->tile[is_v];
        }
        if (!st)
            untile(tile, is_v, e, x->s->d_head, n,
                   x->rows + (size_t)t * x->row_bytes);
    }
    return st;
}

static cag_status put_chunk(struct export *x, int layer, int chunk,
                            cag_error *err)
{
    int first = chunk * x->s->chunk_tok;
    int left = x->s->n_tok - first;
    int n = left < x->s->chunk_tok ? left : x->s->chunk_tok;
    struct q8h_chunk c = { x->s, NULL, layer, chunk,
                           cag_kvc_get_info(x->k)->path };
    cag_status st = kvc_chunk_load(x->k, layer, chunk, x->raw, &c.raw, err);

    for (int i = 0; i < 2 * x->s->n_kv_head && !st; i++) {
        int is_v = i & 1, head = i / 2;
        uint64_t off = x->data + x->tensor_bytes * (unsigned)(2 * layer + is_v);

        off += ((uint64_t)head * (uint64_t)x->s->n_tok + (uint64_t)first) *
               x->row_bytes;
        st = take_rows(x, &c, is_v, head, n, err);
        if (!st)
            st = file_out_pwrite(&x->out, x->rows, (size_t)n * x->row_bytes,
                                 off, err);
    }
    return st;
}

static cag_status put_data(struct export *x, cag_progress_fn fn, void *ctx,
                           cag_error *err)
{
    int n_chunk = kvc_n_chunk(x->s);
    cag_progress p = { "export", CAG_UNIT_BYTES, 0,
                       x->tensor_bytes * 2 * (unsigned)x->s->n_layer };
    cag_status st = CAG_OK;

    for (int i = 0; i < x->s->n_layer * n_chunk && !st; i++) {
        p.done = p.total / (unsigned)(x->s->n_layer * n_chunk) * (unsigned)i;
        if (fn && !fn(ctx, &p))
            return cag_fail(err, CAG_E_CANCELLED, x->out.at.path, -1,
                            "cancelled");
        st = put_chunk(x, i / n_chunk, i % n_chunk, err);
    }
    return st;
}

/* ------------------------------------------------------------------- file */

/* An export may be replaced, not a model that somebody named by mistake. */
static cag_status may_replace(const char *path, cag_error *err)
{
    char head[8 + sizeof SCHEMA - 1];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    ssize_t n = fd >= 0 ? read(fd, head, sizeof head) : 0;
    int sys = errno;

    if (fd >= 0)
        close(fd);
    else if (sys == ENOENT)
        return CAG_OK;
    else if (sys == ELOOP)
        return cag_fail(err, CAG_E_CREATE, path, -1,
                        "is a symbolic link: name the file itself");
    if (n == sizeof head && !memcmp(head + 8, SCHEMA, sizeof SCHEMA - 1))
        return CAG_OK;
    return cag_fail(err, CAG_E_CREATE, path, -1,
                    "is there, and is no export of a cache: move it away, or "
                    "choose another name");
}

static cag_status set_up(struct export *x, cag_error *err)
{
    size_t tile = (size_t)KVC_TILE * (size_t)x->s->d_head * sizeof(float);
    size_t e = x->s->kv_class == KVC_CLASS_F16 ? 2 : 4;

    x->row_bytes = e * (size_t)x->s->d_head;
    x->tensor_bytes =
        (uint64_t)x->s->n_kv_head * (uint64_t)x->s->n_tok * x->row_bytes;
    x->rows = mem_alloc_array((size_t)x->s->chunk_tok, x->row_bytes);
    if (!kvc_chunk_in_place(x->k))
        x->raw = mem_alloc_aligned(64, kvc_chunk_bytes(x->s, 0));
    for (int i = 0; i < 2 && kvc_is_q8h(x->s); i++)
        x->tile[i] = mem_alloc_aligned(64, tile);
    return !x->rows || (!kvc_chunk_in_place(x->k) && !x->raw) ||
                   (kvc_is_q8h(x->s) && (!x->tile[0] || !x->tile[1]))
               ? cag_fail_nomem(err, "export")
               : CAG_OK;
}

cag_status cag_kvc_export(const cag_kvc *k, const char *path, int mode,
                          cag_progress_fn progress, void *ctx, cag_error *err)
{
    struct export x = { .k = k, .s = kvc_get_shape(k), .out.fd = -1 };
    cag_status st = kvc_refuse_checkpoint(k, err);

    if (!st)
        st = may_replace(path, err);
    if (!st)
        st = set_up(&x, err);
    if (!st)
        st = file_out_open(&x.out, path, mode, err);
    if (!st)
        st = put_header(&x, err);
    if (!st)
        st = put_data(&x, progress, ctx, err);
    if (!st)
        st = file_out_commit(&x.out, err);
    else
        file_out_abort(&x.out);
    mem_free(x.raw);
    mem_free(x.rows);
    mem_free(x.tile[0]);
    mem_free(x.tile[1]);
    return st;
}

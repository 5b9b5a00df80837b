/*
 * weights.c - from tensor names to roles.
 *
 * Both containers are seen through one small interface (find a tensor, tick
 * it off), so that shapes are checked in one place: GGUF counts dimensions
 * from the contiguous one, safetensors from the outermost, and here every
 * matrix is [n_out, d_in].  Every tensor must be ticked off at the end, bar
 * the few that are known to repeat what the configuration says: a file with
 * a tensor left over is a model that does something cag does not.
 *
 * Rows of Wq and Wk in llama-architecture GGUF files are permuted per head
 * (interleaved rotary pairs), and so are their biases, if any: matrices keep
 * the stored order and say so in perm_half, vectors are put in half-split
 * order while they are copied.
 */
#include "model/weights.h"

#include <stdio.h>
#include <string.h>

#include "util/sniff.h"
#include "util/mem.h"
#include "util/rd.h"

struct tensor {
    const char *name;
    const char *file;
    int type, n_dims;
    uint64_t dims[4]; /* outermost first */
    const uint8_t *data;
    size_t size_bytes;
};

struct source {
    const struct gguf *gguf; /* one of these two */
    const struct st *st;
    const struct model_config *c;
    struct arena *arena;
    bool *used; /* [n_tensor] */
    cag_error *err;
};

/* Roles: the name in a GGUF file and in a Hugging Face one. */
struct role {
    const char *gguf, *hf;
};

static const struct role
    r_embed = { "token_embd.weight", "model.embed_tokens.weight" },
    r_head = { "output.weight", "lm_head.weight" },
    r_out_norm = { "output_norm.weight", "model.norm.weight" },
    /* below: after "blk.N." and "model.layers.N." */
    r_attn_norm = { "attn_norm.weight", "input_layernorm.weight" },
    r_ffn_norm = { "ffn_norm.weight", "post_attention_layernorm.weight" },
    r_wq = { "attn_q.weight", "self_attn.q_proj.weight" },
    r_wk = { "attn_k.weight", "self_attn.k_proj.weight" },
    r_wv = { "attn_v.weight", "self_attn.v_proj.weight" },
    r_wo = { "attn_output.weight", "self_attn.o_proj.weight" },
    r_bq = { "attn_q.bias", "self_attn.q_proj.bias" },
    r_bk = { "attn_k.bias", "self_attn.k_proj.bias" },
    r_bv = { "attn_v.bias", "self_attn.v_proj.bias" },
    r_bo = { "attn_output.bias", "self_attn.o_proj.bias" },
    r_q_norm = { "attn_q_norm.weight", "self_attn.q_norm.weight" },
    r_k_norm = { "attn_k_norm.weight", "self_attn.k_norm.weight" },
    r_gate = { "ffn_gate.weight", "mlp.gate_proj.weight" },
    r_up = { "ffn_up.weight", "mlp.up_proj.weight" },
    r_down = { "ffn_down.weight", "mlp.down_proj.weight" };

#define NAME_BYTES 96

static void role_name(const struct source *s, const struct role *r, int layer,
                      char name[NAME_BYTES])
{
    const char *tail = s->gguf ? r->gguf : r->hf;

    if (layer < 0)
        snprintf(name, NAME_BYTES, "%s", tail);
    else
        snprintf(name, NAME_BYTES, s->gguf ? "blk.%d.%s" : "model.layers.%d.%s",
                 layer, tail);
}

static size_t n_tensor(const struct source *s)
{
    return s->gguf ? gguf_n_tensor(s->gguf) : st_n_tensor(s->st);
}

static const char *whole_file(const struct source *s)
{
    return s->gguf            ? gguf_path(s->gguf)
           : st_n_file(s->st) ? st_file(s->st, 0)
                              : "";
}

/* false if there is none of that name */
static bool find(struct source *s, const char *name, struct tensor *t)
{
    size_t i;
    int d;

    if (s->gguf) {
        const struct gguf_tensor *g = gguf_find_tensor(s->gguf, name);

        if (!g)
            return false;
        *t = (struct tensor){ g->name, g->file, g->type,      g->n_dims,
                              { 0 },   g->data, g->size_bytes };
        for (d = 0; d < g->n_dims; d++)
            t->dims[d] = g->dims[g->n_dims - 1 - d];
        i = (size_t)(g - gguf_tensor_at(s->gguf, 0));
    } else {
        const struct st_tensor *h = st_find(s->st, name);

        if (!h)
            return false;
        *t = (struct tensor){ h->name, h->file, h->type,      h->n_dims,
                              { 0 },   h->data, h->size_bytes };
        for (d = 0; d < h->n_dims; d++)
            t->dims[d] = h->dims[d];
        i = (size_t)(h - st_at(s->st, 0));
    }
    s->used[i] = true;
    return true;
}

static cag_status need(struct source *s, const struct role *r, int layer,
                       struct tensor *t)
{
    char name[NAME_BYTES];

    role_name(s, r, layer, name);
    if (find(s, name, t))
        return CAG_OK;
    return cag_fail(s->err, CAG_E_FORMAT, whole_file(s), -1,
                    "tensor %s is missing", name);
}

/* ---------------------------------------------------------------- shapes */

static cag_status bad_shape(struct source *s, const struct tensor *t,
                            int64_t n_out, int64_t d_in)
{
    char got[96] = "", want[64];
    size_t len = 0;
    int d;

    for (d = 0; d < t->n_dims && len < sizeof got; d++)
        len += (size_t)snprintf(got + len, sizeof got - len, "%s%llu",
                                d ? ", " : "", (unsigned long long)t->dims[d]);
    if (n_out < 0)
        snprintf(want, sizeof want, "%lld", (long long)d_in);
    else
        snprintf(want, sizeof want, "%lld, %lld", (long long)n_out,
                 (long long)d_in);
    return cag_fail(s->err, CAG_E_FORMAT, t->file, -1,
                    "tensor %s has the shape [%s], expected [%s]", t->name, got,
                    want);
}

static cag_status as_matrix(struct source *s, const struct tensor *t, int n_out,
                            int d_in, int perm_half, struct kmat *w)
{
    int elems, bytes;

    if (t->n_dims != 2 || t->dims[0] != (uint64_t)n_out ||
        t->dims[1] != (uint64_t)d_in)
        return bad_shape(s, t, n_out, d_in);
    if (!gguf_type_block(t->type, &elems, &bytes))
        return cag_fail(s->err, CAG_E_UNSUPPORTED, t->file, -1,
                        "tensor %s has type %d (%s)", t->name, t->type,
                        gguf_type_name(t->type));
    if (d_in % elems)
        return cag_fail(s->err, CAG_E_FORMAT, t->file, -1,
                        "tensor %s: rows of %d are no multiple of the block "
                        "of %d that %s needs",
                        t->name, d_in, elems, gguf_type_name(t->type));
    w->type = t->type;
    w->n_out = n_out;
    w->d_in = d_in;
    w->row_bytes = (size_t)(d_in / elems) * (size_t)bytes;
    w->data = t->data;
    w->perm_half = perm_half;
    return CAG_OK;
}

static cag_status matrix(struct source *s, const struct role *r, int layer,
                         int n_out, int d_in, int perm_half, struct kmat *w)
{
    struct tensor t;
    cag_status st = need(s, r, layer, &t);

    return st ? st : as_matrix(s, &t, n_out, d_in, perm_half, w);
}

static float element(const struct tensor *t, size_t i)
{
    uint32_t bits;
    float f;

    if (t->type == GGUF_F16)
        return f16_to_f32(rd_le16(t->data + 2 * i));
    if (t->type == GGUF_BF16)
        return bf16_to_f32(rd_le16(t->data + 2 * i));
    bits = rd_le32(t->data + 4 * i);
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* A vector of n, copied as f32; perm_half as in struct kmat. */
static cag_status vector(struct source *s, const struct role *r, int layer,
                         int n, int perm_half, const float **out)
{
    struct tensor t;
    cag_status st = need(s, r, layer, &t);
    float *v;
    int i;

    if (st)
        return st;
    if (t.n_dims != 1 || t.dims[0] != (uint64_t)n)
        return bad_shape(s, &t, -1, n);
    if (t.type != GGUF_F32 && t.type != GGUF_F16 && t.type != GGUF_BF16)
        return cag_fail(s->err, CAG_E_UNSUPPORTED, t.file, -1,
                        "tensor %s has type %s; cag reads norms and biases "
                        "as F32, F16 or BF16",
                        t.name, gguf_type_name(t.type));
    v = arena_array(s->arena, (size_t)n, sizeof *v);
    if (!v)
        return cag_fail_nomem(s->err, t.name);
    for (i = 0; i < n; i++) {
        int j = i;

        if (perm_half) {
            int k = i % (2 * perm_half);

            j += k % perm_half * 2 + k / perm_half - k;
        }
        v[i] = element(&t, (size_t)j);
    }
    *out = v;
    return CAG_OK;
}

/* ----------------------------------------------------------------- roles */

static cag_status attention(struct source *s, int i, struct model_layer *l)
{
    const struct model_config *c = s->c;
    int n_q = c->n_head * c->d_head, n_kv = c->n_kv_head * c->d_head;
    int perm = s->gguf && c->family->gguf_pairs ? c->d_head / 2 : 0;
    cag_status st;

    if ((st = vector(s, &r_attn_norm, i, c->d_model, 0, &l->attn_norm)) ||
        (st = matrix(s, &r_wq, i, n_q, c->d_model, perm, &l->mat[WQ])) ||
        (st = matrix(s, &r_wk, i, n_kv, c->d_model, perm, &l->mat[WK])) ||
        (st = matrix(s, &r_wv, i, n_kv, c->d_model, 0, &l->mat[WV])) ||
        (st = matrix(s, &r_wo, i, c->d_model, n_q, 0, &l->mat[WO])))
        return st;
    if (c->qkv_bias && ((st = vector(s, &r_bq, i, n_q, perm, &l->bq)) ||
                        (st = vector(s, &r_bk, i, n_kv, perm, &l->bk)) ||
                        (st = vector(s, &r_bv, i, n_kv, 0, &l->bv))))
        return st;
    if (c->o_bias && (st = vector(s, &r_bo, i, c->d_model, 0, &l->bo)))
        return st;
    if (c->family->qk_norm &&
        ((st = vector(s, &r_q_norm, i, c->d_head, 0, &l->q_norm)) ||
         (st = vector(s, &r_k_norm, i, c->d_head, 0, &l->k_norm))))
        return st;
    return CAG_OK;
}

static cag_status feed_forward(struct source *s, int i, struct model_layer *l)
{
    const struct model_config *c = s->c;
    cag_status st;

    if ((st = vector(s, &r_ffn_norm, i, c->d_model, 0, &l->ffn_norm)) ||
        (st = matrix(s, &r_gate, i, c->d_ff, c->d_model, 0, &l->mat[W_GATE])) ||
        (st = matrix(s, &r_up, i, c->d_ff, c->d_model, 0, &l->mat[W_UP])))
        return st;
    return matrix(s, &r_down, i, c->d_model, c->d_ff, 0, &l->mat[W_DOWN]);
}

/*
 * Embedding and head.  As in transformers, a tied model whose file holds
 * both uses both as they are, and one that holds only the head takes its
 * embedding from it.
 */
static cag_status ends(struct source *s, struct model_weights *w)
{
    const struct model_config *c = s->c;
    char embed[NAME_BYTES], head[NAME_BYTES];
    struct tensor t;
    bool has_embed, has_head;
    cag_status st;

    role_name(s, &r_embed, -1, embed);
    role_name(s, &r_head, -1, head);
    has_embed = find(s, embed, &t);
    if (has_embed) {
        st = as_matrix(s, &t, c->n_vocab, c->d_model, 0, &w->embed);
        if (st)
            return st;
    }
    has_head = find(s, head, &t);
    if (has_head) {
        st = as_matrix(s, &t, c->n_vocab, c->d_model, 0, &w->head);
        if (st)
            return st;
    }
    if ((!has_embed && !has_head) || (!c->tied && !(has_embed && has_head)))
        return cag_fail(s->err, CAG_E_FORMAT, whole_file(s), -1,
                        "tensor %s is missing%s", has_embed ? head : embed,
                        has_embed ? ", and tie_word_embeddings is not true"
                                  : "");
    if (!has_head)
        w->head = w->embed;
    if (!has_embed)
        w->embed = w->head;
    return vector(s, &r_out_norm, -1, c->d_model, 0, &w->out_norm);
}

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), m = strlen(tail);

    return n >= m && memcmp(s + n - m, tail, m) == 0;
}

bool weights_redundant(const char *name, bool gguf)
{
    if (gguf)
        return strcmp(name, "rope_freqs.weight") == 0;
    return ends_with(name, ".rotary_emb.inv_freq");
}

static cag_status all_used(struct source *s)
{
    size_t i, n = n_tensor(s);

    for (i = 0; i < n; i++) {
        const char *name =
            s->gguf ? gguf_tensor_at(s->gguf, i)->name : st_at(s->st, i)->name;
        char shown[NAME_BYTES];

        if (s->used[i] || weights_redundant(name, s->gguf != NULL))
            continue;
        sniff_printable(shown, sizeof shown, name, strlen(name));
        return cag_fail(s->err, CAG_E_UNSUPPORTED,
                        s->gguf ? gguf_tensor_at(s->gguf, i)->file
                                : st_at(s->st, i)->file,
                        -1,
                        "tensor %s has no place in a model of "
                        "architecture %s with %d layers",
                        shown, s->c->family->arch, s->c->n_layer);
    }
    return CAG_OK;
}

static cag_status load(struct source *s, struct model_weights *w)
{
    struct model_weights got = { 0 };
    cag_status st;
    int i;

    s->used = mem_alloc_array(n_tensor(s) + 1, sizeof *s->used);
    if (!s->used)
        return cag_fail_nomem(s->err, "weights");
    got.layer = arena_array(s->arena, (size_t)s->c->n_layer, sizeof *got.layer);
    if (!got.layer) {
        st = cag_fail_nomem(s->err, "weights");
        goto out;
    }
    st = ends(s, &got);
    for (i = 0; i < s->c->n_layer && !st; i++) {
        st = attention(s, i, &got.layer[i]);
        if (!st)
            st = feed_forward(s, i, &got.layer[i]);
    }
    if (!st)
        st = all_used(s);
    if (!st)
        *w = got;
out:
    mem_free(s->used);
    return st;
}

cag_status weights_from_gguf(const struct gguf *g, const struct model_config *c,
                             struct arena *a, struct model_weights *w,
                             cag_error *err)
{
    struct source s = { g, NULL, c, a, NULL, err };

    return load(&s, w);
}

cag_status weights_from_st(const struct st *st, const struct model_config *c,
                           struct arena *a, struct model_weights *w,
                           cag_error *err)
{
    struct source s = { NULL, st, c, a, NULL, err };

    return load(&s, w);
}

uint64_t weights_bytes(const struct model_weights *w, int layer0, int layer1)
{
    uint64_t n = 0;

    for (int l = layer0; l < layer1; l++)
        for (int i = 0; i < N_MAT; i++)
            n += kmat_bytes(&w->layer[l].mat[i]);
    return n;
}

/*
 * kvc_read.c - open a cache: validate everything, then hand out views.
 *
 * First the header (kvc_header.c), then the sections and whether they agree
 * with each other (kvc_sections.c).  The KV section is not read here: each
 * chunk is checked before its first use (kvc_chunk.c), all of it by
 * cag_kvc_verify.
 */
#include <string.h>

#include "kvc/kvc_impl.h"
#include "util/mem.h"
#include "util/trust.h"

static cag_status parse(cag_kvc *k, const void *data, size_t size,
                        const char *name, cag_error *err)
{
    cag_status st;

    k->data = data;
    k->size = size;
    k->name = arena_strndup(&k->arena, name, strlen(name));
    k->lazy = kvc_lazy_new();
    if (!k->name || !k->lazy)
        return cag_fail_nomem(err, "cache");
    k->info.path = k->name;
    k->info.size_bytes = size;
    st = kvc_read_header(k, err);
    return st ? st : kvc_read_sections(k, err);
}

static cag_status parse_memory(const void *data, size_t size, const char *name,
                               bool is_draft, cag_kvc **out, cag_error *err)
{
    cag_kvc *k = mem_zalloc(sizeof *k);
    cag_status st;

    if (!k)
        return cag_fail_nomem(err, "cache");
    k->is_draft = is_draft;
    st = parse(k, data, size, name, err);
    if (st) {
        cag_kvc_close(k);
        return st;
    }
    *out = k;
    return CAG_OK;
}

cag_status kvc_parse(const void *data, size_t size, const char *name,
                     cag_kvc **out, cag_error *err)
{
    return parse_memory(data, size, name, false, out, err);
}

cag_status kvc_parse_draft(const void *data, size_t size, const char *name,
                           cag_kvc **out, cag_error *err)
{
    return parse_memory(data, size, name, true, out, err);
}

cag_status kvc_open_told(const char *path, const struct kvc_told *told,
                         cag_kvc **out, cag_error *err)
{
    cag_kvc *k = mem_zalloc(sizeof *k);
    cag_status st;

    if (!k)
        return cag_fail_nomem(err, "cache");
    st = file_map(&k->map, path, err);
    if (!st && told->fn && k->map.size) {
        k->told = *told;
        told->fn(told->ctx, k->map.data, k->map.size);
    }
    if (!st)
        st = parse(k, k->map.data, k->map.size, path, err);
    if (st) {
        cag_kvc_close(k);
        return st;
    }
    *out = k;
    return CAG_OK;
}

cag_status cag_kvc_open(const char *path, cag_kvc **out, cag_error *err)
{
    return kvc_open_told(path, &(struct kvc_told){ NULL, NULL }, out, err);
}

cag_status kvc_check_trust(const cag_kvc *k, cag_error *err)
{
    return trust_check(k->map.owner, k->map.mode, k->name, err);
}

void cag_kvc_close(cag_kvc *k)
{
    if (!k)
        return;
    kvc_lazy_free(k->lazy);
    mem_free(k->ids);
    mem_free(k->id_off);
    mem_free(k->text);
    jv_free(k->meta);
    jv_free(k->srcs);
    jv_free(k->prmt);
    arena_release(&k->arena);
    if (k->told.fn)
        k->told.fn(k->told.ctx, NULL, 0);
    file_unmap(&k->map);
    mem_free(k);
}

/* --------------------------------------------------------------- getters */

const cag_kvc_info *cag_kvc_get_info(const cag_kvc *k)
{
    return &k->info;
}

const cag_kvc_receipt *cag_kvc_get_receipt(const cag_kvc *k)
{
    return k->receipt;
}

const cag_kvc_attention *cag_kvc_get_attention(const cag_kvc *k)
{
    return k->attention;
}

const cag_kvc_source *cag_kvc_get_source(const cag_kvc *k, int i)
{
    return i >= 0 && i < k->info.n_source ? &k->source[i] : NULL;
}

const char *cag_kvc_text(const cag_kvc *k, size_t *size)
{
    if (size)
        *size = k->text_size;
    return k->text;
}

const int32_t *cag_kvc_ids(const cag_kvc *k, size_t *n)
{
    if (n)
        *n = (size_t)k->shape.n_tok;
    return k->ids;
}

const int64_t *cag_kvc_id_offsets(const cag_kvc *k)
{
    return k->id_off;
}

const char *cag_kvc_meta_json(const cag_kvc *k, size_t *size)
{
    if (size)
        *size = (size_t)k->core[KVC_META]->size;
    return (const char *)(k->data + k->core[KVC_META]->off);
}

int cag_kvc_n_section(const cag_kvc *k)
{
    return k->n_section;
}

void cag_kvc_get_section(const cag_kvc *k, int i, cag_kvc_section *out)
{
    const struct kvc_section *s = &k->section[i];

    memcpy(out->name, s->name, sizeof out->name);
    out->off = s->off;
    out->size_bytes = s->size;
    out->required = s->required;
    hash_hex(s->sha256, sizeof s->sha256, out->sha256);
}

const uint8_t *kvc_section_data(const cag_kvc *k, const char *name,
                                size_t *size)
{
    const struct kvc_section *s = kvc_find_section(k, name);

    if (!s)
        return NULL;
    *size = (size_t)s->size;
    return k->data + s->off;
}

const struct file_id *kvc_file_id(const cag_kvc *k)
{
    return &k->map.id;
}

const struct kvc_shape *kvc_get_shape(const cag_kvc *k)
{
    return &k->shape;
}

const jv *kvc_sources(const cag_kvc *k)
{
    return k->srcs;
}

const jv *kvc_meta(const cag_kvc *k)
{
    return k->meta;
}

const jv *kvc_prmt(const cag_kvc *k)
{
    return k->prmt;
}

cag_status kvc_refuse_checkpoint(const cag_kvc *k, cag_error *err)
{
    if (cag_kvc_get_info(k)->checkpoint_of <= 0)
        return CAG_OK;
    return cag_fail(err, CAG_E_UNSUPPORTED, cag_kvc_get_info(k)->path, -1,
                    "is the checkpoint of an unfinished build, not a cache; "
                    "run that cag-build --checkpoint again");
}

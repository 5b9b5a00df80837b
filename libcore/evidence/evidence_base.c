/*
 * evidence_base.c - see evidence_base.h.
 */
#include "evidence/evidence_base.h"

#include <string.h>

#include "util/file.h"
#include "util/hash.h"
#include "util/mem.h"

const char *cag_source_state_name(cag_source_state s)
{
    static const char *const name[] = { "same", "changed", "missing", "pipe" };

    return name[s];
}

cag_status evidence_base_new(const cag_kvc *k, struct evidence_base **out,
                             cag_error *err)
{
    struct evidence_base *b = mem_zalloc(sizeof *b);
    const char *text = cag_kvc_text(k, NULL);
    cag_status st = CAG_OK;

    if (!b)
        return cag_fail_nomem(err, "evidence");
    b->kvc = k;
    b->n = cag_kvc_get_info(k)->n_source;
    b->text = mem_alloc_array((size_t)b->n + 1, sizeof *b->text);
    b->file = mem_alloc_array((size_t)b->n + 1, sizeof *b->file);
    b->dir = file_real_dir(cag_kvc_get_info(k)->path);
    if (!b->text || !b->file || !b->dir)
        st = cag_fail_nomem(err, "evidence");
    for (int i = 0; i < b->n && !st; i++) {
        const cag_kvc_source *s = cag_kvc_get_source(k, i);

        b->text[i] =
            (struct index_text){ text + s->text_off, (size_t)s->text_bytes };
    }
    if (!st)
        st = evidence_index_new(b->text, b->n, &b->index, err);
    if (st)
        evidence_base_free(b);
    else
        *out = b;
    return st;
}

void evidence_base_free(struct evidence_base *b)
{
    if (!b)
        return;
    evidence_index_free(b->index);
    for (int i = 0; b->file && i < b->n; i++)
        mem_free(b->file[i].shown);
    for (int i = 0; b->folded && i < b->n; i++)
        buf_free(&b->folded[i]);
    words_table_release(&b->facts);
    mem_free(b->folded);
    mem_free(b->line_of);
    mem_free(b->file);
    mem_free(b->text);
    mem_free(b->dir);
    mem_free(b);
}

cag_status evidence_base_lines(struct evidence_base *b, cag_error *err)
{
    const struct evidence_index *ix = b->index;
    const int64_t *off = cag_kvc_id_offsets(b->kvc);
    size_t n, tok = 0;

    if (b->line_of)
        return CAG_OK;
    cag_kvc_ids(b->kvc, &n);
    b->line_of = mem_alloc_array(n + 1, sizeof *b->line_of);
    if (!b->line_of)
        return cag_fail_nomem(err, "lines of tokens");
    for (size_t i = 0; i < n; i++)
        b->line_of[i] = -1;
    for (int i = 0; i < b->n; i++) {
        const cag_kvc_source *s = cag_kvc_get_source(b->kvc, i);
        uint32_t line = ix->first_line[i], end = ix->first_line[i + 1];

        while (tok < n && (uint64_t)off[tok] < s->text_off)
            tok++;
        for (; tok < n && line < end &&
               (uint64_t)off[tok] < s->text_off + s->text_bytes;
             tok++) {
            while (line + 1 < end &&
                   ix->line[line + 1].off <= (uint64_t)off[tok] - s->text_off)
                line++;
            b->line_of[tok] = (int32_t)line;
        }
    }
    return CAG_OK;
}

/* The line of the file at which the text begins. */
static bool find_text(const struct buf *raw, const struct index_text *t,
                      struct evidence_file *f)
{
    size_t at = raw->size >= 3 && !memcmp(raw->data, "\xef\xbb\xbf", 3) ? 3 : 0;

    while (raw->size - at >= t->size) {
        const char *p = raw->data + at, *nl;

        if (!memcmp(p, t->text, t->size)) {
            f->byte = at;
            return true;
        }
        nl = memchr(p, '\n', raw->size - at);
        if (!nl)
            break;
        at = (size_t)(nl - raw->data) + 1;
        f->line++;
    }
    f->line = 0;
    return false;
}

/* Is path still the file that was read, and where is the text in it? */
static cag_status look(const struct index_text *t, const cag_kvc_source *s,
                       const char *path, struct evidence_file *f,
                       cag_error *err)
{
    uint8_t digest[SHA256_SIZE];
    char hex[2 * SHA256_SIZE + 1];
    struct buf raw = BUF_INIT;
    struct file_id id;
    cag_status st = CAG_OK;

    f->state = CAG_SOURCE_MISSING;
    if (file_is_dir(path) || file_stat(path, &id, NULL))
        return CAG_OK;
    f->state = CAG_SOURCE_CHANGED;
    if (id.size_bytes != s->size_bytes)
        return CAG_OK;
    st = file_read_regular(path, (size_t)s->size_bytes, &raw, NULL);
    if (!st)
        st = sha256_buf(raw.data, raw.size, digest, NULL);
    if (!st) {
        hash_hex(digest, SHA256_SIZE, hex);
        if (!strcmp(hex, s->sha256_raw) &&
            (s->filter || !t->size || find_text(&raw, t, f)))
            f->state = CAG_SOURCE_SAME;
    } else if (st == CAG_E_NOMEM) {
        cag_fail_nomem(err, "source");
    } else {
        f->state = CAG_SOURCE_MISSING; /* it cannot be read */
        st = CAG_OK;
    }
    buf_free(&raw);
    return st;
}

/* A path as short as it gets, for people and editors. */
static char *shown_path(const char *path)
{
    char *rel = file_relative(path, ".");
    char *whole = file_absolute(path);

    if (!rel || !whole || strlen(whole) < strlen(rel)) {
        mem_free(rel);
        return whole;
    }
    mem_free(whole);
    return rel;
}

static cag_status know_file(struct evidence_base *b, int source, cag_error *err)
{
    const cag_kvc_source *s = cag_kvc_get_source(b->kvc, source);
    struct evidence_file *f = &b->file[source];
    char *path;
    cag_status st;

    if (!s->path) {
        f->state = CAG_SOURCE_PIPE;
        f->known = true;
        return CAG_OK;
    }
    path = file_join(b->dir, s->path);
    if (path && !f->shown)
        f->shown = shown_path(path);
    if (!path || !f->shown)
        st = cag_fail_nomem(err, "source path");
    else
        st = look(&b->text[source], s, path, f, err);
    mem_free(path);
    f->known = !st;
    return st;
}

cag_status evidence_base_piece(struct evidence_base *b, int source,
                               uint64_t from, uint64_t to, cag_piece *out,
                               cag_error *err)
{
    const cag_kvc_source *s = cag_kvc_get_source(b->kvc, source);
    const struct evidence_index *ix = b->index;
    struct evidence_file *f = &b->file[source];
    uint32_t first = ix->first_line[source], last = ix->first_line[source + 1];
    uint32_t line = first, end;
    cag_status st = f->known ? CAG_OK : know_file(b, source, err);

    if (st)
        return st;
    while (line + 1 < last && ix->line[line + 1].off <= from)
        line++;
    for (end = line; end + 1 < last && ix->line[end + 1].off < to;)
        end++;
    *out = (cag_piece){ .source = s->name,
                        .path = s->path,
                        .file = f->shown,
                        .sha256 = s->sha256_raw,
                        .state = f->state,
                        .filtered = s->filter != NULL,
                        .line_from = f->line + (int64_t)(line - first) + 1,
                        .line_to = f->line + (int64_t)(end - first) + 1,
                        .byte_from = f->byte + from,
                        .byte_to = f->byte + to,
                        .text = b->text[source].text + from,
                        .size = (size_t)(to - from) };
    return CAG_OK;
}

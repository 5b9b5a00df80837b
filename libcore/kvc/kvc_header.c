/*
 * kvc_header.c - the first page of a cache: all that is needed to reject it.
 *
 * In this order, so that a message speaks of the cause: what kind of file,
 * which version, is the header undamaged, is the file whole, is the section
 * table possible.
 */
#include <string.h>

#include "kvc/kvc_impl.h"
#include "util/rd.h"
#include "util/sniff.h"

static const char *const core_names[KVC_N_CORE] = KVC_CORE_NAMES;

static cag_status check_kind(const cag_kvc *k, cag_error *err)
{
    const char *kind;

    if (k->size == 0)
        return cag_fail(err, CAG_E_FORMAT, k->name, -1,
                        "the file is empty, expected a .kvc cache");
    if (k->size >= 8 && memcmp(k->data, KVC_MAGIC, 8) == 0)
        return CAG_OK;
    if (k->size < 8 && memcmp(k->data, KVC_MAGIC, k->size) == 0)
        return cag_fail(err, CAG_E_CORRUPT, k->name, -1,
                        "the file is truncated: %zu bytes, a header takes %d",
                        k->size, KVC_PAGE);
    kind = cag_file_kind(k->data, k->size);
    if (kind)
        return cag_fail(err, CAG_E_FORMAT, k->name, -1,
                        "this is %s, expected a .kvc cache", kind);
    if (sniff_is_text(k->data, k->size))
        return cag_fail(err, CAG_E_FORMAT, k->name, -1,
                        "this is a text, expected a .kvc cache; cag-build "
                        "makes one of it");
    return cag_fail(err, CAG_E_FORMAT, k->name, 0,
                    "not a .kvc cache (its first bytes are not the magic)");
}

static cag_status check_version(cag_kvc *k, cag_error *err)
{
    if (k->size < KVC_OFF_N_SECTION)
        return cag_fail(err, CAG_E_CORRUPT, k->name, -1,
                        "the file is truncated: %zu bytes, a header takes %d",
                        k->size, KVC_PAGE);
    k->info.major = rd_le16(k->data + KVC_OFF_MAJOR);
    k->info.minor = rd_le16(k->data + KVC_OFF_MINOR);
    if (k->info.major < 1 || k->info.major > CAG_KVC_MAJOR)
        return cag_fail(err, CAG_E_UNSUPPORTED, k->name, KVC_OFF_MAJOR,
                        "format version %d, this program reads up to %d%s",
                        k->info.major, CAG_KVC_MAJOR,
                        k->info.major ? ": use a newer one" : "");
    if (k->size < KVC_PAGE)
        return cag_fail(err, CAG_E_CORRUPT, k->name, -1,
                        "the file is truncated: %zu bytes, a header takes %d",
                        k->size, KVC_PAGE);
    return CAG_OK;
}

static cag_status check_header_sha(const cag_kvc *k, cag_error *err)
{
    uint8_t page[KVC_PAGE], d[SHA256_SIZE];
    cag_status st;

    memcpy(page, k->data, sizeof page);
    memset(page + KVC_OFF_SHA256, 0, SHA256_SIZE);
    st = sha256_buf(page, sizeof page, d, err);
    if (st)
        return st;
    if (memcmp(d, k->data + KVC_OFF_SHA256, sizeof d) != 0)
        return cag_fail(err, CAG_E_CORRUPT, k->name, 0,
                        "the header is damaged (SHA-256 differs)");
    return CAG_OK;
}

static void zeros(struct rd *r, const char *what, size_t n)
{
    const uint8_t *p = rd_bytes(r, what, n);

    for (size_t i = 0; p && i < n; i++)
        if (p[i]) {
            rd_fail(r, CAG_E_FORMAT, "%s is not zero", what);
            return;
        }
}

/* Names are printed, so they hold nothing but A-Z and 0-9. */
static void section_name(struct rd *r, char name[5])
{
    const uint8_t *p = rd_bytes(r, "section name", 4);
    int n = 0;

    if (!p)
        return;
    while (n < 4 &&
           ((p[n] >= 'A' && p[n] <= 'Z') || (p[n] >= '0' && p[n] <= '9')))
        n++;
    for (int i = n; i < 4; i++)
        if (p[i] || n == 0) {
            rd_fail(r, CAG_E_FORMAT, "section name is not made of A-Z 0-9");
            return;
        }
    memcpy(name, p, (size_t)n);
    name[n] = 0;
}

static void add_section(cag_kvc *k, struct rd *r, uint64_t *end)
{
    struct kvc_section *s = &k->section[k->n_section];
    const uint8_t *sha;
    int core = -1;

    section_name(r, s->name);
    s->required = rd_u32(r, "section flags", 0, KVC_REQUIRED) != 0;
    s->off = rd_u64(r, "section offset", *end, *end);
    s->size = rd_u64(r, "section size", 1, k->size);
    sha = rd_bytes(r, "section digest", SHA256_SIZE);
    zeros(r, "reserved byte", 8);
    if (r->status)
        return;
    memcpy(s->sha256, sha, SHA256_SIZE);
    if (s->size > k->size - s->off) {
        rd_fail(r, CAG_E_FORMAT, "section %s ends behind the file", s->name);
        return;
    }
    *end = kvc_page_up(s->off + s->size);
    for (int i = 0; i < k->n_section; i++)
        if (strcmp(k->section[i].name, s->name) == 0) {
            rd_fail(r, CAG_E_FORMAT, "section %s appears twice", s->name);
            return;
        }
    for (int i = 0; i < KVC_N_CORE; i++)
        if (strcmp(core_names[i], s->name) == 0)
            core = i;
    if (core < 0 && s->required)
        rd_fail(r, CAG_E_UNSUPPORTED,
                "section %s is required and not known to this program: use a "
                "newer one",
                s->name);
    else if (core >= 0 && !s->required)
        rd_fail(r, CAG_E_FORMAT, "section %s is not marked required", s->name);
    else if (core >= 0)
        k->core[core] = s;
    k->n_section++;
}

cag_status kvc_read_header(cag_kvc *k, cag_error *err)
{
    struct rd r;
    uint64_t end = KVC_PAGE, file_size;
    uint32_t n;
    cag_status st = check_kind(k, err);

    if (!st)
        st = check_version(k, err);
    if (st)
        return st;
    file_size = rd_le64(k->data + KVC_OFF_SIZE);
    st = check_header_sha(k, err);
    if (st)
        return st;
    if (file_size != k->size)
        return cag_fail(err, CAG_E_CORRUPT, k->name, -1,
                        "the file has %zu bytes, its header says %llu: %s",
                        k->size, (unsigned long long)file_size,
                        k->size < file_size ? "it is truncated"
                                            : "something was appended");
    rd_init(&r, k->data, KVC_PAGE, k->name, 0, err);
    rd_seek(&r, "header", KVC_OFF_N_SECTION);
    n = rd_u32(&r, "number of sections", 1, KVC_MAX_SECTION);
    rd_seek(&r, "header", KVC_OFF_LAYOUT);
    if (rd_le32(k->data + KVC_OFF_LAYOUT) != KVC_LAYOUT_TILES)
        rd_fail(&r, CAG_E_UNSUPPORTED,
                "tile layout %u, this program reads layout %u",
                rd_le32(k->data + KVC_OFF_LAYOUT), KVC_LAYOUT_TILES);
    rd_seek(&r, "header", KVC_OFF_LAYOUT + 4);
    zeros(&r, "reserved byte", 4);
    rd_seek(&r, "header", KVC_OFF_SHA256 + SHA256_SIZE);
    zeros(&r, "reserved byte", KVC_OFF_SECTIONS - 64);
    for (uint32_t i = 0; i < n && !r.status; i++)
        add_section(k, &r, &end);
    zeros(&r, "unused header byte", rd_left(&r));
    if (!r.status && end != k->size)
        rd_fail(&r, CAG_E_FORMAT,
                "its sections take %llu bytes of the file's %zu",
                (unsigned long long)end, k->size);
    for (int i = 0; i < KVC_N_CORE && !r.status; i++)
        if (!k->core[i])
            rd_fail(&r, CAG_E_FORMAT, "section %s is missing", core_names[i]);
    return r.status;
}

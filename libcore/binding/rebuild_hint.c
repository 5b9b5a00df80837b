/*
 * rebuild_hint.c - see rebuild_hint.h.
 *
 * A command that is suggested works as it stands: it can be pasted, names
 * files as they are seen from where the cache was named, and repeats what the
 * cache records.  Where that cannot be said on a command line, words do.
 */
#include "binding/rebuild_hint.h"

#include <string.h>

#include <cag/build.h>

#include "binding/record.h"
#include "kvc/kvc_read.h"
#include "util/file.h"
#include "util/mem.h"
#include "util/shell.h"

#define MAX_LEFT 16 /* sources on a suggested command line */

/* Does a source lie above or beside the cache's directory? */
static bool is_outside(const char *rel)
{
    return *rel == '/' ||
           (!strncmp(rel, "..", 2) && (!rel[2] || rel[2] == '/'));
}

/* rel, seen from where the cache's own name is seen from. */
static void add_place(struct buf *b, const cag_kvc *k, const char *rel)
{
    char *dir = file_dirname(cag_kvc_get_info(k)->path);
    char *place =
        dir && strcmp(dir, ".") ? file_join(dir, rel) : mem_strdup(rel);

    buf_char(b, ' ');
    if (place && *place == '-')
        buf_str(b, "./");
    if (place)
        shell_word(b, place);
    mem_free(place);
    mem_free(dir);
}

/* Is everything that a build was told recorded as the default? */
static bool is_plain(const jv *build)
{
    static const char *const parts[] = { "system", "label", "refusal",
                                         "acknowledgement" };

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!record_was_default(build, parts[i]))
            return false;
    return !strcmp(jv_get_str(jv_get(build, "template"), "kind", ""),
                   "model") &&
           !jv_get_bool(build, "drop_front_matter", false) &&
           !jv_get(build, "include") && !jv_get(build, "exclude");
}

/* The operands that are left; false where a command line cannot give them. */
static bool add_left(struct buf *b, const cag_kvc *k, const jv *build, int *n)
{
    const jv *list = jv_get(build, "sources");
    char *dir = file_real_dir(cag_kvc_get_info(k)->path);
    bool ok = dir != NULL;

    *n = 0;
    for (size_t i = 0; ok && i < jv_count(list); i++) {
        const jv *o = jv_at(list, i);
        const char *rel = jv_get_str(o, "path", NULL);
        char *place = rel ? file_join(dir, rel) : NULL;

        ok = place && strcmp(jv_get_str(o, "kind", ""), "glob") &&
             !jv_get_str(o, "title", NULL) &&
             jv_type(jv_get(o, "filter")) != JV_ARRAY;
        if (ok && file_exists(place)) {
            add_place(b, k, rel);
            ok = ++*n <= MAX_LEFT;
        }
        mem_free(place);
    }
    mem_free(dir);
    return ok;
}

static void without_lost(struct buf *b, const cag_kvc *k)
{
    const cag_kvc_info *i = cag_kvc_get_info(k);
    const jv *build = jv_get(kvc_meta(k), "build");
    struct buf left = BUF_INIT;
    int n;
    bool ok = add_left(&left, k, build, &n);

    if (ok && !n) {
        buf_str(b, "restore what is gone; no source is left");
        buf_free(&left);
        return;
    }
    buf_str(b, "restore what is gone, or run ");
    if (!ok || !n || !is_plain(build) || !(i->model_hub || i->model_path)) {
        buf_str(b, "the cag-build that made it with the sources that are left");
        if (ok && n)
            buf_printf(b, ":%s", left.data);
    } else {
        buf_str(b, "cag-build -m");
        if (i->model_hub) {
            buf_char(b, ' ');
            shell_word(b, i->model_hub);
        } else {
            add_place(b, k, i->model_path);
        }
        if (strcmp(i->codec, cag_kvc_codec_name(0)))
            buf_printf(b, " --codec %s", i->codec);
        if (strcmp(i->precision, "default"))
            buf_printf(b, " --precision %s", i->precision);
        buf_printf(b, " -c %lld --reserve %lld -o ", (long long)i->n_ctx,
                   (long long)i->reserve);
        shell_word(b, i->path);
        buf_str(b, left.data);
    }
    if (buf_failed(&left))
        buf_truncate(b, 0);
    buf_free(&left);
}

char *rebuild_hint(const cag_kvc *k, bool filtered, bool lost)
{
    const cag_kvc_info *info = cag_kvc_get_info(k);
    struct buf b = BUF_INIT;
    bool outside = false;

    for (int i = 0; i < info->n_source; i++) {
        const cag_kvc_source *s = cag_kvc_get_source(k, i);

        if (!s->path)
            return mem_strdup("the cag-build that made it, since a pipe "
                              "cannot be read again");
        outside = outside || is_outside(s->group ? s->group : s->path);
    }
    if (filtered)
        return mem_strdup("cag-build --manifest with its manifest, since "
                          "a recorded filter is not run");
    if (lost) {
        without_lost(&b, k);
        return buf_detach(&b, NULL);
    }
    buf_str(&b, "cag-build --refresh ");
    if (outside)
        buf_str(&b, "--allow-outside ");
    if (*info->path == '-')
        buf_str(&b, "-- ");
    shell_word(&b, info->path);
    return buf_detach(&b, NULL);
}

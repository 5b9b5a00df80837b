/*
 * model_parts.c - what both ways of opening a model put into it: the list of
 * files that are hashed, and the chat template.
 */
#include <string.h>

#include "model/model_open.h"
#include "util/error.h"
#include "util/text.h"

cag_status model_add_file(struct cag_model *m, const char *path, cag_error *err)
{
    char **grown = arena_array(&m->arena, (size_t)m->n_file + 1, sizeof *grown);
    char *copy = arena_strndup(&m->arena, path, strlen(path));

    if (!grown || !copy)
        return cag_fail_nomem(err, "model files");
    if (m->n_file)
        memcpy(grown, m->file, (size_t)m->n_file * sizeof *grown);
    grown[m->n_file++] = copy;
    m->file = grown;
    return CAG_OK;
}

cag_status model_set_template(struct cag_model *m, const char *text, size_t n,
                              const char *file, cag_error *err)
{
    size_t bad;

    if (!utf8_valid(text, n, &bad))
        return cag_fail(err, CAG_E_FORMAT, file, -1,
                        "the chat template is not valid UTF-8 at its byte "
                        "%zu",
                        bad);
    if (memchr(text, '\0', n))
        return cag_fail(err, CAG_E_FORMAT, file, -1,
                        "the chat template holds a NUL byte");
    m->template_text = arena_strndup(&m->arena, text, n);
    return m->template_text ? CAG_OK : cag_fail_nomem(err, "chat template");
}

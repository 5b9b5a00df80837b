/*
 * prompt_show.c - prompts without a cache: what cag-inspect --prompt and --ids
 * need of a model.
 */
#include <string.h>

#include "prompt/prompt.h"
#include "prompt/chat.h"
#include "util/error.h"
#include "util/json.h"
#include "util/mem.h"

#include <cag/show.h>

cag_status cag_open_tokenizer(const char *model, const cag_places *places,
                              cag_model **out, cag_error *err)
{
    cag_model_search search = { places->hf_hub, places->models };
    const char *spec = model ? model : places->model;
    char *path;
    cag_status st;

    if (!spec)
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "no model: give one with -m (a GGUF file, a model "
                        "directory or a hub id) or in CAG_MODEL");
    st = cag_model_find(spec, &search, &path, err);
    if (st)
        return st;
    st = cag_model_open(path, CAG_MODEL_NO_WEIGHTS, out, err);
    mem_free(path);
    return st;
}

/* The knowledge-base prompt with "..." for knowledge and question. */
static cag_status render_default(const char *text, const cag_tokenizer *t,
                                 bool think, int64_t date_s,
                                 cag_prompt_view *out, cag_error *err)
{
    static const char dots[] = "...";
    struct prompt_source source = { "name", dots, sizeof dots - 1 };
    struct prompt_parts parts = { NULL, NULL, NULL, NULL };
    struct prompt p = { 0 };
    struct buf b = BUF_INIT;
    cag_status st = prompt_build(&parts, &source, 1, text, t, date_s, &p, err);

    if (!st) {
        buf_add(&b, p.text, p.size);
        out->cached_bytes = p.size;
        buf_str(&b, p.cut.mid + p.cut.mid_cached);
        buf_str(&b, dots);
        buf_str(&b, p.cut.suffix[think]);
        out->text = buf_detach(&b, &out->size);
        if (!out->text)
            st = cag_fail_nomem(err, "prompt");
    }
    prompt_release(&p);
    return st;
}

/* Where a cache of this conversation would end: after the last control token
 * before the last message that is not the model's. */
static size_t cached_part(const struct chat_pieces *p, const cag_tokenizer *t)
{
    size_t last = p->n, end = 0;

    for (size_t i = 0; i < p->n; i++)
        if (!(p->piece[i].flags & CAG_TEXT_TEMPLATE))
            last = i;
    for (size_t i = 0; i < last && last < p->n; i++) {
        const cag_text *c = &p->piece[i];
        cag_ids ids = CAG_IDS_INIT;

        if (!(c->flags & CAG_TEXT_TEMPLATE) ||
            cag_encode(t, c, 1, CAG_ENCODE_OFFSETS, &ids, NULL))
            continue;
        for (size_t k = 0; k < ids.n; k++) {
            size_t n;

            if (!cag_token_is_special(t, ids.id[k]))
                continue;
            cag_token_bytes(t, ids.id[k], true, &n);
            end = (size_t)(c->text - p->text) + (size_t)ids.off[k] + n;
        }
        cag_ids_free(&ids);
    }
    return end;
}

static cag_status render_messages(const char *text, const cag_tokenizer *t,
                                  const char *messages, size_t n, bool think,
                                  int64_t date_s, cag_prompt_view *out,
                                  cag_error *err)
{
    struct chat_pieces p;
    jv *list = NULL;
    cag_status st = jv_parse(messages, n, "messages", &list, err);

    if (st)
        return st;
    st = chat_render(text, t, list, true, think, date_s, &p, err);
    if (!st) {
        out->text = mem_strndup(p.text, p.size);
        out->size = p.size;
        out->cached_bytes = t ? cached_part(&p, t) : 0;
        chat_pieces_release(&p);
        if (!out->text)
            st = cag_fail_nomem(err, "prompt");
    }
    jv_free(list);
    return st;
}

cag_status cag_render_prompt(const char *model, const char *template_text,
                             const char *messages, size_t n_messages,
                             bool think, int64_t date_s,
                             const cag_places *places, cag_prompt_view *out,
                             cag_error *err)
{
    const cag_tokenizer *t = NULL;
    cag_model *m = NULL;
    cag_status st = CAG_OK;

    memset(out, 0, sizeof *out);
    if (model || !template_text || !messages)
        st = cag_open_tokenizer(model, places, &m, err);
    if (st)
        return st;
    if (m) {
        t = cag_model_get_tokenizer(m);
        if (!template_text)
            template_text = cag_model_get_template(m);
    }
    if (!template_text)
        st = cag_fail(err, CAG_E_UNSUPPORTED, model, -1,
                      "the model carries no chat template; name one with "
                      "--chat-template-file");
    else if (messages)
        st = render_messages(template_text, t, messages, n_messages, think,
                             date_s, out, err);
    else
        st = render_default(template_text, t, think, date_s, out, err);
    cag_model_close(m);
    return st;
}

/*
 * inspect_report.c - see inspect_report.h.
 */
#include "cmd/inspect/inspect_report.h"

#include <string.h>

#include <cag/show.h>
#include <cag/tool/names.h>
#include <cag/backend.h>

#include "cmd/cli/loss_text.h"
#include "cmd/cli/places.h"
#include "cmd/cli/model_words.h"
#include "cmd/cli/ui_wrap.h"

static void line(const char *name, const char *value)
{
    if (value)
        ui_printf(stdout, 13, "%-12s %s\n", name, ui_clean(value));
}

/* layer.head, both from 0. */
static void attention_print(const cag_kvc_attention *a)
{
    char list[16 * 32] = "";
    size_t n = 0;

    for (int i = 0; i < a->n_head && n < sizeof list; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%d.%d",
                              i ? " " : "", a->head[i].layer, a->head[i].head);
    ui_printf(stdout, 13, "%-12s %s; quote mass %.2f%s\n", "copy heads", list,
              (double)a->head[0].mass,
              a->head[0].mass >= CAG_QUOTE_MASS ? ""
                                                : ", below 0.20: not used");
    if (a->has_null)
        ui_printf(stdout, 13,
                  "%-12s %.3g, the %d %% quantile of %lld questions (SHA-256 "
                  "%.16s...)\n",
                  "null", (double)a->null, a->quantile,
                  (long long)a->n_question, a->questions_sha256);
    if (a->has_looks)
        ui_printf(stdout, 13,
                  "%-12s of %lld questions right: %lld at first, %lld masked, "
                  "%lld read again\n",
                  "looks", (long long)a->n_answerable, (long long)a->n_whole,
                  (long long)a->n_mask, (long long)a->n_reread);
}

void inspect_summary(const cag_kvc *k)
{
    const cag_kvc_info *i = cag_kvc_get_info(k);
    char a[UI_TEXT], b[UI_TEXT], c[UI_TEXT];

    ui_printf(stdout, 13, "%s: cag cache, format %d.%d, %s\n",
              ui_clean(i->path), i->major, i->minor, ui_size(a, i->size_bytes));
    line("model", model_words(i));
    if (strcmp(model_words(i), i->model_name))
        line("", i->model_name);
    ui_printf(stdout, 13, "%-12s %s, %d layers, %d KV heads of %d\n", "",
              ui_clean(i->model_arch), i->n_layer, i->n_kv_head, i->d_head);
    line("path", i->model_path);
    line("hub id", i->model_hub);
    line("weights", i->weights_sha256);
    line("tokenizer", i->tokenizer_sha256);
    line("template", i->template_sha256);
    line("date", i->template_date);
    ui_printf(stdout, 13, "%-12s %lld of %lld, %lld reserved\n", "tokens",
              (long long)i->n_tok, (long long)i->n_ctx, (long long)i->reserve);
    if (i->checkpoint_of)
        ui_printf(
            stdout, 13,
            "%-12s the first %lld of %lld tokens of an unfinished build\n",
            "checkpoint", (long long)i->n_tok, (long long)i->checkpoint_of);
    ui_printf(stdout, 13, "%-12s %s: %s, %s raw, %.0f bytes a token\n",
              "K and V", ui_clean(i->codec), ui_size(b, i->kv_stored_bytes),
              ui_size(c, i->kv_raw_bytes),
              (double)i->kv_stored_bytes / (double)i->n_tok);
    if (cag_kvc_get_receipt(k))
        loss_print(cag_kvc_get_receipt(k), i->n_layer);
    if (cag_kvc_get_attention(k))
        attention_print(cag_kvc_get_attention(k));
    ui_printf(stdout, 13, "%-12s %s, %s, %s, precision %s\n", "made by",
              ui_clean(i->tool), ui_clean(i->device), ui_clean(i->numerics),
              ui_clean(i->precision));
    line("binding", i->binding);
    line("content id", i->content_id);
    printf("%-12s %d\n", "sources", i->n_source);
    for (int n = 0; n < i->n_source; n++) {
        const cag_kvc_source *s = cag_kvc_get_source(k, n);

        ui_printf(stdout, 17, "%8lld tokens  %s%s%s\n",
                  (long long)(s->tok_end - s->tok_begin), ui_clean(s->name),
                  s->filter ? "  filter: " : "",
                  s->filter ? ui_clean(s->filter) : "");
    }
}

static void attention_json(struct ui_json *j, const cag_kvc_attention *a)
{
    ui_json_object(j, "copy_heads");
    ui_json_double(j, "quote_mass", (double)a->head[0].mass);
    ui_json_bool(j, "used", a->head[0].mass >= CAG_QUOTE_MASS);
    ui_json_array(j, "heads");
    for (int i = 0; i < a->n_head; i++) {
        ui_json_object(j, NULL);
        ui_json_int(j, "layer", a->head[i].layer);
        ui_json_int(j, "head", a->head[i].head);
        ui_json_double(j, "mass", (double)a->head[i].mass);
        ui_json_end(j);
    }
    ui_json_end(j);
    ui_json_int(j, "lines", a->n_line);
    ui_json_int(j, "rows", a->n_row);
    ui_json_int(j, "tokens", a->n_tok);
    if (a->has_null) {
        ui_json_object(j, "null");
        ui_json_double(j, "value", (double)a->null);
        ui_json_int(j, "quantile", a->quantile);
        ui_json_int(j, "questions", a->n_question);
        ui_json_str(j, "sha256", a->questions_sha256);
        ui_json_end(j);
    }
    if (a->has_looks) {
        ui_json_object(j, "looks");
        ui_json_int(j, "answerable", a->n_answerable);
        ui_json_int(j, "whole", a->n_whole);
        ui_json_int(j, "mask", a->n_mask);
        ui_json_int(j, "reread", a->n_reread);
        ui_json_end(j);
    }
    ui_json_end(j);
}

static void json_start(struct ui_json *j, const cag_kvc *k)
{
    ui_json_start(j, stdout);
    ui_json_object(j, NULL);
    ui_json_int(j, "schema", 1);
    ui_json_str(j, "file", cag_kvc_get_info(k)->path);
}

static void json_source(struct ui_json *j, const cag_kvc_source *s)
{
    ui_json_object(j, NULL);
    ui_json_str(j, "name", s->name);
    ui_json_str(j, "path", s->path);
    ui_json_str(j, "filter", s->filter);
    ui_json_str(j, "group", s->group);
    ui_json_uint(j, "bytes", s->size_bytes);
    ui_json_str(j, "sha256_raw", s->sha256_raw);
    ui_json_str(j, "sha256_text", s->sha256_text);
    ui_json_uint(j, "text_off", s->text_off);
    ui_json_uint(j, "text_bytes", s->text_bytes);
    ui_json_int(j, "token_begin", s->tok_begin);
    ui_json_int(j, "token_end", s->tok_end);
    ui_json_end(j);
}

static void json_sections(struct ui_json *j, const cag_kvc *k)
{
    ui_json_array(j, "sections");
    for (int n = 0; n < cag_kvc_n_section(k); n++) {
        cag_kvc_section s;

        cag_kvc_get_section(k, n, &s);
        ui_json_object(j, NULL);
        ui_json_str(j, "name", s.name);
        ui_json_uint(j, "off", s.off);
        ui_json_uint(j, "bytes", s.size_bytes);
        ui_json_str(j, "sha256", s.sha256);
        ui_json_bool(j, "required", s.required);
        ui_json_end(j);
    }
    ui_json_end(j);
}

void inspect_json(const cag_kvc *k)
{
    const cag_kvc_info *i = cag_kvc_get_info(k);
    struct ui_json j;
    size_t n_meta;
    const char *meta = cag_kvc_meta_json(k, &n_meta);

    json_start(&j, k);
    ui_json_int(&j, "format_major", i->major);
    ui_json_int(&j, "format_minor", i->minor);
    ui_json_uint(&j, "bytes", i->size_bytes);
    ui_json_str(&j, "codec", i->codec);
    ui_json_int(&j, "tokens", i->n_tok);
    ui_json_int(&j, "ctx_size", i->n_ctx);
    ui_json_int(&j, "reserve", i->reserve);
    ui_json_uint(&j, "kv_bytes", i->kv_raw_bytes);
    ui_json_uint(&j, "kv_stored_bytes", i->kv_stored_bytes);
    ui_json_str(&j, "binding", i->binding);
    ui_json_str(&j, "content_id", i->content_id);
    if (cag_kvc_get_receipt(k))
        loss_json(&j, cag_kvc_get_receipt(k), i->n_layer);
    if (cag_kvc_get_attention(k))
        attention_json(&j, cag_kvc_get_attention(k));
    ui_json_raw(&j, "meta", meta, n_meta);
    ui_json_array(&j, "sources");
    for (int n = 0; n < i->n_source; n++)
        json_source(&j, cag_kvc_get_source(k, n));
    ui_json_end(&j);
    json_sections(&j, k);
    ui_json_end(&j);
}

void inspect_sources(const cag_kvc *k, bool json)
{
    struct ui_json j;

    if (json) {
        json_start(&j, k);
        ui_json_array(&j, "sources");
        for (int n = 0; n < cag_kvc_get_info(k)->n_source; n++)
            json_source(&j, cag_kvc_get_source(k, n));
        ui_json_end(&j);
        ui_json_end(&j);
        return;
    }
    for (int n = 0; n < cag_kvc_get_info(k)->n_source; n++) {
        const cag_kvc_source *s = cag_kvc_get_source(k, n);

        if (!s->path) {
            ui_note("%s: came from a pipe, left out", ui_clean(s->name));
            continue;
        }
        /* sha256sum's own escape for names with a backslash or newline */
        if (strpbrk(s->path, "\\\n"))
            putchar('\\');
        printf("%s  ", s->sha256_raw);
        for (const char *p = s->path; *p;) {
            size_t n_plain = strcspn(p, "\\\n");

            ui_put_text(stdout, p, n_plain);
            p += n_plain;
            if (*p)
                fputs(*p++ == '\n' ? "\\n" : "\\\\", stdout);
        }
        putchar('\n');
    }
}

void inspect_tokens(const cag_kvc *k, bool json)
{
    const cag_tokenizer *t = cag_kvc_tokenizer(k);
    const int64_t *off = cag_kvc_id_offsets(k);
    size_t n, size;
    const int32_t *id = cag_kvc_ids(k, &n);

    if (json) {
        struct ui_json j;

        ui_json_start(&j, stdout);
        ui_json_array(&j, NULL);
        for (size_t i = 0; i < n; i++)
            ui_json_int(&j, NULL, id[i]);
        ui_json_end(&j);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        char text[256];
        const char *s = t ? cag_token_bytes(t, id[i], true, &size) : NULL;

        if (!s || size >= sizeof text)
            size = 0;
        if (size)
            memcpy(text, s, size);
        text[size] = 0;
        printf("%6zu  %8lld  %7d  %s\n", i, (long long)off[i], (int)id[i],
               ui_clean(text));
    }
}

/* One line a layer and K or V: what the tensor would be called, its type,
 * its shape, its bytes before the codec. */
void inspect_tensors(const cag_kvc *k, bool json)
{
    const cag_kvc_info *i = cag_kvc_get_info(k);
    int n_chunk = (int)((i->n_tok + i->chunk_tok - 1) / i->chunk_tok);
    const char *type = i->kv_class;
    /* what a layer has once (the factors of q8h) is in the total only */
    uint64_t bytes =
        (uint64_t)i->n_kv_head * (uint64_t)i->n_tok * (uint64_t)i->row_bytes;
    struct ui_json j;

    if (json) {
        json_start(&j, k);
        ui_json_int(&j, "chunk_tokens", i->chunk_tok);
        ui_json_int(&j, "chunks_per_layer", n_chunk);
        ui_json_array(&j, "tensors");
    }
    for (int n = 0; n < 2 * i->n_layer; n++) {
        char name[32];

        snprintf(name, sizeof name, "layer.%d.%c", n / 2, n & 1 ? 'v' : 'k');
        if (!json) {
            printf("%-12s %s  [%d, %lld, %d]  %llu bytes in %d chunks\n", name,
                   type, i->n_kv_head, (long long)i->n_tok, i->d_head,
                   (unsigned long long)bytes, n_chunk);
            continue;
        }
        ui_json_object(&j, NULL);
        ui_json_str(&j, "name", name);
        ui_json_str(&j, "type", type);
        ui_json_array(&j, "shape");
        ui_json_int(&j, NULL, i->n_kv_head);
        ui_json_int(&j, NULL, i->n_tok);
        ui_json_int(&j, NULL, i->d_head);
        ui_json_end(&j);
        ui_json_uint(&j, "bytes", bytes);
        ui_json_end(&j);
    }
    if (json) {
        ui_json_end(&j);
        json_sections(&j, k);
        ui_json_end(&j);
        return;
    }
    printf("\n%d tokens a chunk, K and V of a layer together; sections:\n",
           i->chunk_tok);
    for (int n = 0; n < cag_kvc_n_section(k); n++) {
        cag_kvc_section s;

        cag_kvc_get_section(k, n, &s);
        printf("%-4s  offset %-12llu %12llu bytes  %s  %s\n", ui_clean(s.name),
               (unsigned long long)s.off, (unsigned long long)s.size_bytes,
               s.sha256, s.required ? "required" : "optional");
    }
}

void inspect_text(const cag_kvc *k, bool json)
{
    size_t n;
    const char *text = cag_kvc_text(k, &n);
    struct ui_json j;

    if (!json) {
        ui_put_text(stdout, text, n);
        return;
    }
    json_start(&j, k);
    ui_json_strn(&j, "text", text, n);
    ui_json_end(&j);
}

void inspect_digest(const cag_kvc *k, bool json)
{
    const cag_kvc_info *i = cag_kvc_get_info(k);
    struct ui_json j;

    if (!json) {
        printf("%s\n", i->content_id);
        return;
    }
    json_start(&j, k);
    ui_json_str(&j, "content_id", i->content_id);
    ui_json_str(&j, "binding", i->binding);
    ui_json_end(&j);
}

void inspect_sound(const cag_kvc *k)
{
    struct ui_json j;

    json_start(&j, k);
    ui_json_bool(&j, "sound", true);
    ui_json_end(&j);
}

struct cuda_lines {
    struct ui_json *json; /* NULL: as text */
};

static void cuda_line(void *ctx, const char *text)
{
    const struct cuda_lines *c = ctx;

    if (c->json)
        ui_json_str(c->json, NULL, text);
    else
        ui_printf(stdout, 4, "  %s\n", ui_clean(text));
}

void inspect_devices(bool json)
{
    struct cuda_lines cuda = { NULL };
    const char *name;
    bool usable, chosen;
    struct ui_json j;

    if (json) {
        ui_json_start(&j, stdout);
        ui_json_object(&j, NULL);
        ui_json_int(&j, "schema", 1);
        ui_json_array(&j, "devices");
    }
    for (int i = 0; (name = cag_backend_at(i)) != NULL; i++)
        if (json)
            ui_json_str(&j, NULL, name);
        else
            printf("%s\n", name);
    if (json) {
        ui_json_end(&j);
        ui_json_array(&j, "kernels");
    }
    for (int i = 0; (name = cag_kernels_at(i, &usable, &chosen)) != NULL; i++) {
        if (!json) {
            printf("  kernels %s: %s\n", name,
                   chosen   ? "in use"
                   : usable ? "usable"
                            : "not on this CPU");
            continue;
        }
        ui_json_object(&j, NULL);
        ui_json_str(&j, "name", name);
        ui_json_bool(&j, "usable", usable);
        ui_json_bool(&j, "in_use", chosen);
        ui_json_end(&j);
    }
    if (json) {
        ui_json_end(&j);
        ui_json_array(&j, "cuda");
        cuda.json = &j;
    } else {
        puts("cuda");
    }
    cag_cuda_list(places_plugin(), cuda_line, &cuda);
    if (json) {
        ui_json_end(&j);
        ui_json_end(&j);
    }
}

int inspect_diff(const cag_kvc *a, const cag_kvc *b, bool json)
{
    cag_error err = CAG_ERROR_INIT;
    cag_diff d;
    int status;

    if (cag_kvc_diff(a, b, &d, &err))
        return ui_error(&err);
    status = d.n_line ? UI_NO : UI_OK;
    if (json) {
        struct ui_json j;

        ui_json_start(&j, stdout);
        ui_json_object(&j, NULL);
        ui_json_int(&j, "schema", 1);
        ui_json_bool(&j, "equal", !d.n_line);
        ui_json_int(&j, "first_differing_token", d.first_tok);
        ui_json_int(&j, "tokens_kept", d.n_tok_kept);
        ui_json_array(&j, "differences");
        for (int i = 0; i < d.n_line; i++)
            ui_json_str(&j, NULL, d.line[i]);
        ui_json_end(&j);
        ui_json_end(&j);
    } else {
        for (int i = 0; i < d.n_line; i++)
            ui_printf(stdout, 2, "%s\n", ui_clean(d.line[i]));
    }
    cag_diff_release(&d);
    return status;
}

/*
 * ask_question.c - one question, one answer on stdout, everything else on
 * stderr.
 *
 * The answer is streamed as it is made, into pipes too, and ends with exactly
 * one newline.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/ask/ask_common.h"
#include "cmd/cli/ui.h"

bool ask_stream_text(void *ctx, const char *text, size_t n)
{
    struct ask_stream *s = ctx;

    if (!s->off && n) {
        if (!s->printed)
            ui_progress_end(); /* it would stand in front of the text */
        ui_wrap_put(&s->wrap, text, n);
        s->failed = !ui_flush_stdout();
        s->printed += n;
    }
    return !s->failed && !ui_caught();
}

bool ask_fenced(const char *text, const char **block, size_t *n)
{
    const char *open = text, *end;

    while ((open = strstr(open, "```")) != NULL && open != text &&
           open[-1] != '\n')
        open += 3;
    if (!open || !(open = strchr(open, '\n')))
        return false;
    open++;
    end = strncmp(open, "```", 3) ? strstr(open, "\n```") : open;
    *block = open;
    *n = end ? (size_t)(end - open) : strlen(open);
    return true;
}

/* What of the file was checked so far. */
static const char *say_verified(char *text, size_t size, const cag_kb *kb)
{
    cag_kvc_checked c;

    cag_kvc_get_checked(cag_kb_get_kvc(kb), &c);
    if (c.full)
        snprintf(text, size, "every digest");
    else
        snprintf(text, size, "header, %d sections, %lld of %lld chunks",
                 c.n_section, (long long)c.n_chunk, (long long)c.of_chunk);
    return text;
}

/* "cpu (as asked), avx512", or "cuda, sm_89; cuda:0 NVIDIA ..." */
static const char *say_device(char *text, size_t size, const cag_kb *kb)
{
    const char *note = ui_clean(cag_kb_note(kb)), *device = cag_kb_device(kb);
    size_t n = strlen(device);

    if (!strncmp(note, device, n) && !strncmp(note + n, ": ", 2))
        snprintf(text, size, "%s (%s), %s", device, note + n + 2,
                 cag_kb_kernels(kb));
    else
        snprintf(text, size, "%s, %s; %s", device, cag_kb_kernels(kb), note);
    return text;
}

static void print_device_memory(struct ui_wrap *w, const cag_kb *kb)
{
    const cag_device_memory m = cag_kb_device_memory(kb);
    char all[UI_TEXT], weights[UI_TEXT], caches[UI_TEXT], sessions[UI_TEXT],
        scratch[UI_TEXT];

    ui_wrap_printf(
        w,
        "; %s of its memory in use (weights %s, cache %s, sessions %s, "
        "scratch %s)",
        ui_size(all, cag_kb_device_bytes(kb)), ui_size(weights, m.weights),
        ui_size(caches, m.caches), ui_size(sessions, m.sessions),
        ui_size(scratch, m.scratch));
}

void ask_print_usage(const cag_kb *kb, const cag_answer *a)
{
    const cag_kvc_info *i = cag_kvc_get_info(cag_kb_get_kvc(kb));
    char mapped[UI_TEXT], private[UI_TEXT], verified[UI_TEXT + 64];
    char device[512];
    int64_t more = a->n_generated - 1;
    struct ui_wrap w;

    ui_wrap_lines(&w, stderr, 2);
    ui_wrap_printf(
        &w,
        "%s: %lld cached + %lld prompt tokens, %lld generated "
        "(%lld of %lld drafts right); load "
        "%.3f s, question %.3f s, first token %.3f s, %.1f tokens/s; "
        "cache %s %s mapped, %s private; verified: %s; %s",
        ui.tool, (long long)a->n_cached, (long long)a->n_prompt,
        (long long)a->n_generated, (long long)a->n_accepted,
        (long long)a->n_drafted, cag_kb_load_s(kb), a->prefill_s,
        cag_kb_load_s(kb) + a->first_s,
        more > 0 && a->decode_s > 0 ? (double)more / a->decode_s : 0.0,
        i->codec, ui_size(mapped, cag_kb_mapped_bytes(kb)),
        ui_size(private, cag_kb_private_bytes(kb)),
        say_verified(verified, sizeof verified, kb),
        say_device(device, sizeof device, kb));
    if (cag_kb_device_bytes(kb))
        print_device_memory(&w, kb);
    if (a->checked)
        ui_wrap_printf(&w, "; evidence %.1f ms", 1000 * a->check_s);
    ui_wrap_printf(&w, "\n");
    ui_wrap_end(&w);
}

void ask_print_times(const cag_kb *kb, const cag_answer *a)
{
    const cag_kb_times t = cag_kb_get_times(kb);
    double named = t.cache + t.sources + t.tokenizer + t.model + t.engine;
    struct ui_wrap w;

    ui_wrap_lines(&w, stderr, 2);
    ui_wrap_printf(&w,
                   "%s: milliseconds: cache %.1f, sources %.1f, tokenizer "
                   "%.1f, model %.1f, engine %.1f, rest of loading %.1f, "
                   "reading the question %.1f (checking and expanding the "
                   "cache, so far %.1f), first token %.1f, other tokens %.1f\n",
                   ui.tool, 1e3 * t.cache, 1e3 * t.sources, 1e3 * t.tokenizer,
                   1e3 * t.model, 1e3 * t.engine,
                   1e3 * (cag_kb_load_s(kb) - named), 1e3 * a->prefill_s,
                   1e3 * t.expand, 1e3 * (a->first_s - a->prefill_s),
                   1e3 * a->decode_s);
    ui_wrap_end(&w);
}

/* That an answer is not whole is worth a line also to who wants none. */
static void warn_cut(const cag_kb *kb, const cag_answer *a)
{
    int64_t n_ctx = cag_kb_n_ctx(kb);

    if (ui.quiet)
        ui_sign("cut after %lld token%s", (long long)a->n_generated,
                ui_s(a->n_generated));
    else if (a->looped)
        ui_warn("the answer only repeated itself and was ended after %lld "
                "tokens; -n lets it go on",
                (long long)a->n_generated);
    else if (a->n_cached + a->n_prompt + a->n_generated < n_ctx)
        ui_warn("the answer was cut after %lld token%s; -n allows more",
                (long long)a->n_generated, ui_s(a->n_generated));
    else
        ui_warn("the answer was cut after %lld tokens: the context of %lld "
                "is full",
                (long long)a->n_generated, (long long)n_ctx);
}

static int print_answer(const struct ask_opts *o, cag_kb *kb,
                        const cag_answer *a, struct ask_stream *s,
                        const char *question, size_t n)
{
    const char *block;
    size_t block_n;
    char *row = NULL;
    int status = UI_OK;

    if (o->json || o->log) {
        row = cag_answer_json(kb, a, question, n, NULL, &o->params);
        if (!row)
            return ui_fail(CAG_E_NOMEM, NULL, "out of memory");
    }
    if (o->json) {
        ui_put_json(stdout, row, strlen(row));
        putchar('\n');
    } else if (o->grep) {
        ui_put_text(stderr, a->text, a->size);
        putc('\n', stderr);
        ask_print_grep(a->checked);
    } else if (o->extract && ask_fenced(a->text, &block, &block_n)) {
        ui_put_text(stdout, block, block_n);
        putchar('\n');
    } else {
        if (s->printed < a->size)
            ui_wrap_put(&s->wrap, a->text + s->printed, a->size - s->printed);
        ui_wrap_end(&s->wrap);
        putchar('\n');
    }
    if (!ui_flush_stdout())
        status = UI_IOERR;
    if (o->log && ask_log(o->log, kb, row, strlen(row)))
        status = UI_IOERR;
    cag_free(row);
    if (!strcmp(a->finish, "length") && !(o->json && ui.quiet) &&
        !(a->checked && a->checked->withheld))
        warn_cut(kb, a);
    if (o->evidence && !o->json && !o->grep)
        ask_print_evidence(kb, a->checked);
    if (o->params.require && a->refused && !status)
        status = ask_withheld(a, o->params.require);
    if (o->usage)
        ask_print_usage(kb, a);
    if (o->usage > 1)
        ask_print_times(kb, a);
    return status;
}

void ask_figures_forget(struct ask_figures *f)
{
    cag_answer_release(&f->last);
    free(f->question);
    free(f->before);
    f->question = f->before = NULL;
}

/* Keep the answer, for who asks what it stands on; takes it over.  What finds
 * no memory is not kept. */
static void keep(struct ask_figures *f, const char *question, size_t n,
                 bool chat, cag_answer *a)
{
    char *before = chat ? f->question : NULL;

    if (chat)
        f->question = NULL;
    ask_figures_forget(f);
    f->before = before;
    f->question = strndup(question, n);
    f->last = *a;
    if (!f->question)
        ask_figures_forget(f);
}

int ask_question(const struct ask_opts *o, cag_kb *kb, cag_chat *chat,
                 const char *question, size_t n, struct ask_figures *figures)
{
    struct ask_stream s = { .off = o->no_stream || o->json || o->extract ||
                                   o->grep };
    cag_error err = CAG_ERROR_INIT;
    cag_answer a;
    cag_status st;
    int status;

    ui_wrap_start(&s.wrap, stdout);
    st = chat ? cag_chat_ask(chat, question, n, &o->params, ask_stream_text, &s,
                             &a, &err)
              : cag_kb_ask(kb, question, n, &o->params, ask_stream_text, &s, &a,
                           &err);

    ui_progress_end();
    if (figures) {
        figures->n_asked++;
        figures->n_generated += a.n_generated;
        figures->seconds += a.first_s + a.decode_s;
        if (!st)
            figures->n_used = a.n_cached + a.n_prompt + a.n_generated;
    }
    if (st) {
        ui_wrap_end(&s.wrap);
        if (s.printed)
            putchar('\n');
        ui_flush_stdout();
        cag_answer_release(&a);
        return s.failed ? UI_IOERR : ui_error(&err);
    }
    status = print_answer(o, kb, &a, &s, question, n);
    if (figures)
        keep(figures, question, n, chat != NULL, &a);
    else
        cag_answer_release(&a);
    return status;
}

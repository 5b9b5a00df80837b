/*
 * embed.c - ask a cache from a program of your own.  See libcag(3).
 *
 *     cc embed.c $(pkg-config --cflags --libs cag) -o embed
 *     ./embed handbook.kvc "How do I reset my badge?" [MAX-BYTES]
 *
 * The library prints nothing and never exits: errors come back as data, text,
 * progress and remarks by callbacks, and a callback that returns false stops
 * the work.  Here Ctrl-C does that, and an answer of more than MAX-BYTES.
 */
#include <cag.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
    (void)sig;
    interrupted = 1;
}

static void on_note(void *ctx, cag_note kind, const char *line)
{
    if (kind == CAG_NOTE_WARN)
        fprintf(ctx, "embed: %s\n", line);
}

/* Called often, also when nothing has changed: after each layer of a pass. */
static bool on_progress(void *ctx, const cag_progress *p)
{
    static const char *const unit[] = { "", "tokens", "bytes", "rows" };
    static uint64_t last;

    if (p->done != last && p->total)
        fprintf(ctx, "embed: %s: %llu of %llu %s\n", p->what,
                (unsigned long long)p->done, (unsigned long long)p->total,
                unit[p->unit]);
    last = p->done;
    return !interrupted;
}

/* Whole UTF-8 characters, as soon as they are certain. */
static bool on_text(void *ctx, const char *text, size_t size)
{
    size_t *room = ctx;

    fwrite(text, 1, size < *room ? size : *room, stdout);
    fflush(stdout);
    *room -= size < *room ? size : *room;
    return *room > 0 && !interrupted;
}

int main(int argc, char **argv)
{
    size_t room = argc > 3 ? strtoul(argv[3], NULL, 10) : SIZE_MAX;
    cag_error err = CAG_ERROR_INIT;
    cag_kb *kb = NULL;
    cag_answer a = { 0 };
    cag_kb_opts opts;
    cag_ask_params params;

    if (argc < 3)
        return fprintf(stderr, "usage: embed FILE.kvc QUESTION [BYTES]\n"), 64;
    if (strcmp(cag_version(), CAG_VERSION) != 0)
        fprintf(stderr, "embed: made for libcag %s, runs with %s\n",
                CAG_VERSION, cag_version());
    signal(SIGINT, on_signal);
    cag_kb_opts_init(&opts);
    opts.places.model = getenv("CAG_MODEL"); /* the library reads none */
    opts.hooks = (cag_hooks){ on_note, on_progress, stderr };
    cag_ask_params_init(&params);
    params.max_tok = 60;

    cag_status st = cag_kb_open(argv[1], &opts, &kb, &err);
    if (st == CAG_OK)
        st = cag_kb_ask(kb, argv[2], strlen(argv[2]), &params, on_text, &room,
                        &a, &err);
    if (st == CAG_OK || st == CAG_E_CANCELLED)
        printf("\n(%lld tokens from the cache, %lld read, %lld written%s)\n",
               (long long)a.n_cached, (long long)a.n_prompt,
               (long long)a.n_generated, st ? ", stopped" : "");
    else
        fprintf(stderr, "embed: %s: %s (%s)\n", err.file, err.msg,
                cag_status_name(err.status));
    cag_answer_release(&a);
    cag_kb_close(kb);
    return st != CAG_OK && st != CAG_E_CANCELLED;
}

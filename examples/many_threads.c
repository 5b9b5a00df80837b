/*
 * many_threads.c - many threads ask one cache.  See libcag(3), Threads.
 *
 *     cc many_threads.c $(pkg-config --cflags --libs cag) -pthread -o
 * many_threads
 *     ./many_threads handbook.kvc 4 <questions.txt
 *
 * A cag_kb serves one thread at a time, so each thread opens its own.  They
 * share what is large: the model's weights and, with the codecs f16 and q8h,
 * the keys and values are pages of files, which the system holds once.  What
 * a thread has for itself is small: its tokens, and its share of the cores,
 * since each kb would otherwise start a thread per core.
 *
 * To answer many questions as fast as the machine can, threads are not needed
 * at all: cag_kb_ask_many decodes them together.  Threads are for programs
 * that have them anyway, such as a server with a thread per client.
 */
#include <cag.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREAD = 64, MAX_LINE = 4096 };

struct shared {
    const char *kvc;
    pthread_mutex_t lock; /* of the input, and of what is printed */
    int line, failed;
};

/* The next question, and its number; 0 at the end. */
static int next_question(struct shared *s, char *q)
{
    int line = 0;

    pthread_mutex_lock(&s->lock);
    if (fgets(q, MAX_LINE, stdin))
        line = ++s->line;
    pthread_mutex_unlock(&s->lock);
    q[strcspn(q, "\n")] = 0;
    return line;
}

static void say(struct shared *s, int line, const char *text)
{
    pthread_mutex_lock(&s->lock);
    printf("%d: %s\n", line, text);
    pthread_mutex_unlock(&s->lock);
}

static void fail(struct shared *s, int line, const cag_error *err)
{
    pthread_mutex_lock(&s->lock);
    fprintf(stderr, "many_threads: %d: %s (%s)\n", line, err->msg,
            cag_status_name(err->status));
    s->failed = 1;
    pthread_mutex_unlock(&s->lock);
}

static void *serve(void *ctx)
{
    struct shared *s = ctx;
    cag_error err = CAG_ERROR_INIT;
    char q[MAX_LINE];
    cag_kb_opts opts;
    cag_ask_params params;
    cag_kb *kb = NULL;
    int line;

    cag_kb_opts_init(&opts);
    opts.engine.n_thread = 1; /* the program's threads are the cores' */
    opts.engine.device = "cpu";
    opts.places.model = getenv("CAG_MODEL");
    cag_ask_params_init(&params);
    params.max_tok = 40;
    if (cag_kb_open(s->kvc, &opts, &kb, &err) != CAG_OK) {
        fail(s, 0, &err);
        return NULL;
    }
    while ((line = next_question(s, q)) != 0) {
        cag_answer a = { 0 };

        if (cag_kb_ask(kb, q, strlen(q), &params, NULL, NULL, &a, &err) ==
            CAG_OK)
            say(s, line, a.text);
        else
            fail(s, line, &err);
        cag_answer_release(&a);
    }
    cag_kb_close(kb);
    return NULL;
}

int main(int argc, char **argv)
{
    struct shared s = { argv[1], PTHREAD_MUTEX_INITIALIZER, 0, 0 };
    pthread_t thread[MAX_THREAD];
    int n = argc > 2 ? atoi(argv[2]) : 2, started = 0;

    if (argc < 2 || n < 1 || n > MAX_THREAD)
        return fprintf(stderr, "usage: many_threads FILE.kvc [THREADS]\n"), 64;
    while (started < n &&
           pthread_create(&thread[started], NULL, serve, &s) == 0)
        started++;
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    return started < n || s.failed;
}

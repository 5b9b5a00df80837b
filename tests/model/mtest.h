/*
 * mtest.h - what the model tests share: tiny models, recorded logits, ids.
 * Goldens: tests/golden/README.md.  Include after cmocka.h.
 */
#ifndef MTEST_H
#define MTEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cag/session.h>

#include "util/json.h"

#define GOLDEN "tests/golden/"

static inline void mt_ok(cag_status st, const cag_error *err, int line)
{
    if (st != CAG_OK)
        fail_msg("line %d: %s: %s: %s", line, cag_status_name(st), err->file,
                 err->msg);
}
#define OK(call)                                                              \
    do {                                                                      \
        cag_error err_ = CAG_ERROR_INIT, *err = &err_;                        \
        mt_ok((call), err, __LINE__);                                         \
    } while (0)

static inline void mt_ids(int32_t *ids, int n, uint64_t seed, int n_vocab)
{
    uint64_t s = seed;

    for (int i = 0; i < n; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        ids[i] = (int32_t)((s >> 33) % (uint64_t)n_vocab);
    }
}

static inline cag_model *mt_model(const char *name)
{
    char path[256];
    cag_model *m = NULL;

    snprintf(path, sizeof path, GOLDEN "%s", name);
    OK(cag_model_open(path, CAG_MODEL_NO_TOKENIZER, &m, err));
    return m;
}

static inline cag_engine *mt_engine(const cag_model *m, int n_thread,
                                    int chunk, cag_precision precision,
                                    bool kv_f32)
{
    cag_engine_opts o = { .device = "cpu", .n_thread = n_thread,
                          .chunk = chunk, .precision = precision,
                          .kv_f32 = kv_f32 };
    cag_engine *e = NULL;

    OK(cag_engine_new(m, &o, &e, err));
    return e;
}

static inline cag_session *mt_session(cag_engine *e, cag_prefix *p,
                                      int max_tok)
{
    cag_session *s = NULL;

    OK(cag_session_new(e, p, max_tok, &s, err));
    return s;
}

/* What process pid writes to fd: exactly want bytes, and it ends well.  fd is
 * closed. */
static inline void mt_from_child(pid_t pid, int fd, void *out, size_t want)
{
    size_t got = 0;
    int status;

    for (ssize_t r; got < want; got += (size_t)r) {
        r = read(fd, (char *)out + got, want - got);
        if (r <= 0)
            break;
    }
    close(fd);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(got, want);
}

static inline int mt_vocab(const cag_model *m)
{
    return cag_model_get_info(m)->n_vocab;
}

static inline int32_t mt_argmax(const float *x, int n)
{
    int32_t at = 0;

    for (int i = 1; i < n; i++)
        if (x[i] > x[at])
            at = i;
    return at;
}

#endif

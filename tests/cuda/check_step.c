/*
 * check_step.c - steps of check_cuda, each with seconds and a result.
 *
 * A run must not report success without having checked.  So a comparison that
 * is cut off counts as failed, a measurement that is cut off is only missing,
 * and a run that compared nothing fails.
 */
#include "tests/cuda/check.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "util/mem.h"

struct check_run check = { .device = "cuda", .budget = 220, .step_s = 6 };
char check_why[1600];

double check_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double left(void)
{
    return check.budget - (check_now() - check.start);
}

static bool in_time(void *ctx, const cag_progress *p)
{
    (void)ctx, (void)p;
    return check_now() < check.deadline;
}

/* ----------------------------------------------------------------- results */

static void add_result(jv *step, bool failed)
{
    struct buf b = BUF_INIT;
    FILE *f;

    jv_dump(step, &b);
    printf("%s%.*s\n", failed ? "FAILED " : "", (int)b.size, b.data);
    fflush(stdout);
    buf_free(&b);
    jv_append(check.steps, step);
    jv_dump(check.steps, &b);
    f = fopen(check.out, "w");
    if (!f || fwrite(b.data, 1, b.size, f) != b.size || fclose(f) != 0)
        fprintf(stderr, "check_cuda: cannot write %s: %s\n", check.out,
                strerror(errno));
    buf_free(&b);
}

bool check_begin(const char *name, const char *of, double seconds)
{
    double room = left();

    seconds = check.tiny ? check.step_s : seconds;
    check.deadline = check_now() + seconds;
    check.overdue = false;
    check_why[0] = '\0';
    if (room >= seconds)
        return true;
    jv *step = jv_new_object();
    jv_set_str(step, "step", name);
    jv_set_str(step, "of", of);
    jv_set_real(step, "skipped_needs_s", seconds);
    jv_set_real(step, "left_s", room);
    check.n_skipped++;
    add_result(step, false);
    return false;
}

void check_finish(enum check_kind kind, const char *name, jv *step,
                  double began)
{
    bool failed = check_why[0] != '\0';

    if (check.overdue) {
        jv_set_bool(step, "cut_off", true);
        check.n_cut++;
        failed = kind == CHECK_COMPARE;
        snprintf(check_why, sizeof check_why, "not compared in time");
    }
    if (failed) {
        jv_set_str(step, "failed", check_why);
        check.n_bad++;
    } else if (kind == CHECK_COMPARE) {
        check.n_checked++;
    }
    jv_set_str(step, "step", name);
    jv_set_real(step, "seconds", check_now() - began);
    add_result(step, failed);
}

int check_sum(void)
{
    bool failed = check.n_bad > 0 || check.n_checked == 0;
    jv *step = jv_new_object();

    jv_set_str(step, "step", "sum");
    jv_set_int(step, "checked", check.n_checked);
    jv_set_int(step, "n_cut_off", check.n_cut);
    jv_set_int(step, "skipped", check.n_skipped);
    jv_set_int(step, "n_failed", check.n_bad);
    add_result(step, failed);
    return failed;
}

/* ------------------------------------------------------- what steps do */

bool check_ok(cag_status st, const cag_error *err)
{
    if (st == CAG_E_CANCELLED)
        check.overdue = true;
    if (st)
        snprintf(check_why, sizeof check_why, "%s%s%s", err->file,
                 err->file[0] != '\0' ? ": " : "", err->msg);
    return !st;
}

cag_engine *check_engine(const cag_model *m, const char *device, int layers)
{
    cag_engine_opts o = { .device = device,
                          .plugin = check.plugin,
                          .gpu_layers = layers };
    cag_error err = CAG_ERROR_INIT;
    cag_engine *e = NULL;

    if (!check_ok(cag_engine_new(m, &o, &e, &err), &err))
        return NULL;
    cag_engine_set_progress(e, in_time, NULL);
    return e;
}

int32_t *check_ids(int n, int n_vocab)
{
    int32_t *ids = mem_alloc_array((size_t)n, sizeof *ids);

    for (int i = 0; ids && i < n; i++)
        ids[i] = (int32_t)(check_random() % (uint64_t)n_vocab);
    if (!ids)
        snprintf(check_why, sizeof check_why, "no memory for %d ids", n);
    return ids;
}

cag_session *check_prefill(cag_engine *e, const struct check_prompt *p,
                           const float **logits, double *seconds)
{
    cag_error err = CAG_ERROR_INIT;
    cag_session *s = NULL;

    if (!check_ok(
            cag_session_new(e, p->prefix, p->depth + p->n + p->more, &s, &err),
            &err))
        return NULL;
    double start = check_now();
    if (!check_ok(cag_session_prefill(s, p->ids, p->n, logits, &err), &err)) {
        cag_session_free(s);
        return NULL;
    }
    *seconds = check_now() - start;
    return s;
}

/*
 * eval_compare.c - is an evaluation worse than an earlier one of the same
 * questions?
 *
 * Only what is judged counts, not seconds, which depend on the machine's other
 * work; a question answered otherwise is a change, so there is no threshold.
 */
#include <cag/tool/eval.h>

#include <stddef.h>

#include "util/error.h"
#include "util/json.h"

static const struct {
    const char *key;
    size_t at;
    bool fewer_is_better;
} judged[] = {
#define AT(member) offsetof(cag_eval_figures, member)
    { "right", AT(n_right), false },
    { "refused_right", AT(n_refused_right), false },
    { "refused_wrong", AT(n_refused_wrong), true },
    { "evidence_first", AT(n_first), false },
    { "evidence_three", AT(n_three), false },
    { "strong_right", AT(n_strong_right), false },
    { "strong_unanswerable", AT(n_strong_unanswerable), true },
#undef AT
};

static void compare_arm(const jv *old, const cag_eval_figures *f,
                        cag_eval_change *c, cag_eval_change_fn fn, void *ctx)
{
    for (size_t i = 0; i < sizeof judged / sizeof judged[0]; i++) {
        const char *p = (const char *)f + judged[i].at;
        const int *now = (const int *)(const void *)p;
        int64_t was = jv_get_int(old, judged[i].key, *now);

        if (was == *now)
            continue;
        c->key = judged[i].key;
        c->was = was;
        c->now = *now;
        c->worse = judged[i].fewer_is_better ? *now > was : *now < was;
        fn(ctx, c);
    }
}

cag_status cag_eval_compare(const char *text, size_t size, const char *name,
                            const cag_eval_report *r, cag_eval_change_fn fn,
                            void *ctx, cag_error *err)
{
    jv *old = NULL;
    cag_status st = jv_parse(text, size, name, &old, err);
    const jv *arms = jv_get(old, "arms");
    int64_t n = jv_get_int(old, "questions", -1);

    if (!st && (n < 0 || jv_type(arms) != JV_OBJECT))
        st = cag_fail(err, CAG_E_FORMAT, name, -1,
                      "this is no output of cag-bench eval --json");
    else if (!st && n != r->n_question)
        st = cag_fail(err, CAG_E_MISMATCH, name, -1,
                      "it is of %lld questions, these are %d", (long long)n,
                      r->n_question);
    for (int i = 0; i < CAG_EVAL_ARMS && !st; i++) {
        const jv *arm = jv_get(arms, cag_eval_arm_name(i));
        cag_eval_change c = { .arm = i };

        if (arm && r->arm[i])
            compare_arm(arm, &r->figures[i], &c, fn, ctx);
    }
    jv_free(old);
    return st;
}

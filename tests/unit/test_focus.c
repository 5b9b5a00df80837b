/*
 * test_focus.c - the second look.
 *
 *   - passages become the tokens that hold them, with head, headings and tail
 *   - what is read again is what a cache of the passages alone would answer
 *   - a masked look is a session with that view
 *   - the better supported answer is given, the first one at a tie
 *   - together, alone, and with any number of threads: the same bits
 *   - a look that is certain begins before the first one ends, where there is
 *     memory for both; who stops one stops all
 */
#include "tests/lib/unit.h"

#include "tests/lib/fault.h"

#include <cag/tool/crew.h>

#include "ask/answer_copy.h"
#include "ask/crew.h"
#include "ask/kb.h"
#include "ask/support.h"

static char kvc[64];
static cag_kb *kb;
static cag_error why[1];

#define QUESTION "Who repaired the copper clock?"
#define LINES_HELD                              \
    "Fog came on a Monday.\n"                   \
    "The tower was closed.\n"                   \
    "Bram repaired the copper clock in June.\n" \
    "He was paid in apples.\n"                  \
    "Nobody complained.\n"

static cag_kb *open_kb(const char *path, int threads)
{
    cag_kb_opts k;
    cag_kb *out = NULL;

    cag_kb_opts_init(&k);
    k.engine.device = "cpu";
    k.engine.n_thread = threads;
    OK(cag_kb_open(path, &k, &out, err));
    return out;
}

/* A cache of one file of text, called b.md in every prompt. */
static void build(const char *path, const char *codec, const char *text)
{
    cag_build_opts o;
    char name[64];

    set_text(text);
    build_opts(&o, path);
    fault_source = (cag_source_spec){ .path = in_dir(name, "docs/b.md") };
    o.codec = codec;
    build_ok(&o);
    fault_source = (cag_source_spec){ .path = fault_docs };
}

static void long_text(struct buf *b)
{
    for (int i = 0; i < 60; i++)
        if (i == 41)
            buf_str(b, LINES_HELD);
        else
            buf_printf(b, "Line %d tells of %d boats and a whale.\n", i, 7 * i);
    buf_char(b, '\0');
}

static int begin(void **state)
{
    struct buf b = BUF_INIT;

    (void)state;
    if (fault_set_up())
        return -1;
    long_text(&b);
    build(in_dir(kvc, "kb.kvc"), NULL, b.data);
    buf_free(&b);
    kb = open_kb(kvc, 1);
    return 0;
}

static int end(void **state)
{
    cag_kb_close(kb);
    return fault_tear_down(state);
}

static cag_ask_params params(cag_focus focus)
{
    cag_ask_params p;

    cag_ask_params_init(&p);
    p.max_tok = 12;
    p.focus = focus;
    return p;
}

static cag_answer ask(cag_kb *k, const char *q, cag_focus focus)
{
    cag_ask_params p = params(focus);
    cag_answer a;

    OK(cag_kb_ask(k, q, strlen(q), &p, NULL, NULL, &a, err));
    return a;
}

static void same_looks(const cag_answer *a, const cag_answer *b)
{
    assert_string_equal(a->text, b->text);
    assert_string_equal(a->finish, b->finish);
    assert_int_equal(a->n_generated, b->n_generated);
    assert_int_equal(a->n_prompt, b->n_prompt);
    assert_int_equal(!a->looked, !b->looked);
    if (!a->looked)
        return;
    assert_int_equal(a->looked->n_look, b->looked->n_look);
    assert_int_equal(a->looked->given, b->looked->given);
    assert_int_equal(a->looked->n_passage, b->looked->n_passage);
    for (int i = 0; i < a->looked->n_look; i++) {
        const cag_look *x = &a->looked->look[i], *y = &b->looked->look[i];

        assert_string_equal(x->text, y->text);
        assert_int_equal(x->from, y->from);
        assert_int_equal(x->support, y->support);
        assert_true(x->score == y->score);
    }
}

/* ---------------------------------------------------------------- tokens */

static void passages_are_the_tokens_that_hold_them(void **state)
{
    const struct passages_asked asked = { .question = QUESTION,
                                          .n_question = strlen(QUESTION),
                                          .most = 2 };
    const cag_kvc *k = kb->kvc;
    const cag_kvc_source *s = cag_kvc_get_source(k, 0);
    const int64_t *off = cag_kvc_id_offsets(k);
    struct token_range range[PASSAGE_RANGES];
    struct passages ps, none = { .n = 0 }, all = { .n = 1 };
    size_t n, n_text, head;
    const char *text = cag_kvc_text(k, &n_text);
    int n_range;

    (void)state;
    cag_kvc_ids(k, &n);
    OK(support_base(kb, err));
    OK(passages_find(kb->evidence->index, &asked, &ps, err));
    n_range = passage_tokens(k, &ps, range);
    assert_in_range(n_range, 2, PASSAGE_RANGES);
    head = s->text_off; /* the only heading belongs to the passages */
    for (size_t i = 0; i < n; i++) {
        int64_t end = i + 1 < n ? off[i + 1] : (int64_t)n_text;
        bool want = end <= (int64_t)head ||
                    off[i] >= (int64_t)(s->text_off + s->text_bytes);
        bool got = false;

        for (int j = 0; j < ps.n; j++)
            want = want || (off[i] < (int64_t)(s->text_off + ps.at[j].to) &&
                            end > (int64_t)(s->text_off + ps.at[j].from));
        for (int j = 0; j < n_range; j++)
            got = got || ((int)i >= range[j].from && (int)i < range[j].to);
        if (got != want)
            fail_msg("token %zu '%.*s' is %s", i, (int)(end - off[i]),
                     text + off[i], got ? "seen" : "hidden");
    }
    assert_int_equal(passage_tokens(k, &none, range), 0);
    all.at[0] = (struct passage){ 0, 0, s->text_bytes };
    assert_int_equal(passage_tokens(k, &all, range), 0);
}

/* ----------------------------------------------------------------- looks */

/* Only the five lines have words of the question, so a cache of them alone has
 * the prompt that is read again. */
static void reading_again_is_a_cache_of_the_passages(void **state)
{
    const char *q = "Bram repaired copper clock apples";
    cag_answer got = ask(kb, q, CAG_FOCUS_REREAD), want;
    char path[64];
    cag_kb *small;

    (void)state;
    assert_non_null(got.looked);
    assert_int_equal(got.looked->n_look, 2);
    assert_int_equal(got.looked->look[1].from, CAG_FOCUS_REREAD);
    assert_int_equal(got.looked->n_passage, 1);
    assert_int_equal(got.looked->passage[0].size, strlen(LINES_HELD) - 1);
    assert_memory_equal(got.looked->passage[0].text, LINES_HELD,
                        strlen(LINES_HELD) - 1);
    build(in_dir(path, "small.kvc"), NULL, LINES_HELD);
    small = open_kb(path, 1);
    want = ask(small, q, CAG_FOCUS_OFF);
    assert_string_equal(got.looked->look[1].text, want.text);
    cag_answer_release(&want);
    want = ask(kb, q, CAG_FOCUS_OFF);
    assert_string_equal(got.looked->look[0].text, want.text);
    /* of the five lines there is but one look */
    cag_answer_release(&want);
    want = ask(small, q, CAG_FOCUS_AUTO);
    assert_int_equal(want.looked->n_look, 1);
    assert_int_equal(want.looked->n_passage, 0);
    cag_answer_release(&want);
    cag_answer_release(&got);
    cag_kb_close(small);
}

static void a_masked_look_is_a_view(void **state)
{
    const struct passages_asked asked = { .question = QUESTION,
                                          .n_question = strlen(QUESTION),
                                          .most = 2 };
    cag_answer got = ask(kb, QUESTION, CAG_FOCUS_MASK), want;
    cag_ask_params p = params(CAG_FOCUS_OFF);
    struct token_range range[PASSAGE_RANGES];
    cag_ids ids = CAG_IDS_INIT;
    struct passages ps;
    struct turn t;

    (void)state;
    OK(passages_find(kb->evidence->index, &asked, &ps, err));
    OK(prompt_question_encode(&kb->tail, kb->tok, QUESTION, strlen(QUESTION),
                              false, &ids, err));
    OK(turn_start(
        &t, kb,
        &(struct turn_prompt){ .ids = ids.id,
                               .n_ids = ids.n,
                               .range = range,
                               .n_range = passage_tokens(kb->kvc, &ps, range) },
        &p, NULL, NULL, err));
    OK(turn_run(&t, err));
    OK(turn_finish(&t, &want, err));
    assert_string_equal(got.looked->look[1].text, want.text);
    assert_string_not_equal(got.looked->look[0].text, want.text);
    cag_ids_free(&ids);
    cag_answer_release(&got);
    cag_answer_release(&want);
}

/* Look i took from 3 i on. */
static void take(struct focus *f, int i, cag_focus look, const char *text)
{
    cag_answer a = { .text = mem_strdup(text),
                     .size = strlen(text),
                     .finish = "stop",
                     .n_cached = 100,
                     .n_prompt = 10,
                     .n_generated = 3,
                     .first_s = 1,
                     .decode_s = 2 };

    assert_non_null(a.text);
    OK(focus_take(f, look, &a, 3 * i, err));
    assert_null(a.text);
}

/* Looks that came to these texts: which is given, and would there be more? */
static void expect_given(cag_focus focus, const char *const *text, int n,
                         int given, bool more)
{
    const cag_text q = { QUESTION, strlen(QUESTION), 0 };
    cag_ask_params p = params(focus);
    struct focus f;
    cag_focus look;
    cag_answer a;
    bool certain;

    OK(focus_init(&f, kb, &p, &q, NULL, err));
    for (int i = 0; i < n; i++) {
        assert_true(focus_next(&f, i, &look));
        assert_int_equal(look, i == 0                    ? 0
                               : focus != CAG_FOCUS_AUTO ? (int)focus
                               : kb->is_small            ? CAG_FOCUS_REREAD
                                                         : i);
        if (i == 0) {
            assert_false(focus_next(&f, 1, &look)); /* where would it look? */
            OK(focus_passages(&f, NULL, err));
            certain = focus_next(&f, 1, &look);
            assert_int_equal(certain, focus != CAG_FOCUS_AUTO || kb->is_small);
            look = CAG_FOCUS_OFF;
        }
        take(&f, i, look, text[i]);
    }
    assert_int_equal(focus_next(&f, n, &look), more);
    focus_end(&f, &a);
    assert_string_equal(a.text, text[given]);
    assert_int_equal(a.looked->given, given);
    assert_int_equal(a.looked->n_look, n);
    assert_int_equal(a.n_cached, 100);
    assert_int_equal(a.n_prompt, 10 * n);
    assert_int_equal(a.n_generated, 3 * n);
    assert_true(a.first_s == 1 && a.first_s + a.decode_s == 3 * n);
    cag_answer_release(&a);
}

static void the_better_supported_answer_is_given(void **state)
{
    static const char good[] = "Bram, in June.", bad[] = "A whale, I think.";
    const char *const bad_good[] = { bad, good },
                      *const good_bad[] = { good, bad },
                      *const tie[] = { bad, "Qwerty." },
                      *const three[] = { bad, "No", good };

    (void)state;
    for (cag_focus f = CAG_FOCUS_MASK; f <= CAG_FOCUS_REREAD; f++) {
        expect_given(f, bad_good, 2, 1, false);
        expect_given(f, good_bad, 2, 0, false);
        expect_given(f, good_bad, 1, 0, true);
        expect_given(f, tie, 2, 0, false);
    }
    /* auto looks on while support is not strong: not a small model ... */
    assert_true(kb->is_small);
    expect_given(CAG_FOCUS_AUTO, good_bad, 1, 0, true); /* always two */
    expect_given(CAG_FOCUS_AUTO, bad_good, 2, 1, false);
    expect_given(CAG_FOCUS_AUTO, tie, 2, 0, false);
    /* ... and those of others */
    kb->is_small = false;
    expect_given(CAG_FOCUS_AUTO, good_bad, 1, 0, false);
    expect_given(CAG_FOCUS_AUTO, bad_good, 1, 0, true);
    expect_given(CAG_FOCUS_AUTO, bad_good, 2, 1, false);
    expect_given(CAG_FOCUS_AUTO, tie, 2, 0, true);
    expect_given(CAG_FOCUS_AUTO, three, 3, 2, false);
    kb->is_small = true;
}

/* What was taken for its score must have more of it: the same answer to the
 * same question, with more and more words that the text does not have. */
static void a_later_look_needs_more_to_be_strong(void **state)
{
    static const char answer[] = "Bram, in June.";
    struct buf b = BUF_INIT;
    cag_answer a = { .finish = "stop" };
    int n_between = 0, n_strong = 0;

    (void)state;
    a.text = mem_strdup(answer);
    a.size = strlen(answer);
    assert_non_null(a.text);
    OK(support_base(kb, err));
    for (int i = 0; i < 12; i++)
        for (int j = 0; j < 12; j++) {
            double score, same;
            cag_support first, again;
            cag_text q;

            buf_clear(&b);
            buf_str(&b, "Who repaired the copper clock");
            for (int k = 0; k < i; k++)
                buf_printf(&b, " %s", k % 2 ? "boats" : "whale");
            for (int k = 0; k < j; k++)
                buf_printf(&b, " zq%c", 'a' + k);
            q = (cag_text){ b.data, b.size, 0 };
            OK(support_of(kb, &q, NULL, &a, false, &first, &score, err));
            OK(support_of(kb, &q, NULL, &a, true, &again, &same, err));
            assert_true(score == same);
            assert_int_equal(first == CAG_SUPPORT_STRONG,
                             score >= CAG_SUPPORT_SCORE);
            assert_int_equal(again == CAG_SUPPORT_STRONG,
                             score >= CAG_SUPPORT_SCORE_AGAIN);
            n_between += first != again;
            n_strong += again == CAG_SUPPORT_STRONG;
        }
    assert_true(n_between > 0 && n_strong > 0);
    buf_free(&b);
    mem_free(a.text);
}

/* ------------------------------------------------------------- the same */

static const struct {
    const char *q;
    cag_focus focus;
} rows[] = {
    { QUESTION, CAG_FOCUS_REREAD },
    { "How many boats are told of in line 12?", CAG_FOCUS_MASK },
    { QUESTION, CAG_FOCUS_OFF },
    { "zzz", CAG_FOCUS_AUTO },
    { "Who was paid in apples?", CAG_FOCUS_AUTO },
    { QUESTION, CAG_FOCUS_REREAD }, /* waits for the first */
    { "Is line 40 of a whale?", CAG_FOCUS_MASK },
};
enum { N = sizeof rows / sizeof rows[0] };

static void together_or_alone_with(bool is_small)
{
    static const char *const codecs[] = { "f16", "f16z", "q8h" };
    struct buf b = BUF_INIT;
    char path[64];

    long_text(&b);
    for (int c = 0; c < 3; c++) {
        cag_answer want[N], got[N];
        cag_ask_params p[N];
        cag_question q[N];

        build(in_dir(path, "one.kvc"), codecs[c], b.data);
        for (int threads = 1; threads <= 8; threads *= 2 + 2 * (threads == 2)) {
            cag_kb *k = open_kb(path, threads);

            k->is_small = is_small;
            for (int i = 0; i < N; i++) {
                cag_answer a = ask(k, rows[i].q, rows[i].focus);

                if (threads > 1) {
                    same_looks(&a, &want[i]);
                    cag_answer_release(&a);
                } else {
                    want[i] = a;
                }
                p[i] = params(rows[i].focus);
                q[i] = (cag_question){ .text = rows[i].q,
                                       .size = strlen(rows[i].q),
                                       .params = &p[i] };
            }
            for (int parallel = 1; parallel <= N; parallel += 2) {
                OK(cag_kb_ask_many(k, q, N, parallel, got, NULL, err));
                for (int i = 0; i < N; i++) {
                    same_looks(&got[i], &want[i]);
                    cag_answer_release(&got[i]);
                }
            }
            cag_kb_close(k);
        }
        for (int i = 0; i < N; i++)
            cag_answer_release(&want[i]);
    }
    buf_free(&b);
}

static void together_or_alone(void **state)
{
    (void)state;
    together_or_alone_with(true);
    together_or_alone_with(false);
}

/* ---------------------------------------------------------- at one time */

/* Begin look i, which is to be begun now, and read it. */
static void begin_look(struct looks *l, int i, const cag_ids *ids)
{
    struct turn *t = &l->turn[i];
    cag_step step;

    assert_true(looks_next(l));
    OK(looks_prepare(l, ids->id, ids->n, NULL, NULL, err));
    assert_int_equal(l->n_begun, i + 1);
    OK(turn_begin(&t, &step, 1, err));
    OK(looks_read(l, i, err));
    assert_true(looks_runs(l, i));
}

static void what_is_certain_begins_at_once(void **state)
{
    const cag_text q = { QUESTION, strlen(QUESTION), 0 };
    cag_ids ids = CAG_IDS_INIT;
    struct looks l;
    cag_answer a;

    (void)state;
    OK(support_base(kb, err));
    OK(prompt_question_encode(&kb->tail, kb->tok, q.text, q.size, false, &ids,
                              err));
    for (cag_focus f = CAG_FOCUS_OFF; f <= CAG_FOCUS_AUTO; f++)
        for (int small = 0; small < 2; small++) {
            cag_ask_params p = params(f);

            kb->is_small = small;
            OK(looks_init(&l, kb, &p, &q, NULL, err));
            begin_look(&l, 0, &ids);
            if (f == CAG_FOCUS_OFF || (f == CAG_FOCUS_AUTO && !small)) {
                assert_false(looks_next(&l)); /* it depends on the first */
            } else {
                begin_look(&l, 1, &ids);
                assert_true(looks_runs(&l, 0) && looks_runs(&l, 1));
                assert_false(looks_next(&l));
            }
            OK(looks_run(&l, ids.id, ids.n, NULL, NULL, &a, err));
            assert_int_equal(a.looked ? a.looked->n_look : 1,
                             f == CAG_FOCUS_OFF              ? 1
                             : f == CAG_FOCUS_AUTO && !small ? 3
                                                             : 2);
            cag_answer_release(&a);
        }
    kb->is_small = true;
    cag_ids_free(&ids);
}

/* Its second look begins beside the first where a turn may still run. */
static void a_crew_has_places_for_looks(void **state)
{
    const cag_ask_params p = params(CAG_FOCUS_REREAD);

    (void)state;
    for (int parallel = 1; parallel <= 2; parallel++) {
        struct crew_member m = { .question = QUESTION,
                                 .size = strlen(QUESTION),
                                 .params = &p };
        struct crew c;
        int most = 0;

        OK(crew_init(&c, kb, parallel, 0, p.max_tok, err));
        OK(crew_add(&c, &m, err));
        assert_int_equal(crew_has_room(&c), parallel == 2);
        while (m.state != CREW_DONE) {
            int n;

            OK(crew_step(&c, err));
            n = m.looks.n_begun - m.looks.focus.n_taken;
            most = n > most ? n : most;
            assert_int_equal(crew_has_room(&c), n < parallel);
        }
        assert_int_equal(most, parallel);
        assert_int_equal(m.answer.looked->n_look, 2);
        cag_answer_release(&m.answer);
        crew_release(&c);
    }
}

static bool poll(void *ctx, const char *text, size_t size)
{
    int *left = ctx;

    (void)text;
    assert_int_equal(size, 0);
    return --*left > 0;
}

/* A member of a crew, beside another; false: it was stopped. */
static bool joins(cag_crew *c, const cag_question *q, int *left)
{
    cag_member *m, *other;
    cag_answer a;
    cag_status st;

    OK(cag_crew_join(c, NULL, q, NULL, NULL, NULL, &other, err));
    OK(cag_crew_join(c, NULL, q, NULL, poll, left, &m, err));
    while (!cag_member_done(m) || !cag_member_done(other))
        OK(cag_crew_step(c, err));
    st = cag_crew_leave(c, m, &a, why);
    cag_answer_release(&a);
    OK(cag_crew_leave(c, other, &a, err));
    assert_int_equal(a.looked->n_look, 2);
    cag_answer_release(&a);
    if (st)
        assert_int_equal(st, CAG_E_CANCELLED);
    return !st;
}

static void who_stops_one_look_stops_all(void **state)
{
    cag_ask_params p = params(CAG_FOCUS_REREAD);
    const cag_question q = { .text = QUESTION,
                             .size = strlen(QUESTION),
                             .params = &p };
    int64_t live = mem_live();
    bool alone = false, together = false;
    cag_crew *c;

    (void)state;
    for (int n = 1; !alone || !together; n++) {
        int left = n;
        cag_answer a;
        cag_status st =
            cag_kb_ask(kb, q.text, q.size, &p, poll, &left, &a, why);

        assert_true(n < 99);
        assert_int_equal(st, left > 0 ? CAG_OK : CAG_E_CANCELLED);
        alone = !st;
        cag_answer_release(&a);
        OK(cag_crew_new(kb, 8, &c, err));
        left = n;
        together = joins(c, &q, &left);
        assert_int_equal(together, left > 0);
        cag_crew_free(c);
        assert_int_equal(mem_live(), live);
    }
}

/* ------------------------------------------------------- a conversation */

static bool poll_twice(void *ctx, const char *text, size_t size)
{
    int *left = ctx;

    (void)text;
    assert_int_equal(size, 0); /* it is not decided yet */
    return --*left > 0;
}

static bool has_passage(const cag_looked *l, const char *text)
{
    for (int i = 0; i < l->n_passage; i++)
        if (memmem(l->passage[i].text, l->passage[i].size, text, strlen(text)))
            return true;
    return false;
}

static void a_conversation_looks_twice(void **state)
{
    cag_ask_params p = params(CAG_FOCUS_REREAD);
    cag_answer a, b, c;
    cag_chat *chat;
    char *before, *after;
    int left = 15; /* within the second look */

    (void)state;
    OK(cag_chat_new(kb, &chat, err));
    OK(cag_chat_ask(chat, QUESTION, strlen(QUESTION), &p, NULL, NULL, &a, err));
    b = ask(kb, QUESTION, CAG_FOCUS_REREAD);
    same_looks(&a, &b);
    before = cag_chat_json(chat);
    assert_non_null(strstr(before, QUESTION));
    /* what is stopped before it is decided was not said */
    assert_int_equal(
        cag_chat_ask(chat, "And when?", 9, &p, poll_twice, &left, &c, why),
        CAG_E_CANCELLED);
    cag_answer_release(&c);
    after = cag_chat_json(chat);
    assert_string_equal(before, after);
    /* a follow-up leads where its question before did */
    OK(cag_chat_ask(chat, "And when?", 9, &p, NULL, NULL, &c, err));
    assert_int_equal(c.looked->n_look, 2);
    assert_true(has_passage(c.looked, "copper"));
    cag_answer_release(&c);
    c = ask(kb, "And when?", CAG_FOCUS_REREAD);
    assert_false(has_passage(c.looked, "copper"));
    cag_answer_release(&a);
    cag_answer_release(&b);
    cag_answer_release(&c);
    cag_free(before);
    cag_free(after);
    cag_chat_free(chat);
}

/* ---------------------------------------------------------------- errors */

static void without_a_cache_there_is_nothing_to_mask(void **state)
{
    cag_ask_params p = params(CAG_FOCUS_MASK), again = params(CAG_FOCUS_REREAD);
    const cag_question q[2] = {
        { .text = "zzz", .size = 3, .params = &p },
        { .text = QUESTION, .size = strlen(QUESTION), .params = &again }
    };
    cag_answer a, b, many[2];
    cag_error error[2];
    cag_kb_opts k;
    cag_kb *cold;

    (void)state;
    cag_kb_opts_init(&k);
    k.engine.device = "cpu";
    k.no_cache = true;
    OK(cag_kb_open(kvc, &k, &cold, err));
    assert_int_equal(
        cag_kb_ask(cold, QUESTION, strlen(QUESTION), &p, NULL, NULL, &a, why),
        CAG_E_UNSUPPORTED);
    assert_non_null(strstr(why->msg, "--focus mask"));
    OK(cag_kb_ask(cold, QUESTION, strlen(QUESTION), &again, NULL, NULL, &a,
                  err));
    b = ask(kb, QUESTION, CAG_FOCUS_REREAD);
    assert_string_equal(a.text, b.text);
    assert_string_equal(a.looked->look[1].text, b.looked->look[1].text);
    /* one that asks for it does not stop the others */
    OK(cag_kb_ask_many(cold, q, 2, 2, many, error, err));
    assert_int_equal(error[0].status, CAG_E_UNSUPPORTED);
    assert_string_equal(many[1].text, a.text);
    cag_answer_release(&many[0]);
    cag_answer_release(&many[1]);
    cag_answer_release(&a);
    cag_answer_release(&b);
    cag_kb_close(cold);
    p.focus = (cag_focus)9;
    assert_int_equal(cag_kb_ask(kb, "x", 1, &p, NULL, NULL, &a, why),
                     CAG_E_USAGE);
}

static void memory_may_run_out(void **state)
{
    cag_ask_params p = params(CAG_FOCUS_AUTO);
    const cag_question q = { .text = QUESTION,
                             .size = strlen(QUESTION),
                             .params = &p };
    bool done = false;
    cag_answer a, want;
    int n_in_turns;

    (void)state;
    p.max_tok = 2;
    OK(cag_kb_ask(kb, QUESTION, strlen(QUESTION), &p, NULL, NULL, &want, err));
    for (int many = 0; many < 2; many++, done = false) {
        n_in_turns = 0;
        FOR_EACH_FAULT(n, done)
        {
            int64_t live = mem_live();
            cag_error e = CAG_ERROR_INIT;
            cag_status st;

            mem_fault(n, false);
            st = many ? cag_kb_ask_many(kb, &q, 1, 2, &a, NULL, &e)
                      : cag_kb_ask(kb, QUESTION, strlen(QUESTION), &p, NULL,
                                   NULL, &a, &e);
            done = fault_missed(n);
            if (st) {
                assert_int_equal(st, CAG_E_NOMEM);
            } else {
                same_looks(&a, &want);
                n_in_turns += !done;
            }
            cag_answer_release(&a);
            assert_int_equal(mem_live(), live);
        }
        /* no memory for two looks at a time is no error */
        assert_in_range(n_in_turns, 3, 99);
    }
    cag_answer_release(&want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passages_are_the_tokens_that_hold_them),
        cmocka_unit_test(reading_again_is_a_cache_of_the_passages),
        cmocka_unit_test(a_masked_look_is_a_view),
        cmocka_unit_test(the_better_supported_answer_is_given),
        cmocka_unit_test(a_later_look_needs_more_to_be_strong),
        cmocka_unit_test(together_or_alone),
        cmocka_unit_test(what_is_certain_begins_at_once),
        cmocka_unit_test(a_crew_has_places_for_looks),
        cmocka_unit_test(who_stops_one_look_stops_all),
        cmocka_unit_test(a_conversation_looks_twice),
        cmocka_unit_test(without_a_cache_there_is_nothing_to_mask),
        cmocka_unit_test(memory_may_run_out),
    };

    return cmocka_run_group_tests_name("focus", tests, begin, end);
}

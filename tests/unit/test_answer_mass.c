/*
 * test_answer_mass.c - what the copy heads look at, as evidence.
 *
 *   - shares go to lines, and to the windows that are made of them
 *   - ranking, confidence and shared words are what line_mass.h says
 *   - with any number of threads, alone or together, as a conversation's first
 *     turn: the same bits
 *   - a cache without heads, heads that are not worth it, no cache: words
 *   - weak is quotes, or more than the null; else none
 *
 * The model is tiny and random: its heads are given, not found.
 */
#include "tests/lib/unit.h"

#include "tests/lib/fault.h"

#include <math.h>

#include <cag/tool/calibrate.h>

#include "ask/kb.h"
#include "ask/support.h"
#include "evidence/evidence.h"
#include "evidence/line_mass.h"
#include "kvc/kvc_attention.h"

static char kvc[64], plain[64];
static cag_error why[1];

static const char *const questions[] = { "Who repaired the copper clock?",
                                         "Which boat is the seventh?",
                                         "Who repaired the copper clock?",
                                         "What was closed on Monday?" };
enum { N_QUESTION = 4 };

/* ---------------------------------------------------------------- numbers */

static const char text[] = "one two three.\nfour five.\n\nsix seven eight.\n"
                           "nine ten.\neleven twelve.\n";

static void shares_go_to_lines(void **state)
{
    static const int32_t of[] = { -1, 0, 0, 1, -1, 3 };
    /* two heads, three rows */
    static const double sum[2][6] = { { 9, .6, .6, 1.2, 9, 0 },
                                      { 9, 0, .6, 0, 9, 3 } };
    double line[6] = { 0 };

    (void)state;
    line_mass_add(line, &sum[0][0], 2, 3, of, 6);
    assert_true(fabs(line[0] - 1.8 / 6) < 1e-15);
    assert_true(fabs(line[1] - 1.2 / 6) < 1e-15);
    assert_true(line[2] == 0 && fabs(line[3] - .5) < 1e-15);
    line_mass_add(line, &sum[0][0], 2, 0, of, 6); /* no row, nothing */
    assert_true(fabs(line[3] - .5) < 1e-15);
}

static void neighbours_share(void **state)
{
    const struct index_text t[] = { { "a\nb\n", 4 }, { "c\n", 2 } };
    const double line[] = { 0, 2, 8 };
    double out[3];
    struct evidence_index *ix;

    (void)state;
    OK(evidence_index_new(t, 2, &ix, err));
    line_mass_shares(ix, line, out);
    /* c is of another source: 1, 2, 8 of 8 */
    assert_true(out[0] == .125 && out[1] == .25 && out[2] == 1);
    evidence_index_free(ix);
}

static void attention_ranks_with_words(void **state)
{
    const struct index_text t = { text, sizeof text - 1 };
    struct evidence_asked a = {
        .question = "two?", .n_question = 4, .answer = "three", .n_answer = 5
    };
    struct evidence_found f;
    struct evidence_index *ix;
    struct line_mass *m;

    (void)state;
    OK(evidence_index_new(&t, 1, &ix, err));
    m = line_mass_new(ix->n_line);
    assert_non_null(m);
    OK(evidence_find(ix, &a, &f, err));
    assert_int_equal(f.window[0].first, 0);
    assert_int_equal(f.window[0].last, 0);
    double words = f.window[0].score;
    int n = f.n_window;
    /* nobody looked anywhere: the words' order */
    a.mass = m;
    OK(evidence_find(ix, &a, &f, err));
    assert_true(f.window[0].first == 0 && f.n_window == n &&
                f.window[0].score == words);
    /* a place without words is found, and kept where it was looked at */
    m->answer[4] = .4;
    m->answer[5] = .1;
    m->answer[0] = .01;
    OK(evidence_find(ix, &a, &f, err));
    assert_true(f.n_window >= 2);
    assert_true(f.window[0].score <= 1 && f.window[0].score > 0);
    bool seen = false;
    for (int i = 0; i < f.n_window; i++)
        seen = seen || (f.window[i].first <= 4 && f.window[i].last >= 5);
    assert_true(seen);
    /* words and attention agree: more than either */
    m->answer[0] = .9;
    OK(evidence_find(ix, &a, &f, err));
    assert_int_equal(f.window[0].first, 0);
    assert_true(f.window[0].score > words - 1e-12);
    line_mass_release(m);
    evidence_index_free(ix);
}

static void figures(void **state)
{
    const struct index_text t = { text, sizeof text - 1 };
    struct evidence_asked a = { .question = "nine?",
                                .n_question = 5,
                                .answer = "nine ten zebra eleven",
                                .n_answer = 21 };
    struct line_mass_figures f;
    struct evidence_index *ix;
    struct line_mass *m;

    (void)state;
    OK(evidence_index_new(&t, 1, &ix, err));
    m = line_mass_new(ix->n_line);
    assert_non_null(m);
    m->answer[3] = .1;
    m->answer[4] = .2;
    m->answer[5] = .3;
    /* "nine" is no new word: its token does not count; a token of two words
     * counts once */
    assert_true(line_mass_add_token(m, 4, -9));
    assert_true(line_mass_add_token(m, 8, -1));
    assert_true(line_mass_add_token(m, 14, -2));
    assert_true(line_mass_add_token(m, 21, -3));
    OK(line_mass_figures(ix, m, &a, &f, err));
    assert_true(fabs(f.peak - .6) < 1e-12);
    assert_true(fabs(f.confidence - exp(-2)) < 1e-12);
    assert_true(fabs(f.shared - 2. / 3) < 1e-12);
    /* no new words: nothing to be sure of */
    a.n_answer = 4;
    OK(line_mass_figures(ix, m, &a, &f, err));
    assert_true(f.confidence == 0 && f.shared == 0);
    line_mass_release(m);
    evidence_index_free(ix);
}

/* ----------------------------------------------------------------- answers */

static void set_heads(const char *path, const cag_kvc_head *head, int n,
                      float null)
{
    cag_kvc_attention a = { .version = 1,
                            .head = head,
                            .n_head = n,
                            .n_line = 12,
                            .n_row = 96,
                            .n_tok = 100,
                            .has_null = null >= 0,
                            .null = null,
                            .quantile = 90,
                            .n_question = 20 };

    memset(a.questions_sha256, 'b', 64);
    OK(kvc_set_attention(path, &a, 0, err));
}

static const cag_kvc_head good[] = { { 1, 2, .5f }, { 0, 1, .25f } };

static int begin(void **state)
{
    struct buf b = BUF_INIT;
    cag_build_opts o;
    char name[64];

    (void)state;
    if (fault_set_up())
        return -1;
    for (int i = 0; i < 60; i++)
        buf_printf(&b,
                   i == 41 ? "Bram repaired the copper clock in June %d.\n"
                           : "Line %d tells of boats and a whale.\n",
                   i);
    buf_char(&b, '\0');
    set_text(b.data);
    buf_free(&b);
    in_dir(kvc, "kb.kvc");
    in_dir(plain, "plain.kvc");
    build_opts(&o, kvc);
    fault_source = (cag_source_spec){ .path = in_dir(name, "docs/b.md") };
    build_ok(&o);
    fault_source = (cag_source_spec){ .path = fault_docs }; /* not name */
    copy_file(kvc, plain);
    return 0;
}

static cag_kb *open_kb(const char *path, int threads, bool no_cache)
{
    cag_kb_opts k;
    cag_kb *out = NULL;

    cag_kb_opts_init(&k);
    k.engine.device = "cpu";
    k.engine.n_thread = threads;
    k.stale = CAG_STALE_IGNORE;
    k.no_cache = no_cache;
    OK(cag_kb_open(path, &k, &out, err));
    return out;
}

static cag_ask_params params(void)
{
    cag_ask_params p;

    cag_ask_params_init(&p);
    p.max_tok = 12;
    p.evidence = true;
    return p;
}

static void ask(cag_kb *kb, const char *q, cag_answer *a)
{
    cag_ask_params p = params();

    OK(cag_kb_ask(kb, q, strlen(q), &p, NULL, NULL, a, err));
}

static void same(const cag_answer *a, const cag_answer *b)
{
    const struct line_mass *x = a->attention, *y = b->attention;

    assert_string_equal(a->text, b->text);
    assert_non_null(x);
    assert_non_null(y);
    assert_int_equal(x->n_line, y->n_line);
    assert_memory_equal(x->question, y->question,
                        x->n_line * sizeof *x->question);
    assert_memory_equal(x->answer, y->answer, x->n_line * sizeof *x->answer);
    assert_int_equal(x->n_token, y->n_token);
    for (size_t i = 0; i < x->n_token; i++)
        assert_true(x->token[i].end == y->token[i].end &&
                    x->token[i].log_p == y->token[i].log_p &&
                    x->token[i].log_p <= 0);
    assert_int_equal(a->checked->n_evidence, b->checked->n_evidence);
    for (int i = 0; i < a->checked->n_evidence; i++) {
        const cag_evidence *e = &a->checked->evidence[i];
        const cag_evidence *f = &b->checked->evidence[i];

        assert_int_equal(e->at.line_from, f->at.line_from);
        assert_int_equal(e->at.line_to, f->at.line_to);
        assert_true(e->score == f->score);
    }
    assert_int_equal(a->checked->support, b->checked->support);
    assert_string_equal(a->checked->by, "words+heads");
    assert_string_equal(b->checked->by, "words+heads");
}

static void together_or_alone_in(const char *path)
{
    static const int threads[] = { 1, 2, 8 };
    cag_answer want[N_QUESTION], got[N_QUESTION];
    cag_ask_params p = params();

    set_heads(path, good, 2, .001f);
    cag_kb *kb = open_kb(path, 1, false);
    assert_string_equal(cag_kb_evidence_by(kb), "words+heads");
    for (int i = 0; i < N_QUESTION; i++) {
        const struct line_mass *m;
        double sum[2] = { 0, 0 };

        ask(kb, questions[i], &want[i]);
        m = want[i].attention;
        assert_int_equal(m->n_line, 60);
        for (size_t l = 0; l < m->n_line; l++) {
            assert_true(m->question[l] >= 0 && m->answer[l] >= 0);
            sum[0] += m->question[l];
            sum[1] += m->answer[l];
        }
        assert_true(sum[0] > 0 && sum[0] <= 1 && sum[1] > 0 && sum[1] <= 1);
    }
    for (int t = 0; t < 3; t++) {
        cag_kb *k = open_kb(path, threads[t], false);
        cag_question q[N_QUESTION];
        cag_chat *c;

        for (int i = 0; i < N_QUESTION; i++)
            q[i] = (cag_question){ .text = questions[i],
                                   .size = strlen(questions[i]),
                                   .params = &p };
        OK(cag_kb_ask_many(k, q, N_QUESTION, 1 + t, got, NULL, err));
        for (int i = 0; i < N_QUESTION; i++) {
            same(&want[i], &got[i]);
            cag_answer_release(&got[i]);
        }
        OK(cag_chat_new(k, &c, err));
        OK(cag_chat_ask(c, questions[0], strlen(questions[0]), &p, NULL, NULL,
                        &got[0], err));
        same(&want[0], &got[0]);
        cag_answer_release(&got[0]);
        cag_chat_free(c);
        p.no_draft = true;
        OK(cag_kb_ask(k, questions[0], strlen(questions[0]), &p, NULL, NULL,
                      &got[0], err));
        same(&want[0], &got[0]);
        cag_answer_release(&got[0]);
        p.no_draft = false;
        cag_kb_close(k);
    }
    for (int i = 0; i < N_QUESTION; i++)
        cag_answer_release(&want[i]);
    cag_kb_close(kb);
}

static void together_or_alone(void **state)
{
    static const char *const codecs[] = { "f16", "f16z", "q8h" };
    char path[64], name[64];

    (void)state;
    in_dir(path, "codec.kvc");
    fault_source = (cag_source_spec){ .path = in_dir(name, "docs/b.md") };
    for (int i = 0; i < 3; i++) {
        cag_build_opts o;

        build_opts(&o, path);
        o.codec = codecs[i];
        o.max_loss = 1;
        build_ok(&o);
        together_or_alone_in(path);
    }
    fault_source = (cag_source_spec){ .path = fault_docs };
}

static void by_words(const char *path, bool no_cache)
{
    cag_kb *kb = open_kb(path, 1, no_cache);
    cag_answer a;

    ask(kb, questions[0], &a);
    assert_null(a.attention);
    assert_string_equal(a.checked->by, "words");
    assert_string_equal(cag_kb_evidence_by(kb), "words");
    cag_answer_release(&a);
    cag_kb_close(kb);
}

static void else_words(void **state)
{
    static const cag_kvc_head poor[] = { { 1, 2, .19f } },
                              alien[] = { { 1, 900, .5f } };
    cag_kb_opts k;
    cag_kb *kb = NULL;

    (void)state;
    by_words(plain, false); /* no heads */
    set_heads(kvc, good, 2, -1);
    by_words(kvc, true); /* the whole prompt is read: no prefix to look at */
    set_heads(kvc, poor, 1, -1);
    by_words(kvc, false); /* a quote mass below .2 */
    set_heads(kvc, alien, 1, -1);
    cag_kb_opts_init(&k);
    k.engine.device = "cpu";
    k.stale = CAG_STALE_IGNORE;
    assert_int_equal(cag_kb_open(kvc, &k, &kb, why), CAG_E_MISMATCH);
    assert_non_null(strstr(why->msg, "section ATTN names heads that the model "
                                     "does not have"));
}

/* Caches on one engine: those of the first one's heads are measured. */
static void one_engine_one_list(void **state)
{
    static const cag_kvc_head other[] = { { 0, 1, .5f }, { 1, 0, .25f } };
    char third[64], fourth[64];
    cag_kb_opts k;
    cag_kb *kb, *same_heads = NULL, *other_heads = NULL;
    cag_answer a, b;

    (void)state;
    set_heads(kvc, good, 2, -1);
    copy_file(kvc, in_dir(third, "third.kvc"));
    copy_file(plain, in_dir(fourth, "fourth.kvc"));
    set_heads(fourth, other, 2, -1);
    kb = open_kb(kvc, 1, false);
    cag_kb_opts_init(&k);
    k.engine.device = "cpu";
    k.engine.n_thread = 1;
    k.stale = CAG_STALE_IGNORE;
    k.with = kb;
    OK(cag_kb_open(third, &k, &same_heads, err));
    OK(cag_kb_open(fourth, &k, &other_heads, err));
    assert_string_equal(cag_kb_evidence_by(same_heads), "words+heads");
    assert_string_equal(cag_kb_evidence_by(other_heads), "words");
    ask(kb, questions[0], &a);
    ask(same_heads, questions[0], &b);
    same(&a, &b);
    cag_answer_release(&a);
    cag_answer_release(&b);
    ask(other_heads, questions[0], &b);
    assert_string_equal(b.checked->by, "words");
    cag_answer_release(&b);
    cag_kb_close(other_heads);
    cag_kb_close(same_heads);
    cag_kb_close(kb);
}

/* ------------------------------------------------------------------ labels */

static cag_support label(cag_kb *kb, const char *q, const char *answer,
                         struct line_mass *m)
{
    const cag_text question = { q, strlen(q), 0 };
    cag_answer a = { .finish = "stop",
                     .text = mem_strdup(answer),
                     .size = strlen(answer),
                     .attention = line_mass_share(m) };
    cag_ask_params p = params();
    cag_support s;

    OK(cag_answer_check(kb, &question, NULL, &p, &a, err));
    s = a.checked->support;
    cag_answer_release(&a);
    return s;
}

static void weak_is_a_quote_or_above_the_null(void **state)
{
    const char *q = "Who mended it?", *right = "Bram in June";
    struct line_mass *m = line_mass_new(60);

    (void)state;
    assert_non_null(m);
    set_heads(kvc, good, 2, .05f);
    cag_kb *kb = open_kb(kvc, 1, false);
    assert_int_equal(label(kb, questions[0], "Bram, in June.", NULL),
                     CAG_SUPPORT_STRONG);
    /* a verbatim quote, asked in other words */
    assert_int_equal(
        label(kb, q, "Bram repaired the copper clock in June 41.", NULL),
        CAG_SUPPORT_WEAK);
    /* half of it is made up, or a number is */
    assert_int_equal(label(kb, q,
                           "Bram repaired the copper clock in June while "
                           "singing softly under yellow umbrellas nearby",
                           NULL),
                     CAG_SUPPORT_NONE);
    assert_int_equal(
        label(kb, q, "Bram repaired the copper clock in June 77.", NULL),
        CAG_SUPPORT_NONE);
    /* too short for a quote: what was looked at decides */
    assert_int_equal(label(kb, q, right, NULL), CAG_SUPPORT_NONE);
    m->answer[41] = .2;
    for (size_t i = 1; i <= strlen(right); i++)
        assert_true(line_mass_add_token(m, i, -1));
    assert_int_equal(label(kb, q, right, m), CAG_SUPPORT_WEAK);
    m->answer[41] = .1; /* .1 / e is below the null */
    assert_int_equal(label(kb, q, right, m), CAG_SUPPORT_NONE);
    m->answer[41] = .2;
    m->answer[7] = .3; /* looked elsewhere, where the words are not */
    assert_int_equal(label(kb, q, right, m), CAG_SUPPORT_NONE);
    m->answer[7] = 0;
    cag_kb_close(kb);
    /* without a null it says nothing */
    set_heads(kvc, good, 2, -1);
    kb = open_kb(kvc, 1, false);
    assert_int_equal(label(kb, q, right, m), CAG_SUPPORT_NONE);
    cag_kb_close(kb);
    line_mass_release(m);
}

/* -------------------------------------------------------------------- null */

static void a_null_of_questions(void **state)
{
    char file[64], name[80];
    cag_calibrate_report r, rows;
    cag_kb_opts k;
    struct buf one = BUF_INIT, two = BUF_INIT;
    cag_kvc *c = NULL;

    (void)state;
    cag_kb_opts_init(&k);
    k.engine.device = "cpu";
    k.engine.n_thread = 1;
    k.stale = CAG_STALE_IGNORE;
    FILE *f = fopen(in_dir(file, "q.txt"), "w");
    assert_non_null(f);
    for (int i = 0; i < 12; i++)
        fprintf(f, "What does line %d tell of?\n%s", i, i % 3 ? "" : "\n");
    assert_int_equal(fclose(f), 0);
    assert_int_equal(cag_calibrate_null(plain, &k, file, 0, &r, why),
                     CAG_E_UNSUPPORTED);
    assert_non_null(strstr(why->msg, "build it with --calibrate heads"));
    set_heads(kvc, good, 2, -1);
    OK(cag_calibrate_null(kvc, &k, file, 0, &r, err));
    assert_false(r.fresh);
    assert_int_equal(r.n_question, 12);
    assert_true(r.null >= 0 && r.null <= 1);
    OK(cag_kvc_open(kvc, &c, err));
    assert_true(cag_kvc_get_attention(c)->has_null);
    assert_true(cag_kvc_get_attention(c)->null == r.null);
    assert_int_equal(cag_kvc_get_attention(c)->n_question, 12);
    cag_kvc_close(c);
    OK(file_read(kvc, 1 << 28, &one, err));
    /* the same questions: nothing to do; asked anew with more threads: the
     * same bytes */
    OK(cag_calibrate_null(kvc, &k, file, 0, &r, err));
    assert_true(r.fresh);
    set_heads(kvc, good, 2, -1);
    k.engine.n_thread = 3;
    OK(cag_calibrate_null(kvc, &k, file, 0, &r, err));
    OK(file_read(kvc, 1 << 28, &two, err));
    assert_int_equal(one.size, two.size);
    assert_memory_equal(one.data, two.data, one.size);
    buf_free(&one);
    buf_free(&two);
    /* rows that say nothing of answers are these questions too; where they say
     * that there is none, the first answer counts */
    f = fopen(in_dir(name, "rows.jsonl"), "w");
    assert_non_null(f);
    for (int i = 0; i < 12; i++)
        fprintf(f, "{\"question\":\"What does line %d tell of?\"}\n", i);
    assert_int_equal(fclose(f), 0);
    OK(cag_calibrate_null(kvc, &k, name, 0, &rows, err));
    assert_false(rows.fresh);
    assert_true(rows.null == r.null);
    /* too few, and none */
    write_text(in_dir(name, "few.txt"), "One?\nTwo?\n");
    assert_int_equal(cag_calibrate_null(kvc, &k, name, 0, &r, why),
                     CAG_E_FORMAT);
    assert_non_null(strstr(why->msg, "2 questions, expected at least 10"));
    write_text(name, "{\"question\": 5}\n");
    assert_int_equal(cag_calibrate_null(kvc, &k, name, 0, &r, why),
                     CAG_E_FORMAT);
    assert_int_equal(cag_calibrate_null(kvc, &k, "/nowhere", 0, &r, why),
                     CAG_E_MISSING);
}

/* Gold answers are what one look says, so that it is right and others are not;
 * AUTO then takes that look, against what the model's size says. */
static void looks_are_compared(void **state)
{
    const cag_ask_params whole = params();
    struct buf one = BUF_INIT, two = BUF_INIT;
    char file[64];

    (void)state;
    for (cag_focus f = CAG_FOCUS_MASK; f <= CAG_FOCUS_REREAD; f++) {
        cag_calibrate_report r;
        cag_ask_params p = whole;
        cag_kb_opts k;
        cag_answer a;
        cag_kvc *c = NULL;

        set_heads(kvc, good, 2, -1);
        cag_kb *kb = open_kb(kvc, 1, false);
        FILE *gold = fopen(in_dir(file, "gold.jsonl"), "w");
        assert_non_null(gold);
        p.max_tok = 48; /* as calibrate.c asks */
        p.focus = f;
        for (int i = 0; i < 12; i++) {
            char q[64];
            struct buf row = BUF_INIT;
            jv *o = jv_new_object(), *answers = jv_new_array();

            snprintf(q, sizeof q, "What does line %d tell of?", i);
            OK(cag_kb_ask(kb, q, strlen(q), &p, NULL, NULL, &a, err));
            assert_int_equal(a.looked->n_look, 2);
            assert_string_not_equal(a.looked->look[0].text,
                                    a.looked->look[1].text);
            assert_true(jv_set_str(o, "question", q));
            assert_true(
                jv_append(answers, jv_new_str(a.looked->look[1].text,
                                              strlen(a.looked->look[1].text))));
            assert_true(jv_set(o, "answers", answers));
            jv_dump(o, &row);
            buf_char(&row, 0);
            fprintf(gold, "%s\n", (char *)row.data);
            buf_free(&row);
            jv_free(o);
            cag_answer_release(&a);
        }
        fputs("{\"question\":\"Who is king?\",\"answers\":[]}\n", gold);
        assert_int_equal(fclose(gold), 0);
        cag_kb_close(kb);

        cag_kb_opts_init(&k);
        k.engine.device = "cpu";
        k.engine.n_thread = 1;
        k.stale = CAG_STALE_IGNORE;
        OK(cag_calibrate_null(kvc, &k, file, 0, &r, err));
        assert_int_equal(r.n_question, 13);
        assert_int_equal(r.n_answerable, 12);
        assert_int_equal(f == CAG_FOCUS_MASK ? r.n_mask : r.n_reread, 12);
        assert_true((f == CAG_FOCUS_MASK ? r.n_reread : r.n_mask) < 12);
        assert_true(r.n_whole < 12);
        OK(cag_kvc_open(kvc, &c, err));
        const cag_kvc_attention *x = cag_kvc_get_attention(c);
        assert_true(x->has_looks && x->n_mask == r.n_mask &&
                    x->n_reread == r.n_reread && x->n_whole == r.n_whole &&
                    x->n_answerable == 12);
        cag_kvc_close(c);

        kb = open_kb(kvc, 1, false);
        p.focus = CAG_FOCUS_AUTO;
        kb->is_small = f == CAG_FOCUS_MASK;
        OK(cag_kb_ask(kb, questions[0], strlen(questions[0]), &p, NULL, NULL,
                      &a, err));
        assert_true(a.looked->n_look >= 2);
        assert_int_equal(a.looked->look[1].from, f);
        cag_answer_release(&a);
        cag_kb_close(kb);

        /* the same bytes with more threads */
        OK(file_read(kvc, 1 << 28, &one, err));
        set_heads(kvc, good, 2, -1);
        k.engine.n_thread = 3;
        OK(cag_calibrate_null(kvc, &k, file, 0, &r, err));
        OK(file_read(kvc, 1 << 28, &two, err));
        assert_int_equal(one.size, two.size);
        assert_memory_equal(one.data, two.data, one.size);
        buf_free(&one);
        buf_free(&two);
    }
}

static void memory_may_run_out(void **state)
{
    cag_ask_params p = params();
    bool done = false;
    cag_answer a;

    (void)state;
    p.max_tok = 2;
    set_heads(kvc, good, 2, .01f);
    cag_kb *kb = open_kb(kvc, 1, false);
    ask(kb, questions[0], &a); /* the index is made */
    cag_answer_release(&a);
    FOR_EACH_FAULT(n, done)
    {
        int64_t live = mem_live();
        cag_status st;

        mem_fault(n, false);
        st = cag_kb_ask(kb, questions[0], strlen(questions[0]), &p, NULL, NULL,
                        &a, why);
        done = fault_missed(n);
        if (st)
            assert_int_equal(st, CAG_E_NOMEM);
        cag_answer_release(&a);
        assert_int_equal(mem_live(), live);
    }
    cag_kb_close(kb);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_go_to_lines),
        cmocka_unit_test(neighbours_share),
        cmocka_unit_test(attention_ranks_with_words),
        cmocka_unit_test(figures),
        cmocka_unit_test(together_or_alone),
        cmocka_unit_test(else_words),
        cmocka_unit_test(one_engine_one_list),
        cmocka_unit_test(weak_is_a_quote_or_above_the_null),
        cmocka_unit_test(a_null_of_questions),
        cmocka_unit_test(looks_are_compared),
        cmocka_unit_test(memory_may_run_out),
    };

    return cmocka_run_group_tests_name("answer_mass", tests, begin,
                                       fault_tear_down);
}

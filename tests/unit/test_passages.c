/*
 * test_passages.c - where a question leads.
 */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "passage/passages.h"
#include "util/buf.h"
#include "util/file.h"
#include "util/json.h"
#include "util/text.h"

static void find(const struct evidence_index *ix, const char *question,
                 const char *before, const double *extra, struct passages *out)
{
    const struct passages_asked a = {
        question, before,     strlen(question), before ? strlen(before) : 0,
        extra,    PASSAGE_MAX
    };

    OK(passages_find(ix, &a, out, err));
    for (int i = 0; i < out->n; i++) {
        const struct passage *p = &out->at[i];

        assert_true(p->from < p->to && p->to <= ix->text[p->source].size);
        assert_true(p->to - p->from <= PASSAGE_BYTES);
        if (i > 0)
            assert_true(p[-1].source < p->source ||
                        (p[-1].source == p->source && p[-1].to <= p->from));
    }
}

static bool holds(const struct evidence_index *ix, const struct passages *ps,
                  const char *text)
{
    for (int i = 0; i < ps->n; i++)
        if (memmem(ix->text[ps->at[i].source].text + ps->at[i].from,
                   ps->at[i].to - ps->at[i].from, text, strlen(text)))
            return true;
    return false;
}

/* ------------------------------------------------------------ small texts */

static struct evidence_index *index_of(const char *const *text, int n,
                                       struct index_text *t)
{
    struct evidence_index *ix;

    for (int i = 0; i < n; i++)
        t[i] = (struct index_text){ text[i], strlen(text[i]) };
    OK(evidence_index_new(t, n, &ix, err));
    return ix;
}

static void lines_around_the_best(void **state)
{
    static const char *const text[] = {
        "one.\ntwo.\nthree.\nthe copper clock.\nfive.\nsix.\nseven.\neight.\n",
        "nine\nten\neleven",
    };
    struct index_text t[2];
    struct evidence_index *ix = index_of(text, 2, t);
    struct passages ps;

    (void)state;
    find(ix, "Which copper clock?", NULL, NULL, &ps);
    assert_int_equal(ps.n, 1);
    assert_true(
        holds(ix, &ps, "two.\nthree.\nthe copper clock.\nfive.\nsix.\n"));
    assert_false(holds(ix, &ps, "one"));
    assert_false(holds(ix, &ps, "seven"));
    /* a source's first and last lines; the sources stay apart */
    find(ix, "one nine eleven", NULL, NULL, &ps);
    assert_int_equal(ps.n, 2);
    assert_true(holds(ix, &ps, "one.\ntwo.\nthree.\n"));
    assert_true(holds(ix, &ps, "nine\nten\neleven"));
    OK(passages_find(ix,
                     &(struct passages_asked){ .question = "one nine eleven",
                                               .n_question = 15,
                                               .most = 1 },
                     &ps, err));
    assert_int_equal(ps.n, 1);
    /* nothing of the question is there, or the question before has it */
    find(ix, "zzz", NULL, NULL, &ps);
    assert_int_equal(ps.n, 0);
    find(ix, "zzz", "And copper?", NULL, &ps);
    assert_true(holds(ix, &ps, "the copper clock"));
    evidence_index_free(ix);
}

static void the_caller_may_know_better(void **state)
{
    static const char *const text[] = {
        "clock a\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\nclock d\n"
    };
    struct index_text t[1];
    struct evidence_index *ix = index_of(text, 1, t);
    double extra[18] = { 0 };
    struct passages ps;

    (void)state;
    extra[11] = 1e-3; /* only the share of the most counts */
    find(ix, "clock", NULL, extra, &ps);
    assert_int_equal(ps.n, 3);
    assert_true(holds(ix, &ps, "10\n11\n12\n13\n14\n"));
    extra[11] = 0;
    find(ix, "clock", NULL, extra, &ps);
    assert_false(holds(ix, &ps, "\n12\n"));
    evidence_index_free(ix);
}

/* Lines that are paragraphs: fewer of them, or a sentence of one. */
static void long_lines_are_cut(void **state)
{
    struct buf b = BUF_INIT;
    struct index_text t[1];
    struct evidence_index *ix;
    struct passages ps;
    const char *text;

    (void)state;
    for (int line = 0; line < 5; line++) {
        for (int i = 0; i < 12; i++)
            buf_printf(&b, "Sentence %d of line %d is no help at all. ", i,
                       line);
        if (line == 2)
            buf_str(&b, "The copper clock is \xC3\xA9lsewhere. ");
        buf_str(&b, "\n");
    }
    for (int i = 0; i < 300; i++)
        buf_str(&b, "w\xC3\xA9 ");
    buf_str(&b, "zebra\n");
    buf_char(&b, '\0');
    text = b.data;
    ix = index_of(&text, 1, t);
    find(ix, "copper clock", NULL, NULL, &ps);
    assert_int_equal(ps.n, 1);
    assert_true(holds(ix, &ps, "The copper clock"));
    assert_false(holds(ix, &ps, "of line 4"));
    find(ix, "zebra", NULL, NULL, &ps); /* cut at a character's end */
    assert_int_equal(ps.n, 1);
    assert_in_range(ps.at[0].to - ps.at[0].from, PASSAGE_BYTES - 3,
                    PASSAGE_BYTES);
    assert_true(
        utf8_valid(text + ps.at[0].from, ps.at[0].to - ps.at[0].from, NULL));
    find(ix, "line 2 copper line 3 help sentence 7", NULL, NULL, &ps);
    assert_int_equal(ps.n, 3);
    evidence_index_free(ix);
    buf_free(&b);
}

static void memory_may_run_out(void **state)
{
    static const char *const text[] = { "a clock\nb\nc\nd\n" };
    const struct passages_asked a = { .question = "clock",
                                      .n_question = 5,
                                      .most = 3 };
    struct index_text t[1];
    struct evidence_index *ix = index_of(text, 1, t);
    bool done = false;

    (void)state;
    FOR_EACH_FAULT(n, done)
    {
        int64_t live = mem_live();
        struct passages ps;
        cag_status st;

        mem_fault(n, false);
        st = passages_find(ix, &a, &ps, NULL);
        done = fault_missed(n);
        assert_int_equal(st, done ? CAG_OK : CAG_E_NOMEM);
        assert_int_equal(mem_live(), live);
    }
    evidence_index_free(ix);
}

/* ----------------------------------------------------------------- the FAQ */

static char *next_row(char **at, char *end, jv **row)
{
    char *s = *at, *nl = s < end ? memchr(s, '\n', (size_t)(end - s)) : NULL;

    if (!nl)
        return NULL;
    OK(jv_parse(s, (size_t)(nl - s), NULL, row, err));
    *at = nl + 1;
    return s;
}

/* Passages hold the answer's first line for nearly all questions. */
static void the_faq(void **state)
{
    struct buf text = BUF_INIT, gold = BUF_INIT;
    struct evidence_index *ix;
    struct index_text t;
    int n = 0, n_held = 0;
    char *at;
    jv *row;

    (void)state;
    OK(file_read("tests/golden/qa/xzfaq.txt", 1 << 20, &text, err));
    OK(file_read("tests/golden/qa/xzfaq.jsonl", 1 << 20, &gold, err));
    t = (struct index_text){ text.data, text.size };
    OK(evidence_index_new(&t, 1, &ix, err));
    at = gold.data;
    while (next_row(&at, gold.data + gold.size, &row)) {
        int64_t line = jv_int(jv_at(jv_get(row, "lines"), 0), 0) - 1;
        struct passages ps;

        find(ix, jv_get_str(row, "question", ""), NULL, NULL, &ps);
        n += line >= 0;
        for (int i = 0; i < ps.n && line >= 0; i++)
            n_held += ix->line[line].off >= ps.at[i].from &&
                      ix->line[line].off < ps.at[i].to;
        jv_free(row);
    }
    print_message("passages hold the answers to %d of %d questions\n", n_held,
                  n);
    assert_int_equal(n, 28);
    assert_true(n_held >= 25);
    evidence_index_free(ix);
    buf_free(&text);
    buf_free(&gold);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_around_the_best),
        cmocka_unit_test(the_caller_may_know_better),
        cmocka_unit_test(long_lines_are_cut),
        cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(the_faq),
    };

    return cmocka_run_group_tests_name("passages", tests, NULL, NULL);
}

/*
 * test_evidence_words.c - words, sentences, windows, and which of them hold
 * an answer up.
 */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "evidence/evidence.h"
#include "evidence/words.h"
#include "util/buf.h"
#include "util/file.h"

static cag_status join(void *ctx, const struct word *w, cag_error *err)
{
    struct buf *b = ctx;

    (void)err;
    if (b->size)
        buf_char(b, '|');
    buf_add(b, w->text, w->size);
    return CAG_OK;
}

static void expect_words(const char *text, const char *want)
{
    struct buf b = BUF_INIT;

    assert_int_equal(words_each(text, strlen(text), join, &b, NULL), CAG_OK);
    assert_string_equal(b.data ? b.data : "", want);
    buf_free(&b);
}

static void words_lose_case_and_one_ending(void **state)
{
    (void)state;
    expect_words("Words, words; asked THE asking", "word|word|ask|the|ask");
    expect_words("bed is his glass flies", "bed|is|his|glas|fli");
    expect_words("", "");
    expect_words(" ... -- ' / ", "");
    /* what joins words does not end one, and is not its end */
    expect_words("Igor's file. (don't) end-", "igor|file|don't|don|end");
    expect_words("don\xE2\x80\x99t", "don't|don");
}

static void identifiers_come_in_parts(void **state)
{
    (void)state;
    expect_words("xz-utils max_tokens", "xz-util|xz|util|max_token|max|token");
    expect_words("maxTokens", "maxtoken|max|token");
    expect_words("XZ_DEFAULTS", "xz_default|xz|default");
    expect_words("/etc/passwd.conf", "etc/passwd.conf|etc|passwd|conf");
    /* numbers are one thing */
    expect_words("5.2.1 2021-03-12 1,024 1,2 10,0000",
                 "5.2.1|2021-03-12|1024|1|2|10|0000");
    expect_words("xz-5.2.1", "xz-5.2.1|xz|5.2.1");
    expect_words("LZ77", "lz77");
}

static void words_are_not_only_ascii(void **state)
{
    (void)state;
    expect_words("Ärger über ÉTÉ", "ärger|über|été");
    /* the same word, composed or not */
    expect_words("e\xCC\x81t\xC3\xA9 \xC3\x89t\x65\xCC\x81",
                 "\xC3\xA9t\xC3\xA9|\xC3\xA9t\xC3\xA9");
    expect_words("Привет, МИР!", "привет|мир");
    expect_words("Ελλάδα \xD9\xA3", "ελλάδα|\xD9\xA3");
    expect_words("हिन्दी", "हिन्दी");
}

static void scripts_without_blanks_are_pairs(void **state)
{
    (void)state;
    expect_words("知識庫", "知識|識庫");
    expect_words("水", "水");
    expect_words("使用xz工具。", "使用|xz|工具");
    expect_words("カタカナ", "カタ|タカ|カナ");
    expect_words("한국어", "한국|국어");
    expect_words("ไทย", "ไท|ทย");
    expect_words("𠀀𠀁", "𠀀𠀁");
}

static cag_status bounded(void *ctx, const struct word *w, cag_error *err)
{
    size_t *n = ctx;

    (void)err;
    assert_true(w->size > 0 && w->size <= WORD_MAX + 4);
    assert_true(w->from < w->to);
    *n += w->to - w->from;
    return CAG_OK;
}

static void long_words_are_cut(void **state)
{
    char s[5000];
    size_t n = 0;

    (void)state;
    memset(s, 'x', sizeof s);
    assert_int_equal(words_each(s, sizeof s, bounded, &n, NULL), CAG_OK);
    assert_int_equal(n, sizeof s);
}

/* Sentences of text, trimmed, one a '|'. */
static void expect_sentences(const char *text, const char *want)
{
    struct index_text t = { text, strlen(text) };
    struct evidence_index *ix;
    struct buf b = BUF_INIT;

    assert_int_equal(evidence_index_new(&t, 1, &ix, NULL), CAG_OK);
    for (size_t i = 0; i < ix->n_sentence; i++) {
        if (i)
            buf_char(&b, '|');
        buf_add(&b, text + ix->sentence[i].from,
                ix->sentence[i].to - ix->sentence[i].from);
    }
    assert_string_equal(b.data ? b.data : "", want);
    buf_free(&b);
    evidence_index_free(ix);
}

static void sentences_end_where_people_end_them(void **state)
{
    (void)state;
    expect_sentences("One. Two! Is 3.5 x?\nFour", "One.|Two!|Is 3.5 x?|Four");
    expect_sentences("He said \"go.\" Then", "He said \"go.\"|Then");
    expect_sentences("over\ntwo lines\n\nnext", "over\ntwo lines|next");
    expect_sentences("over\r\n\r\nnext\r\n", "over|next");
    expect_sentences("# Head\n- a\n- b\n1. c\n2. d",
                     "# Head|- a|- b|1. c|2. d");
    expect_sentences("| a | b |\n| c | d |", "| a | b ||| c | d |");
    expect_sentences("我是。你是！", "我是。|你是！");
    expect_sentences("", "");
    expect_sentences(" \n\n \n", "");
}

/* The words of sentences and lines are all the words, once. */
static void lines_and_sentences_share_the_words(void **state)
{
    static const char text[] = "One two. Three\nfour five.\n\n- six seven\n";
    struct index_text t[] = { { text, sizeof text - 1 },
                              { "", 0 },
                              { "eight", 5 } };
    struct evidence_index *ix;
    uint32_t at = 0;

    (void)state;
    assert_int_equal(evidence_index_new(t, 3, &ix, NULL), CAG_OK);
    assert_int_equal(ix->n_word, 8);
    assert_int_equal(ix->n_line, 5);
    assert_int_equal(ix->n_sentence, 4);
    for (size_t i = 0; i < ix->n_sentence; i++) {
        assert_int_equal(ix->sentence[i].word, at);
        at = ix->sentence[i].end;
    }
    assert_int_equal(at, ix->n_word);
    assert_int_equal(ix->sentence[1].line, 0);
    assert_int_equal(ix->sentence[1].last, 1);
    assert_int_equal(ix->sentence[3].line, 4);
    assert_int_equal(ix->line[4].source, 2);
    assert_int_equal(ix->first_line[1], 4);
    assert_int_equal(ix->first_line[2], 4);
    /* a window crosses one blank line, no end of a source */
    assert_int_equal(ix->n_window, 4);
    assert_int_equal(ix->window[0].n, 3);
    assert_int_equal(ix->window[0].line[2], 3);
    assert_int_equal(ix->window[2].n, 1);
    evidence_index_free(ix);
}

static void expect_best(const char *text, const char *question,
                        const char *before, const char *answer, int first,
                        int last)
{
    struct index_text t = { text, strlen(text) };
    struct evidence_asked a = { question,
                                before,
                                answer,
                                strlen(question),
                                before ? strlen(before) : 0,
                                strlen(answer),
                                NULL };
    struct evidence_found f;
    struct evidence_index *ix;

    assert_int_equal(evidence_index_new(&t, 1, &ix, NULL), CAG_OK);
    assert_int_equal(evidence_find(ix, &a, &f, NULL), CAG_OK);
    assert_true(f.n_window >= 1);
    assert_int_equal(f.window[0].first + 1, first);
    assert_int_equal(f.window[0].last + 1, last);
    assert_true(f.window[0].score > 0 && f.window[0].score <= 1);
    assert_true(f.q2n >= 0 && f.q2n <= 1);
    for (int i = 1; i < f.n_window; i++) {
        assert_true(f.window[i].score >= EVIDENCE_FLOOR * f.window[0].score);
        assert_true(f.window[i].score <= f.window[i - 1].score);
        for (int j = 0; j < i; j++)
            assert_true(f.window[i].last < f.window[j].first ||
                        f.window[i].first > f.window[j].last);
    }
    evidence_index_free(ix);
}

/* A place with one word of five has little to do with an answer whose place has
 * them all; one with four has. */
static void what_falls_far_behind_is_no_evidence(void **state)
{
    static const char apart[] = "Bram repaired the copper clock.\n\n\n\n"
                                "Bram sells apples.\n\n\n\n"
                                "Ada repaired the copper clock.\n";
    const struct index_text t = { apart, sizeof apart - 1 };
    struct evidence_asked a = { .question = "Who repaired the copper clock?",
                                .n_question = 30,
                                .answer = "Bram",
                                .n_answer = 4 };
    struct evidence_found f;
    struct evidence_index *ix;

    (void)state;
    assert_int_equal(evidence_index_new(&t, 1, &ix, NULL), CAG_OK);
    assert_int_equal(evidence_find(ix, &a, &f, NULL), CAG_OK);
    assert_int_equal(f.n_window, 2);
    assert_int_equal(f.window[0].first, 0);
    assert_int_equal(f.window[1].first, 8);
    /* where that is all there is, it is shown */
    a.question = "Who sells?";
    a.n_question = 10;
    a.answer = "Nobody";
    a.n_answer = 6;
    assert_int_equal(evidence_find(ix, &a, &f, NULL), CAG_OK);
    assert_int_equal(f.n_window, 1);
    assert_int_equal(f.window[0].first, 4);
    evidence_index_free(ix);
}

static const char rules[] = "The library opens at nine.\n"
                            "It closes at six on weekdays.\n"
                            "Cats are welcome.\n"
                            "\n"
                            "\n"
                            "Badges are printed at the desk.\n"
                            "A lost badge costs ten euros.\n"
                            "Ask Mara for a new one.\n"
                            "\n"
                            "\n"
                            "The fire drill is in March.\n";

static void the_lines_of_the_answer_come_first(void **state)
{
    (void)state;
    expect_best(rules, "What does a lost badge cost?", NULL, "Ten euros.", 7,
                7);
    expect_best(rules, "When is the fire drill?", NULL, "In March", 11, 11);
    /* a follow-up is understood with the question before it */
    expect_best(rules, "Where?", "Who prints the badges?", "at the desk", 6, 6);
    expect_best("知識庫是本地的。\n\n\n快取檔案儲存在磁碟上。\n",
                "快取檔案在哪裡？", NULL, "在磁碟上", 4, 4);
}

static double q2n_of(const char *text, const char *question, const char *before,
                     const char *answer)
{
    struct index_text t = { text, strlen(text) };
    struct evidence_asked a = { question,
                                before,
                                answer,
                                strlen(question),
                                before ? strlen(before) : 0,
                                strlen(answer),
                                NULL };
    struct evidence_found f;
    struct evidence_index *ix;

    assert_int_equal(evidence_index_new(&t, 1, &ix, NULL), CAG_OK);
    assert_int_equal(evidence_find(ix, &a, &f, NULL), CAG_OK);
    evidence_index_free(ix);
    return f.q2n;
}

static void support_is_of_new_words_in_the_questions_sentence(void **state)
{
    const char *q = "What does a lost badge cost?";

    (void)state;
    assert_true(q2n_of(rules, q, NULL, "It costs ten euros.") > 0.1);
    /* new words that the sentence does not have, or none at all */
    assert_true(q2n_of(rules, q, NULL, "Forty dollars") == 0);
    assert_true(q2n_of(rules, q, NULL, "A lost badge costs.") == 0);
    assert_true(q2n_of(rules, q, NULL, "") == 0);
    /* asked about something else */
    assert_true(q2n_of(rules, "Who painted the ceiling?", NULL, "Mara") < 0.1);
    /* the question before lends its words, and they are not new */
    assert_true(q2n_of(rules, "How many euros?", q, "ten euros") >
                q2n_of(rules, "How many euros?", NULL, "ten euros"));
    assert_true(q2n_of(rules, "So?", q, "A lost badge costs") == 0);
    /* nothing to stand on */
    assert_true(q2n_of("", q, NULL, "ten") == 0);
}

static void no_memory_is_told(void **state)
{
    struct index_text t = { rules, sizeof rules - 1 };
    struct evidence_asked a = {
        "lost badge?", "before e\xCC\x81", "ten", 11, 9, 3, NULL
    };
    bool done = false;

    (void)state;
    FOR_EACH_FAULT(n, done)
    {
        struct evidence_index *ix = NULL;
        struct evidence_found f;
        int64_t live = mem_live();
        cag_status st;

        mem_fault(n, true);
        st = evidence_index_new(&t, 1, &ix, NULL);
        if (!st)
            st = evidence_find(ix, &a, &f, NULL);
        done = fault_missed(n);
        assert_int_equal(st, done ? CAG_OK : CAG_E_NOMEM);
        evidence_index_free(ix);
        assert_int_equal(mem_live(), live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_lose_case_and_one_ending),
        cmocka_unit_test(identifiers_come_in_parts),
        cmocka_unit_test(words_are_not_only_ascii),
        cmocka_unit_test(scripts_without_blanks_are_pairs),
        cmocka_unit_test(long_words_are_cut),
        cmocka_unit_test(sentences_end_where_people_end_them),
        cmocka_unit_test(lines_and_sentences_share_the_words),
        cmocka_unit_test(the_lines_of_the_answer_come_first),
        cmocka_unit_test(what_falls_far_behind_is_no_evidence),
        cmocka_unit_test(support_is_of_new_words_in_the_questions_sentence),
        cmocka_unit_test(no_memory_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

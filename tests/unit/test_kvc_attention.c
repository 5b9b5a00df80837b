/*
 * test_kvc_attention.c - the section ATTN: what is written is read, nothing
 * else is believed; a null can be put into a finished file.
 */
#include "tests/lib/kvc_test.h"

#include "kvc/kvc_attention.h"

static struct buf with_heads(const char *codec, int n_thread)
{
    struct fix f = fix_default(codec);
    struct buf b;

    f.attention = true;
    fix_init(&f);
    b = written(&f, n_thread);
    fix_free(&f);
    return b;
}

static cag_kvc_attention with_null(const cag_kvc_attention *a)
{
    cag_kvc_attention x = *a;

    x.has_null = true;
    x.null = 0.0625f;
    x.quantile = 90;
    x.n_question = 24;
    memset(x.questions_sha256, 'a', 64);
    x.questions_sha256[64] = 0;
    x.has_looks = true;
    x.n_answerable = 20;
    x.n_whole = 6;
    x.n_mask = 1;
    x.n_reread = 11;
    return x;
}

static void written_is_read(void **state)
{
    (void)state;
    for (int i = 0; i < N_CODEC; i++) {
        struct buf b = with_heads(codecs[i], 1), c = with_heads(codecs[i], 3);
        const cag_kvc_attention *a;
        cag_kvc_section last;
        cag_kvc *k = NULL;
        cag_error err = CAG_ERROR_INIT;

        assert_int_equal(b.size, c.size);
        assert_memory_equal(b.data, c.data, b.size);
        assert_int_equal(fix_try(b.data, b.size, true, NULL), CAG_OK);
        assert_int_equal(kvc_parse(b.data, b.size, "x.kvc", &k, &err), CAG_OK);
        a = cag_kvc_get_attention(k);
        assert_non_null(a);
        assert_int_equal(a->version, 1);
        assert_int_equal(a->n_head, 2);
        assert_int_equal(a->head[0].layer, 1);
        assert_int_equal(a->head[0].head, 3);
        assert_true(a->head[0].mass == 0.625f && a->head[1].mass == 0.25f);
        assert_int_equal(a->n_line, 12);
        assert_int_equal(a->n_row, 96);
        assert_int_equal(a->n_tok, 150);
        assert_false(a->has_null);
        cag_kvc_get_section(k, cag_kvc_n_section(k) - 1, &last);
        assert_string_equal(last.name, "ATTN");
        assert_false(last.required);
        cag_kvc_close(k);
        buf_free(&b);
        buf_free(&c);
        b = make(codecs[i]);
        assert_int_equal(kvc_parse(b.data, b.size, "x.kvc", &k, &err), CAG_OK);
        assert_null(cag_kvc_get_attention(k));
        cag_kvc_close(k);
        buf_free(&b);
    }
}

/* Heads are no part of what a cache is. */
static void identity_stays(void **state)
{
    (void)state;
    struct buf a = make("f16z"), b = with_heads("f16z", 1);
    cag_kvc *k = NULL, *l = NULL;
    cag_error err = CAG_ERROR_INIT;

    assert_int_equal(kvc_parse(a.data, a.size, "a", &k, &err), CAG_OK);
    assert_int_equal(kvc_parse(b.data, b.size, "b", &l, &err), CAG_OK);
    assert_string_equal(cag_kvc_get_info(k)->content_id,
                        cag_kvc_get_info(l)->content_id);
    assert_string_equal(cag_kvc_get_info(k)->binding,
                        cag_kvc_get_info(l)->binding);
    /* all before the new section is the same but for the header */
    assert_true(b.size == a.size + KVC_PAGE);
    assert_memory_equal((char *)a.data + KVC_PAGE, (char *)b.data + KVC_PAGE,
                        a.size - KVC_PAGE);
    cag_kvc_close(k);
    cag_kvc_close(l);
    buf_free(&a);
    buf_free(&b);
}

static void a_null_is_put_in(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * N_CODEC; i++) {
        const char *codec = codecs[i / 2];
        bool had = i % 2;
        struct buf was = had ? with_heads(codec, 1) : make(codec), is, again;
        static const cag_kvc_head head = { 1, 0, 0.5f };
        cag_kvc_attention a = { .version = 1,
                                .head = &head,
                                .n_head = 1,
                                .n_line = 1,
                                .n_row = 8,
                                .n_tok = 100 },
                          x;
        const cag_kvc_attention *got;
        cag_kvc *k = NULL;
        cag_error err = CAG_ERROR_INIT;

        x = with_null(&a);
        assert_int_equal(kvc_set_attention(path, &x, 0, &err), CAG_OK);
        is = fix_read(path);
        assert_int_equal(fix_try(is.data, is.size, true, &err), CAG_OK);
        assert_int_equal(is.size, was.size + (had ? 0 : KVC_PAGE));
        assert_memory_equal((char *)was.data + KVC_PAGE,
                            (char *)is.data + KVC_PAGE, is.size - 2 * KVC_PAGE);
        assert_int_equal(cag_kvc_open(path, &k, &err), CAG_OK);
        got = cag_kvc_get_attention(k);
        assert_true(got->has_null && got->null == 0.0625f &&
                    got->quantile == 90 && got->n_question == 24);
        assert_string_equal(got->questions_sha256, x.questions_sha256);
        assert_true(got->has_looks && got->n_answerable == 20 &&
                    got->n_whole == 6 && got->n_mask == 1 &&
                    got->n_reread == 11);
        assert_int_equal(got->n_head, 1);
        cag_kvc_close(k);
        /* once more: the same bytes; what no reader takes: none */
        assert_int_equal(kvc_set_attention(path, &x, 0, &err), CAG_OK);
        x.quantile = 101;
        assert_int_equal(kvc_set_attention(path, &x, 0, &err), CAG_E_USAGE);
        assert_non_null(strstr(err.msg, "ATTN: null.quantile"));
        again = fix_read(path);
        assert_int_equal(again.size, is.size);
        assert_memory_equal(again.data, is.data, is.size);
        buf_free(&was);
        buf_free(&is);
        buf_free(&again);
        char lock[512];
        snprintf(lock, sizeof lock, "%s.lock", path);
        unlink(lock);
    }
}

static void recoded_with_it(void **state)
{
    (void)state;
    struct buf plain = with_heads("f16", 1), packed = with_heads("f16z", 1);
    struct buf is;
    char *to = file_join(dir, "b.kvc"), lock[512];
    cag_error err = CAG_ERROR_INIT;

    assert_int_equal(cag_kvc_recode(path, "f16", to, -1, 2, 0, &err), CAG_OK);
    is = fix_read(to);
    assert_int_equal(is.size, plain.size);
    assert_memory_equal(is.data, plain.data, is.size);
    snprintf(lock, sizeof lock, "%s.lock", to);
    unlink(lock);
    unlink(to);
    mem_free(to);
    buf_free(&plain);
    buf_free(&packed);
    buf_free(&is);
}

/* ------------------------------------------------------------------ forged */

static void forge(const char *from, const char *to, const char *text)
{
    struct buf b = with_heads("f16", 1);
    uint8_t *e, *p, *hit;
    size_t n, nf = strlen(from), nt = strlen(to);
    cag_kvc *k = NULL;
    cag_error err = CAG_ERROR_INIT;

    /* with a null, so that all members are there */
    assert_int_equal(cag_kvc_open(path, &k, &err), CAG_OK);
    cag_kvc_attention x = with_null(cag_kvc_get_attention(k));
    assert_int_equal(kvc_set_attention(path, &x, 0, &err), CAG_OK);
    cag_kvc_close(k);
    buf_free(&b);
    b = fix_read(path);
    e = fix_entry(&b, "ATTN");
    p = fix_data(&b, "ATTN");
    n = (size_t)rd_le64(e + 16);
    hit = memmem(p, n, from, nf);
    assert_non_null(hit);
    memmove(hit + nt, hit + nf, n - (size_t)(hit - p) - nf);
    memcpy(hit, to, nt);
    if (nt < nf)
        memset(p + n - nf + nt, 0, nf - nt);
    rd_put64(e + 16, n - nf + nt);
    fix_seal_section(&b, "ATTN");
    expect(&b, CAG_E_FORMAT, text);
    buf_free(&b);
    char lock[512];
    snprintf(lock, sizeof lock, "%s.lock", path);
    unlink(lock);
}

static void forged(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        { "\"heads\":[", "\"heads\":{},\"headz\":[", "an array of 1 to 32" },
        { "\"heads\":", "\"headz\":", "ATTN: heads is missing or wrong" },
        { "\"head\":3", "\"head\":1024", "ATTN: heads[0].head" },
        { "\"head\":3", "\"head\":-1", "ATTN: heads[0].head" },
        { "\"layer\":1", "\"layer\":2",
          "heads[0].layer is missing or wrong, expected an integer in 0..1" },
        { "\"head\":2,\"layer\":0", "\"head\":3,\"layer\":1",
          "heads[1].head is missing or wrong, expected a head once" },
        { "\"3f200000\"", "\"7fc00000\"", "ATTN: heads[0].mass" },
        { "\"3f200000\"", "\"3f800001\"", "an f32 in 0..1" },
        { "\"3f200000\"", "\"bf200000\"", "ATTN: heads[0].mass" },
        { "\"3e800000\"", "\"3f300000\"", "an f32 in 0..0.625" },
        { "\"lines\":12", "\"lines\":0", "ATTN: quotes.lines" },
        { "\"rows\":96", "\"rows\":151", "an integer in 1..150" },
        { "\"tokens\":150", "\"tokens\":151", "ATTN: quotes.tokens" },
        { "\"quotes\":{", "\"quotes\":1,\"quotez\":{",
          "ATTN: quotes is missing or wrong, expected an object" },
        { "\"null\":{", "\"null\":[],\"nulm\":{", "ATTN: null is" },
        { "\"questions\":24", "\"questions\":0", "ATTN: null.questions" },
        { "\"quantile\":90", "\"quantile\":0", "ATTN: null.quantile" },
        { "\"sha256\":\"aa", "\"sha256\":\"Aa", "ATTN: null.sha256" },
        { "\"sha256\":\"aa", "\"sha256\":\"a", "64 hex digits" },
        { "\"3d800000\"", "\"7f800000\"", "ATTN: null.value" },
        { "\"null\":{", "\"nulm\":{",
          "looks is missing or wrong, expected a null of the same questions" },
        { "\"looks\":{", "\"looks\":[],\"lookz\":{", "ATTN: looks is" },
        { "\"answerable\":20", "\"answerable\":25",
          "looks.answerable is missing or wrong, expected an integer in "
          "1..24" },
        { "\"mask\":1", "\"mask\":21", "an integer in 0..20" },
        { "\"reread\":11", "\"reread\":-1", "ATTN: looks.reread" },
        { "\"whole\":6", "\"whole\":\"6\"", "ATTN: looks.whole" },
        { "\"version\":1", "\"version\":0", "ATTN: version" },
        { "{\"heads", "{ \"heads", "section ATTN is not canonical JSON" },
        { "{\"heads", "[\"heads", "section ATTN is not JSON" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        forge(cases[i][0], cases[i][1], cases[i][2]);
}

static void damage_is_named(void **state)
{
    (void)state;
    struct buf b = with_heads("f16z", 1);

    *fix_data(&b, "ATTN") ^= 1;
    expect(&b, CAG_E_CORRUPT, "section ATTN is damaged (SHA-256 differs)");
    buf_free(&b);
}

/* A name that a caller may not use for a section of its own. */
static void the_name_is_ours(void **state)
{
    (void)state;
    struct fix f = fix_default("f16");
    struct kvc_desc d;
    struct pool *pool = NULL;
    cag_error err = CAG_ERROR_INIT;

    fix_add_extra(&f, "ATTN", "{}");
    fix_init(&f);
    d = fix_desc(&f);
    assert_int_equal(pool_new(&pool, 1, &err), CAG_OK);
    assert_int_equal(kvc_write(path, &d, -1, pool, &err), CAG_E_USAGE);
    pool_free(pool);
    fix_free(&f);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        T(written_is_read),  T(identity_stays), T(a_null_is_put_in),
        T(recoded_with_it),  T(forged),         T(damage_is_named),
        T(the_name_is_ours),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

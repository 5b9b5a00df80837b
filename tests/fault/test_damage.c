/*
 * test_damage.c - a bit flipped anywhere, or a file cut anywhere, is noticed
 * before its bytes are used: by whoever asks, as by the full check; and the
 * message says where.
 */
#include "tests/lib/unit.h"

#include "tests/lib/fault.h"

#include <fcntl.h>

#include "kvc/kvc_format.h"
#include "kvc/kvc_impl.h"

#define FLIPS 300 /* of each codec */

static char kb[64], plain[64], model[] = FAULT_MODEL;

static uint32_t rnd(uint64_t *s)
{
    *s = *s * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*s >> 33);
}

static void flip(int fd, uint64_t off, int bit)
{
    uint8_t b;

    assert_int_equal(pread(fd, &b, 1, (off_t)off), 1);
    b = (uint8_t)(b ^ 1u << bit);
    assert_int_equal(pwrite(fd, &b, 1, (off_t)off), 1);
}

/* What cag-ask does; the answer itself is of no interest. */
static cag_status ask(const char *path, cag_error *err)
{
    cag_kb_opts o;
    cag_ask_params p;
    cag_answer a;
    cag_kb *k = NULL;
    cag_status st;

    cag_kb_opts_init(&o);
    cag_ask_params_init(&p);
    o.model = model;
    o.stale = CAG_STALE_IGNORE;
    o.engine.device = "cpu";
    o.engine.n_thread = 1;
    p.max_tok = 1;
    st = cag_kb_open(path, &o, &k, err);
    if (!st) {
        st = cag_kb_ask(k, "Who?", 4, &p, NULL, NULL, &a, err);
        cag_answer_release(&a);
    }
    cag_kb_close(k);
    return st;
}

/* What cag-inspect -t does. */
static cag_status verify(const char *path, cag_error *err)
{
    cag_kvc *k = NULL;
    cag_status st = cag_kvc_open(path, &k, err);

    if (!st)
        st = cag_kvc_verify(k, 1, NULL, NULL, err);
    cag_kvc_close(k);
    return st;
}

/* Refused as damaged, and the message names the part. */
static void refused(cag_status st, const cag_error *err, const char *part,
                    uint64_t off, int bit, const char *by)
{
    bool head = !strcmp(part, "header");

    if (st != CAG_E_CORRUPT &&
        !(head && (st == CAG_E_FORMAT || st == CAG_E_UNSUPPORTED)))
        fail_msg("byte %llu bit %d in %s: %s says %s: %s",
                 (unsigned long long)off, bit, part, by, cag_status_name(st),
                 err->msg);
    if (!head && !strstr(err->msg, part))
        fail_msg("byte %llu bit %d in %s: %s says: %s", (unsigned long long)off,
                 bit, part, by, err->msg);
}

static void flip_and_try(int fd, uint64_t off, int bit, const char *part)
{
    cag_error err = CAG_ERROR_INIT;
    cag_status st;

    flip(fd, off, bit);
    st = ask(kb, &err);
    refused(st, &err, part, off, bit, "ask");
    err = (cag_error)CAG_ERROR_INIT;
    st = verify(kb, &err);
    refused(st, &err, part, off, bit, "verify");
    flip(fd, off, bit);
}

static void make(const char *codec)
{
    cag_build_opts o;

    build_opts(&o, kb);
    o.codec = codec;
    o.force = true;
    build_ok(&o);
}

/* A stored byte of a chunk: what lies between two is padding. */
static uint64_t kv_byte(const cag_kvc *k, uint64_t *seed)
{
    const struct kvc_shape *s = kvc_get_shape(k);
    struct kvc_chunk_ref r;

    kvc_chunk_ref(k, (int)(rnd(seed) % (uint32_t)s->n_layer),
                  (int)(rnd(seed) % (uint32_t)kvc_n_chunk(s)), &r);
    return r.off + rnd(seed) % r.n_stored;
}

/* Header, small sections and KV take turns. */
static void flips(void **state)
{
    const char *codec = *state;
    cag_kvc_section s[KVC_MAX_SECTION];
    cag_error err = CAG_ERROR_INIT;
    uint64_t seed = (uint64_t)codec[1] * 7919 + strlen(codec);
    cag_kvc *k;
    int n, fd;

    make(codec);
    assert_int_equal(cag_kvc_open(kb, &k, &err), CAG_OK);
    n = cag_kvc_n_section(k);
    for (int i = 0; i < n; i++)
        cag_kvc_get_section(k, i, &s[i]);
    fd = open(kb, O_RDWR);
    assert_true(fd >= 0);
    for (int i = 0; i < FLIPS; i++) {
        int which = i % (n + 3), bit = (int)(rnd(&seed) % 8);
        char part[32] = "header";
        uint64_t off = rnd(&seed) % KVC_PAGE;

        if (which > 0) {
            /* KV is most of a file: it gets what is over */
            const cag_kvc_section *at = &s[which > n ? n - 1 : which - 1];

            snprintf(part, sizeof part, "section %s", at->name);
            off = strcmp(at->name, "KV") ? at->off + rnd(&seed) % at->size_bytes
                                         : kv_byte(k, &seed);
        }
        flip_and_try(fd, off, bit, part);
    }
    cag_kvc_close(k);
    /* all of it undone: the file is good again */
    assert_int_equal(ask(kb, &err), CAG_OK);
    assert_int_equal(verify(kb, &err), CAG_OK);
    close(fd);
}

/* Padding is read by nobody, so only the full check looks at it. */
static void padding(void **state)
{
    cag_kvc_section s, next;
    cag_error err = CAG_ERROR_INIT;
    cag_kvc *k;
    int fd, tried = 0;
    uint8_t more[16] = { 0 };
    struct stat sb;

    (void)state;
    make("f16z");
    assert_int_equal(cag_kvc_open(kb, &k, &err), CAG_OK);
    fd = open(kb, O_RDWR);
    for (int i = 0; i + 1 < cag_kvc_n_section(k); i++) {
        char part[32];
        uint64_t end;

        cag_kvc_get_section(k, i, &s);
        cag_kvc_get_section(k, i + 1, &next);
        end = s.off + s.size_bytes;
        if (end == next.off)
            continue;
        snprintf(part, sizeof part, "section %s", s.name);
        for (int last = 0; last < 2; last++) {
            uint64_t off = last ? next.off - 1 : end;

            flip(fd, off, 3);
            refused(verify(kb, &err), &err, part, off, 3, "verify");
            flip(fd, off, 3);
            tried++;
        }
    }
    cag_kvc_close(k);
    assert_true(tried >= 6);
    assert_int_equal(fstat(fd, &sb), 0);
    flip(fd, (uint64_t)sb.st_size - 1, 0); /* behind the last chunk */
    refused(verify(kb, &err), &err, "section KV", (uint64_t)sb.st_size - 1, 0,
            "verify");
    flip(fd, (uint64_t)sb.st_size - 1, 0);
    assert_int_equal(verify(kb, &err), CAG_OK);
    assert_int_equal(pwrite(fd, more, sizeof more, sb.st_size), sizeof more);
    assert_int_not_equal(verify(kb, &err), CAG_OK);
    assert_non_null(strstr(err.msg, "bytes"));
    assert_int_equal(ftruncate(fd, sb.st_size), 0);
    assert_int_equal(verify(kb, &err), CAG_OK);
    close(fd);
}

/* Cut at each byte of the first page, then at every 64th part. */
static void cuts(void **state)
{
    struct buf b = BUF_INIT;
    int fd;

    (void)state;
    make("f16");
    assert_int_equal(file_read(kb, 1 << 28, &b, NULL), CAG_OK);
    fd = open(plain, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    for (size_t n = 0, was = 0; n < b.size;
         n += n < KVC_PAGE ? 1 : (b.size - KVC_PAGE) / 64 + 1) {
        cag_error err = CAG_ERROR_INIT;
        cag_status st;

        assert_int_equal(pwrite(fd, b.data + was, n - was, (off_t)was),
                         n - was);
        was = n;
        st = n % 64 == 0 ? ask(plain, &err) : verify(plain, &err);
        if ((st != CAG_E_CORRUPT && st != CAG_E_FORMAT) || !err.msg[0])
            fail_msg("cut at %zu: %s: %s", n, cag_status_name(st), err.msg);
    }
    close(fd);
    buf_free(&b);
}

static int set_up(void **state)
{
    (void)state;
    if (fault_set_up())
        return -1;
    in_dir(kb, "kb.kvc");
    in_dir(plain, "cut.kvc");
    return 0;
}

int main(void)
{
    static char f16z[] = "f16z", f16[] = "f16", f32[] = "f32", q8h[] = "q8h";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(flips, f16z),
        cmocka_unit_test_prestate(flips, f16),
        cmocka_unit_test_prestate(flips, f32),
        cmocka_unit_test_prestate(flips, q8h),
        cmocka_unit_test(padding),
        cmocka_unit_test(cuts),
    };
    return cmocka_run_group_tests(tests, set_up, fault_tear_down);
}

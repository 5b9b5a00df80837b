/*
 * test_write_fault.c - every system call that writes fails once: a full disk,
 * a broken one, an interrupted or a short write.
 *
 * Afterwards the old file is there byte for byte, or, where the new one had
 * been renamed already, the new one; no temporary is left; and the next build
 * succeeds.
 */
#include "tests/lib/unit.h"

#include "tests/lib/fault.h"

#include <errno.h>

static char out[64], old[64], new[64], kb16[64];
static uint8_t sha_old[SHA256_SIZE], sha_new[SHA256_SIZE];

typedef cag_status job_fn(cag_error *err);

static cag_status job_build(cag_error *err)
{
    cag_build_opts o;
    cag_build_report r;
    cag_status st;

    build_opts(&o, out);
    o.checkpoint = true;
    o.checkpoint_s = 1e-6;
    o.engine.pass_rows = 16;
    st = cag_build(&o, &r, err);
    cag_build_report_release(&r);
    return st;
}

static cag_status job_recode(cag_error *err)
{
    return cag_kvc_recode(kb16, "f16z", out, -1, 1, 0, err);
}

/* The nth call fails with sys (0: half a write); false when there were not
 * so many. */
static bool fault_at(job_fn *job, int64_t n, int sys)
{
    cag_error err = CAG_ERROR_INIT;
    uint8_t is[SHA256_SIZE];
    bool happened;
    cag_status st;

    copy_file(old, out);
    file_fault(n, sys);
    st = job(&err);
    happened = file_fault_left() == 0;
    file_fault(0, 0);
    if (st != CAG_OK && st != CAG_E_IO && st != CAG_E_CREATE)
        fail_msg("call %lld, errno %d: %s: %s", (long long)n, sys,
                 cag_status_name(st), err.msg);
    if (st && !strstr(err.msg, strerror(sys)) && err.sys != sys)
        fail_msg("call %lld: errno %d is not told: %s", (long long)n, sys,
                 err.msg);
    sha_of(out, is);
    if (memcmp(is, sha_new, sizeof is) &&
        (!st || memcmp(is, sha_old, sizeof is)))
        fail_msg("call %lld, errno %d: neither the old nor the new file",
                 (long long)n, sys);
    assert_int_equal(n_temporary(), 0);
    if (st && sys == 0)
        fail_msg("call %lld: a short write is no failure: %s", (long long)n,
                 err.msg);
    return happened;
}

static void every_call(job_fn *job)
{
    static const int sys[] = { ENOSPC, EIO, EDQUOT, EINTR, 0 };

    for (size_t i = 0; i < sizeof sys / sizeof *sys; i++) {
        int64_t n = 1;

        while (fault_at(job, n, sys[i]))
            n++;
        assert_true(n > 8);
        /* nothing is in the way of the next one */
        copy_file(old, out);
        assert_int_equal(job(NULL), CAG_OK);
    }
}

static void build_faults(void **state)
{
    (void)state;
    every_call(job_build);
}

static void recode_faults(void **state)
{
    (void)state;
    every_call(job_recode);
}

static int set_up(void **state)
{
    cag_build_opts o;

    (void)state;
    if (fault_set_up())
        return -1;
    in_dir(out, "out.kvc");
    in_dir(old, "old.kvc");
    in_dir(new, "new.kvc");
    in_dir(kb16, "kb16.kvc");
    build_opts(&o, old);
    build_ok(&o);
    set_text(FAULT_TEXT_B);
    o.output = new;
    build_ok(&o);
    sha_of(old, sha_old);
    sha_of(new, sha_new);
    return cag_kvc_recode(new, "f16", kb16, -1, 1, 0, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(build_faults),
        cmocka_unit_test(recode_faults),
    };
    return cmocka_run_group_tests(tests, set_up, fault_tear_down);
}

/*
 * Filters: what goes in and out, what a command may take, how it ends.
 */
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>

#include "source/source_filter.h"

static const cag_hooks *filter_hooks;

/* A user who wants to stop at the third question whether to go on. */
static bool stop_soon(void *ctx, const cag_progress *p)
{
    assert_string_equal(p->what, "filter");
    assert_int_equal(p->unit, CAG_UNIT_BYTES);
    return ++*(int *)ctx < 3;
}

static cag_status filter(const char *const *argv, double timeout, uint64_t cap,
                         const char *in, struct buf *out, cag_error *err)
{
    cag_source_spec spec = { .path = "in.pdf",
                             .filter = argv,
                             .filter_timeout_s = timeout,
                             .filter_max_bytes = cap };

    *err = (cag_error)CAG_ERROR_INIT;
    return filter_run(&spec, "/x/in.pdf", in, strlen(in), out, filter_hooks,
                      err);
}

static void filters(void **state)
{
    static const char *const upper[] = { "tr", "a-z", "A-Z", NULL };
    static const char *const name[] = { "echo", "<{}>", NULL };
    static const char *const none[] = { "cag-no-such-command", NULL };
    static const char *const bad[] = { "sh", "-c", "echo why >&2; exit 3",
                                       NULL };
    static const char *const slow[] = { "sleep", "30", NULL };
    static const char *const big[] = { "yes", NULL };
    /* gone from its output, but still there */
    static const char *const stays[] = { "sh", "-c", "exec >&- 2>&-; sleep 30",
                                         NULL };
    struct buf b = BUF_INIT;
    int asked = 0;
    const cag_hooks hooks = { .progress = stop_soon, .ctx = &asked };
    cag_error err;
    char *many = malloc(1 << 20);

    (void)state;
    assert_int_equal(filter(upper, 0, 0, "shout", &b, &err), CAG_OK);
    assert_string_equal(b.data, "SHOUT");
    buf_clear(&b);
    assert_int_equal(filter(name, 0, 0, "", &b, &err), CAG_OK);
    assert_string_equal(b.data, "</x/in.pdf>\n");
    buf_clear(&b);
    assert_int_equal(filter(none, 0, 0, "", &b, &err), CAG_E_MISSING);
    assert_int_equal(filter(bad, 0, 0, "", &b, &err), CAG_E_FORMAT);
    assert_non_null(strstr(err.msg, "status 3: why"));
    assert_int_equal(filter(slow, 0.2, 0, "", &b, &err), CAG_E_LIMIT);
    assert_int_equal(filter(stays, 0.2, 0, "", &b, &err), CAG_E_LIMIT);
    filter_hooks = &hooks;
    assert_int_equal(filter(slow, 0, 0, "", &b, &err), CAG_E_CANCELLED);
    asked = 0;
    assert_int_equal(filter(stays, 0, 0, "", &b, &err), CAG_E_CANCELLED);
    filter_hooks = NULL;
    buf_clear(&b);
    assert_int_equal(filter(big, 0, 100000, "", &b, &err), CAG_E_LIMIT);
    buf_clear(&b);
    /* more than a pipe holds, both ways at once */
    memset(many, 'x', (1 << 20) - 1);
    many[(1 << 20) - 1] = 0;
    assert_int_equal(filter(upper, 0, 0, many, &b, &err), CAG_OK);
    assert_int_equal(b.size, (1 << 20) - 1);
    buf_clear(&b);
    /* a command that ignores its input does not end us by SIGPIPE */
    assert_int_equal(filter(name, 0, 0, many, &b, &err), CAG_OK);
    free(many);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(filters) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

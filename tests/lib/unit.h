/*
 * unit.h - what every unit test includes first: cmocka and its needs.
 */
#ifndef TESTS_UNIT_H
#define TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cag/base.h>

#include "util/mem.h"

static inline void unit_ok(cag_status st, const cag_error *err, int line)
{
    if (st != CAG_OK)
        fail_msg("line %d: %s: %s: %s", line, cag_status_name(st), err->file,
                 err->msg);
}

/* A call that must succeed; its error parameter is the word err. */
#define OK(call)                                       \
    do {                                               \
        cag_error err_ = CAG_ERROR_INIT, *err = &err_; \
        unit_ok((call), err, __LINE__);                \
    } while (0)

/* A loop head that runs its body with the first, second, ... allocation
 * failing, until the body sets `done`. */
#define FOR_EACH_FAULT(n, done) for (int64_t n = 1; !(done); n++)

/* End the fault at the n-th allocation: true if the run needed fewer, so that
 * nothing failed in it. */
static inline bool fault_missed(int64_t n)
{
    int64_t used = mem_count();

    mem_fault(0, false);
    return used < n;
}

#endif

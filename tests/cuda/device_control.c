/*
 * device_control.c - shim_control.h for a real device, so that the tests of
 * kernels run on one as they are: there is nothing to control.
 */
#include "tests/cuda/shim_control.h"

#include <stdlib.h>

void shim_seed(uint64_t seed)
{
    (void)seed;
}

int shim_live(void)
{
    return 0;
}

/*
 * The static libstdc++ that these tests link names it, for a generator that
 * nobody here uses; glibc has it from 2.36 on, Ubuntu 22.04 has 2.35.
 */
unsigned int arc4random(void);
unsigned int arc4random(void)
{
    abort();
}

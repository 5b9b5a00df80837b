/*
 * avx512vnni.h - what AVX512-VNNI adds to the AVX-512 set: row kernels for
 * many tokens.
 */
#ifndef KERNELS_X86_AVX512VNNI_H
#define KERNELS_X86_AVX512VNNI_H

#include "kernels/x86/avx512.h"

void rows_avx512vnni(float *y, size_t ldy, const void *xq, size_t xq_stride,
                     int n_x, const struct kmat *w, int row0, int row1,
                     bool exact, float *scratch);

#endif

/*
 * exp2.h - the constants of exp2, shared by every bit-exact set.
 *
 * 2^f on [-1/2, 1/2] as 1 + c1 f + ... + c6 f^6, the constant term fixed so
 * that exp2(0) is 1; minimax of the relative error (2e-9, far below the
 * rounding of the evaluation).  Adding EXP2_MAGIC = 1.5 * 2^23 + 127 rounds
 * to an integer n, to nearest even, and leaves n + 127 in the low bits of the
 * sum: shifted left by 23 these are the float 2^n.  It multiplies (an integer
 * addition to the exponent would lose NaNs), so n = 128 gives infinity.
 *
 * The cubic is for weights that are rounded to bf16 afterwards: minimax of
 * the relative error, 7.5e-5.  Of what is below -126.5 n + 127 is 0 and
 * 2^n a zero, so that a maximum with -127 is all the range it needs.
 */
#ifndef KERNELS_EXP2_H
#define KERNELS_EXP2_H

#define EXP2_MAGIC    12583039.0f
#define EXP2_LO       (-126.0f)
#define EXP2_HI       128.0f
#define EXP2_C1       0x1.62e430af271c8p-1f
#define EXP2_C2       0x1.ebfbdc3c30502p-3f
#define EXP2_C3       0x1.c6aee88e8824ap-5f
#define EXP2_C4       0x1.3b2d4cf1e4567p-7f
#define EXP2_C5       0x1.5f3e52f6fe623p-10f
#define EXP2_C6       0x1.41fbbbef55479p-13f
#define EXP2_CUBIC_LO (-127.0f)
#define EXP2_CUBIC_C0 0x1.fff692p-1f
#define EXP2_CUBIC_C1 0x1.62f31ap-1f
#define EXP2_CUBIC_C2 0x1.f0de1ap-3f
#define EXP2_CUBIC_C3 0x1.c3f760p-5f
#define NEG_LOG2E     (-0x1.715476p+0f)

#endif

/*
 * tile_amx.h - the tile registers of AMX-BF16.
 *
 * tdpbf16ps takes a tile of 16 rows x 32 inputs and one of 32 inputs (as 16
 * pairs) x 16 columns, and adds a tile of 16 x 16 f32.
 *
 * Tiles need the system's permission (kernels_fast.c asks) and are set up by
 * each call of a kernel, which leaves them empty: a thread that carries none
 * is cheaper to switch.  The compiler does not know what a tile instruction
 * reads, hence the barriers.
 */
#ifndef KERNELS_X86_TILE_AMX_H
#define KERNELS_X86_TILE_AMX_H

#include "kernels/x86/simd_avx512.h"

enum {
    TR = 16,       /* rows of a tile: tokens, weight rows, keys */
    TK = 32,       /* inputs of a tile */
    TILE = TR * TK /* bf16 in a tile of an operand */
};

INLINE void barrier(void)
{
    __asm__ volatile("" ::: "memory");
}

INLINE void tiles_set_up(void)
{
    _Alignas(64) static const struct {
        uint8_t palette, start_row, zero[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = { 1,
                 0,
                 { 0 },
                 { 64, 64, 64, 64, 64, 64, 64, 64 },
                 { 16, 16, 16, 16, 16, 16, 16, 16 } };

    barrier();
    _tile_loadconfig(&config);
}

#endif

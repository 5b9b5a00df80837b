/*
 * shim_warp.cc - what the lanes of a warp do together, and cp.async: all that
 * touches a kernel's memory for it, so that sanitizers see it.
 */
#include "tests/cuda/cuda_shim.h"

#include <vector>

#include "tests/cuda/shim.h"

void copy_async16(void *smem, const void *dev_p)
{
    shim_copies *f = shim_copies_here();

    if ((uintptr_t)smem % 16 || (uintptr_t)dev_p % 16)
        shim_stop("cp.async of something not 16-aligned");
    if (shim_random() % 4 == 0)
        memcpy(smem, dev_p, 16);
    else
        f->late.push_back({ smem, dev_p, f->group });
}

void copy_commit(void)
{
    shim_copies_here()->group++;
}

void shim_copy_wait(int n)
{
    shim_copies *f = shim_copies_here();
    size_t kept = 0;

    for (const shim_late_copy &c : f->late)
        if (c.group < f->group - n)
            memcpy(c.dst, c.src, 16);
        else
            f->late[kept++] = c;
    f->late.resize(kept);
}

int atomicMin(int *p, int v)
{
    int old = *p;

    if (v < old)
        *p = v;
    return old;
}

/* --------------------------------------------- warp operations, lane by lane */

void shim_shfl_xor(void *lane[32])
{
    for (int i = 0; i < 32; i++) {
        shim_shfl *op = (shim_shfl *)lane[i];
        if (op->x < 0 || op->x > 31 || op->x != ((shim_shfl *)lane[0])->x)
            shim_stop("a shuffle without all lanes, or with different masks");
        op->out = ((shim_shfl *)lane[i ^ op->x])->in;
    }
}

void shim_shfl_from(void *lane[32])
{
    for (int i = 0; i < 32; i++) {
        shim_shfl *op = (shim_shfl *)lane[i];
        if (op->x < 0 || op->x > 31)
            shim_stop("a shuffle without all lanes, or from none");
        op->out = ((shim_shfl *)lane[op->x])->in;
    }
}

void shim_ldmatrix4_trans(void *lane[32])
{
    for (int l = 0; l < 32; l++)
        for (int m = 0; m < 4; m++) {
            uint16_t e[2];
            for (int i = 0; i < 2; i++) {
                const shim_ldm *from =
                    (shim_ldm *)lane[8 * m + 2 * (l % 4) + i];
                if ((uintptr_t)from->row % 16)
                    shim_stop("ldmatrix of a row not 16-aligned");
                memcpy(&e[i], (const uint8_t *)from->row + 2 * (l / 4), 2);
            }
            ((shim_ldm *)lane[l])->r[m] = e[0] | (uint32_t)e[1] << 16;
        }
}

static double half_of(uint32_t v, int i)
{
    return (double)f16_to_f32((uint16_t)(v >> 16 * i));
}

/* Numbers of the shim's own: no sanitizer, which would take most of the time. */
__attribute__((optimize("O3"), no_sanitize("address", "undefined"))) static void
multiply(double sum[16][8], const double a[16][16], const double b[16][8])
{
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < 16; k++)
            for (int col = 0; col < 8; col++)
                sum[row][col] += a[row][k] * b[k][col];
}

void shim_mma_f16(void *lane[32])
{
    double a[16][16], b[16][8], sum[16][8];

    for (int l = 0; l < 32; l++) {
        const shim_mma *op = (shim_mma *)lane[l];
        for (int i = 0; i < 2; i++) {
            int g = l / 4, j = 2 * (l % 4) + i;
            a[g][j] = half_of(op->a[0], i);
            a[g + 8][j] = half_of(op->a[1], i);
            a[g][j + 8] = half_of(op->a[2], i);
            a[g + 8][j + 8] = half_of(op->a[3], i);
            b[j][g] = half_of(op->b[0], i);
            b[j + 8][g] = half_of(op->b[1], i);
        }
    }
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < 4; i++)
            sum[l / 4 + 8 * (i / 2)][2 * (l % 4) + i % 2] =
                (double)((shim_mma *)lane[l])->c[i];
    multiply(sum, a, b);
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < 4; i++)
            ((shim_mma *)lane[l])->c[i] =
                (float)sum[l / 4 + 8 * (i / 2)][2 * (l % 4) + i % 2];
}

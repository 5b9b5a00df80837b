/*
 * gemm_cuda.cu - products over many tokens: cuBLAS, and the expansion of
 * stored weights into its operands.
 *
 * Row-major y [n_tok, n_out] is column-major y' [n_out, n_tok] = W x', with
 * W stored as its transpose: op T on W, op N on x.  Products of f32 operands
 * are true f32: TF32 has to be asked for, and is not.
 */
#include "kernels/cuda/quant.cuh"

#define ROWS_PER_BLOCK 4

__global__ static void __launch_bounds__(32 * ROWS_PER_BLOCK)
dequant_kernel(void *out, int out_type, struct kmat w, int row0, int row1)
{
    int r = (int)blockIdx.x * ROWS_PER_BLOCK + (int)threadIdx.x / 32;

    if (r < row1 - row0)
        put_row(out, out_type, (size_t)r * (size_t)w.d_in, w, row0 + r,
                (int)threadIdx.x % 32, 32);
}

int cuk_dequant(struct cuk_stream *s, void *dev_out, int out_type,
                const struct kmat *w, int row0, int row1)
{
    if (!cuk_mat_ok(w) || !cuk_operand(out_type) || row0 < 0 ||
        row1 > w->n_out || row0 >= row1)
        CUK_REFUSE(s->d, "cuk_dequant");
    CUK_RUN(s, "dequant_kernel", dequant_kernel,
            dim3((unsigned)cuk_ceil(row1 - row0, ROWS_PER_BLOCK)),
            dim3(32 * ROWS_PER_BLOCK), 0, dev_out, out_type, *w, row0, row1);
    return 0;
}

#define BLAS_CALL(d, fn, args)                                            \
    do {                                                                  \
        cublasStatus_t e_ = fn args;                                      \
        if (e_ != CUBLAS_STATUS_SUCCESS)                                  \
            return cuk_fail(d, (int)e_, cublasGetStatusName(e_), #fn,     \
                            __FILE__, __LINE__);                          \
    } while (0)

int cuk_gemm_prepare(struct cuk_stream *s)
{
    if (s->dev_blas)
        return 0;
    if (!s->blas)
        BLAS_CALL(s->d, cublasCreate, (&s->blas));
    BLAS_CALL(s->d, cublasSetStream, (s->blas, s->s));
    /* its own memory: cuBLAS would otherwise allocate in a capture */
    CUK_CALL(s->d, cudaMalloc, (&s->dev_blas, CUK_GEMM_WORKSPACE));
    BLAS_CALL(s->d, cublasSetWorkspace,
              (s->blas, s->dev_blas, CUK_GEMM_WORKSPACE));
    return 0;
}

static cudaDataType_t data_type(int type)
{
    return type == KT_BF16 ? CUDA_R_16BF : type == KT_F16 ? CUDA_R_16F
                                                          : CUDA_R_32F;
}

static size_t operand_bytes(int type)
{
    return type == KT_F32 ? 4 : 2;
}

static int multiply(struct cuk_stream *s, float *y, size_t ldy, bool add,
                    const void *x, size_t ldx, int type, int n_tok,
                    const void *w, int n_out, int d_in)
{
    const float one = 1.0f, beta = add ? 1.0f : 0.0f;

    BLAS_CALL(s->d, cublasGemmEx,
              (s->blas, CUBLAS_OP_T, CUBLAS_OP_N, n_out, n_tok, d_in, &one, w,
               data_type(type), d_in, x, data_type(type), (int)ldx, &beta, y,
               CUDA_R_32F, (int)ldy, CUBLAS_COMPUTE_32F,
               CUBLAS_GEMM_DEFAULT));
    return 0;
}

int cuk_gemm(struct cuk_stream *s, float *dev_y, size_t ldy, bool add,
             const void *dev_x, size_t ldx, int x_type, int n_tok,
             const struct kmat *w, void *dev_panel, size_t panel_bytes)
{
    size_t row = (size_t)w->d_in * operand_bytes(x_type);
    int st = cuk_gemm_prepare(s);

    if (st != 0)
        return st;
    if (!cuk_mat_ok(w) || !cuk_operand(x_type) || n_tok < 1 ||
        ldx > INT32_MAX || ldy > INT32_MAX || ldx < (size_t)w->d_in)
        CUK_REFUSE(s->d, "cuk_gemm");
    if (w->type == x_type && w->perm_half == 0 && w->row_bytes == row)
        return multiply(s, dev_y, ldy, add, dev_x, ldx, x_type, n_tok,
                        w->data, w->n_out, w->d_in);
    size_t slice = panel_bytes / row;
    if (slice == 0)
        CUK_REFUSE(s->d, "cuk_gemm: panel_bytes");
    if (slice > (size_t)w->n_out)
        slice = (size_t)w->n_out;
    for (int r = 0; st == 0 && r < w->n_out; r += (int)slice) {
        int end = w->n_out - r < (int)slice ? w->n_out : r + (int)slice;
        st = cuk_dequant(s, dev_panel, x_type, w, r, end);
        if (st == 0)
            st = multiply(s, dev_y + r, ldy, add, dev_x, ldx, x_type, n_tok,
                          dev_panel, end - r, w->d_in);
    }
    return st;
}

/*
 * cuda_test.h - what the tests on the host shim share: TAP, device memory
 * with contents, random weights as stored.
 */
#ifndef CUDA_TEST_H
#define CUDA_TEST_H

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vector>

extern "C" {
#include "kernels/kernels.h"
#include "kernels/quant.h"
}
#include "kernels/cuda/kernels_cuda.h"
#include "tests/cuda/shim_control.h"

/* --------------------------------------------------------------------- TAP */

static int tap_n, tap_bad, tap_failed;

__attribute__((format(printf, 3, 4))) static inline void
check_at(bool ok, int line, const char *fmt, ...)
{
    va_list ap;

    if (ok)
        return;
    tap_failed++;
    if (tap_failed > 5)
        return;
    printf("# line %d: ", line);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
}
#define CHECK(cond, ...) check_at(cond, __LINE__, __VA_ARGS__)

static inline void tap(const char *name, void (*fn)(void))
{
    tap_failed = 0;
    shim_seed(1);
    fn();
    tap_n++;
    tap_bad += tap_failed != 0;
    printf("%s %d - %s\n", tap_failed ? "not ok" : "ok", tap_n, name);
    fflush(stdout);
}

static inline int tap_end(void)
{
    printf("1..%d\n", tap_n);
    return tap_bad != 0;
}

/* ------------------------------------------------------------------ numbers */

static inline uint32_t rnd(void)
{
    static uint64_t s = 99;

    s = s * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(s >> 33);
}

static inline int rnd_in(int lo, int hi)
{
    return lo + (int)(rnd() % (uint32_t)(hi - lo + 1));
}

static inline float rnd_normal(void)
{
    float sum = 0;

    for (int i = 0; i < 6; i++)
        sum += (float)(rnd() & 0xffff) / 65536.0f - 0.5f;
    return sum * 1.41f;
}

static inline std::vector<float> rnd_floats(size_t n, float scale = 1)
{
    std::vector<float> v(n);

    for (float &f : v)
        f = rnd_normal() * scale;
    return v;
}

/* The relative rounding of an operand type. */
static inline double unit_of(int type)
{
    return type == KT_BF16 ? 1.0 / 256 : type == KT_F16 ? 1.0 / 2048 : 0;
}

/* ------------------------------------------------------------------- device */

static struct cuk_dev *dev;
static struct cuk_stream *stream;

static inline void dev_open(void)
{
    struct cuk_err err = {};

    if (cuk_open(0, &dev, &err) != 0 || cuk_stream_new(dev, &stream) != 0) {
        printf("Bail out! cannot open the device: %s\n", err.name);
        exit(1);
    }
}

static inline void dev_close(void)
{
    cuk_stream_free(stream);
    cuk_close(dev);
}

/* An array on the device, of exactly n elements. */
template <class T> struct dev_array {
    T *p = nullptr;
    size_t n;

    explicit dev_array(size_t count) : n(count)
    {
        void *v;
        if (cuk_alloc(dev, &v, n * sizeof(T), NULL) != 0)
            abort();
        p = (T *)v;
    }
    explicit dev_array(const std::vector<T> &from) : dev_array(from.size())
    {
        put(from);
    }
    dev_array(const dev_array &) = delete;
    ~dev_array()
    {
        cuk_free(dev, p);
    }
    void put(const std::vector<T> &from)
    {
        cuk_copy(stream, CUK_TO_DEV, p, from.data(), n * sizeof(T));
        cuk_stream_sync(stream);
    }
    std::vector<T> get(void) const
    {
        std::vector<T> v(n);
        cuk_copy(stream, CUK_FROM_DEV, v.data(), p, n * sizeof(T));
        cuk_stream_sync(stream);
        return v;
    }
};

/* Operands of a type, read back as floats. */
struct operands {
    int type;
    size_t n;
    dev_array<uint8_t> mem;

    operands(int t, size_t count)
        : type(t), n(count), mem(count * (t == KT_F32 ? 4 : 2))
    {
    }
    operands(int t, const std::vector<float> &from) : operands(t, from.size())
    {
        std::vector<uint8_t> raw(mem.n);
        for (size_t i = 0; i < n; i++)
            if (type == KT_F32) {
                memcpy(&raw[4 * i], &from[i], 4);
            } else {
                uint32_t u;
                memcpy(&u, &from[i], 4);
                uint16_t h =
                    type == KT_F16 ? f32_to_f16(from[i]) : (uint16_t)(u >> 16);
                memcpy(&raw[2 * i], &h, 2);
            }
        mem.put(raw);
    }
    std::vector<float> get(void) const
    {
        std::vector<uint8_t> raw = mem.get();
        std::vector<float> v(n);
        quant_row(v.data(), type, raw.data(), (int)n);
        return v;
    }
};

/* ------------------------------------------------------------------ weights */

static const int all_types[] = { KT_F32,  KT_F16,  KT_BF16, KT_Q4_0,
                                 KT_Q4_1, KT_Q5_0, KT_Q5_1, KT_Q8_0,
                                 KT_Q4_K, KT_Q5_K, KT_Q6_K };

/* Random bytes with scales of a sensible size. */
struct matrix {
    std::vector<uint8_t> raw;
    struct kmat host, on_dev;
    dev_array<uint8_t> *mem;

    matrix(int type, int n_out, int d_in, int perm_half = 0)
    {
        size_t bytes = kt_block_bytes(type);
        size_t row = (size_t)d_in / (size_t)kt_block_weights(type) * bytes;
        raw.resize(row * (size_t)n_out);
        for (uint8_t &b : raw)
            b = (uint8_t)rnd();
        for (size_t i = 0; i < raw.size(); i += bytes) {
            if (!kt_quantized(type))
                put(type, i, rnd_normal() * 0.1f);
            else if (type == KT_Q6_K)
                put(KT_F16, i + 208, rnd_normal() * 0.001f);
            else
                put(KT_F16, i, rnd_normal() * 0.01f);
            if (type == KT_Q4_1 || type == KT_Q5_1 || type == KT_Q4_K ||
                type == KT_Q5_K)
                put(KT_F16, i + 2, rnd_normal() * 0.01f);
        }
        mem = new dev_array<uint8_t>(raw);
        host = { type, n_out, d_in, row, raw.data(), perm_half };
        on_dev = host;
        on_dev.data = mem->p;
    }
    matrix(const matrix &) = delete;
    ~matrix()
    {
        delete mem;
    }
    std::vector<float> row(int r) const
    {
        std::vector<float> v((size_t)host.d_in);
        quant_row(v.data(), host.type, kmat_row(&host, r), host.d_in);
        return v;
    }

  private:
    void put(int type, size_t at, float f)
    {
        uint32_t u;
        memcpy(&u, &f, 4);
        if (type == KT_F32) {
            memcpy(&raw[at], &u, 4);
            return;
        }
        uint16_t h = type == KT_F16 ? f32_to_f16(f) : (uint16_t)(u >> 16);
        memcpy(&raw[at], &h, 2);
    }
};

#endif

/*
 * probe_cuda.c - what a device's memory and its bus carry, as JSON: the
 * measure for the figures of check_cuda.
 *
 *   probe_cuda [MIB]
 *
 * Copies of MIB (default 1024) on the device count what is read and written;
 * copies from pinned memory what arrives.  The best of five, timed by events
 * of the device.
 */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/kernels_cuda.h"

static struct cuk_dev *dev;
static struct cuk_stream *stream;
static struct cuk_event *from, *to;

/* Best GB/s of five copies; negative when one failed. */
static double best_rate(enum cuk_dir dir, void *dst, const void *src, size_t n,
                        double moved)
{
    float ms, best = 0;

    for (int i = 0; i < 6; i++) {
        if (cuk_event_record(from, stream) != 0 ||
            cuk_copy(stream, dir, dst, src, n) != 0 ||
            cuk_event_record(to, stream) != 0 || cuk_event_sync(to) != 0 ||
            cuk_event_ms(from, to, &ms) != 0)
            return -1;
        if (i > 0 && (best == 0 || ms < best))
            best = ms;
    }
    return moved / (double)best * 1e-6;
}

static int fail(const char *what, const struct cuk_err *e)
{
    fprintf(stderr, "probe_cuda: %s: %s gave %s (%d)\n", what, e->call, e->name,
            e->code);
    return 69;
}

int main(int argc, char **argv)
{
    long mib = argc > 1 ? strtol(argv[1], NULL, 10) : 1024;
    size_t n = (size_t)(mib > 0 ? mib : 1) << 20, part = n / 4;
    struct cuk_err err = { 0 };
    void *a = NULL, *b = NULL, *host = NULL;
    double copy = -1, bus = -1;

    if (cuk_open(0, &dev, &err) != 0)
        return fail("opening the device", &err);
    if (cuk_stream_new(dev, &stream) == 0 &&
        cuk_event_new(dev, true, &from) == 0 &&
        cuk_event_new(dev, true, &to) == 0 &&
        cuk_alloc(dev, &a, n, &err) == 0 && cuk_alloc(dev, &b, n, &err) == 0 &&
        cuk_host_alloc(dev, &host, part, &err) == 0) {
        copy = best_rate(CUK_ON_DEV, a, b, n, 2.0 * (double)n);
        bus = best_rate(CUK_TO_DEV, a, host, part, (double)part);
    }
    if (copy > 0 && bus > 0)
        printf("{\"device\":\"%s\",\"copy_gb_per_s\":%.1f,"
               "\"to_device_gb_per_s\":%.1f}\n",
               cuk_get_info(dev)->name, copy, bus);
    else if (err.code == 0)
        err = *cuk_error(dev);
    cuk_host_free(dev, host);
    cuk_free(dev, a);
    cuk_free(dev, b);
    cuk_event_free(from);
    cuk_event_free(to);
    cuk_stream_free(stream);
    cuk_close(dev);
    return copy > 0 && bus > 0 ? 0 : fail("measuring", &err);
}

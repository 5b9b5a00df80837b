/*
 * check_cuda.c - prove the CUDA backend on a machine that has a GPU, and
 * measure it there; `make check-cuda`.
 *
 *   check_cuda [--device DEV] [--plugin FILE] [--tiny] [--step S]
 *              [--budget S] [--bandwidth GB/S] OUT.json | --probe
 *
 * Runs a tree that was built elsewhere.  Weights are random, written on the
 * spot as bf16 safetensors in the shapes of Qwen3-0.6B and of 12 of the 36
 * layers of Qwen3-4B (all would be 8 GB of pages to write back); nothing is
 * downloaded.  Steps run in the order of their worth.  Each has a budget: it
 * begins only while the whole one has room for that, ends early when it is
 * spent, and OUT.json is rewritten after each, so that a run that is cut off
 * leaves what it had.  --bandwidth is what probe_cuda measured, for the share
 * of it that a step of generated tokens reaches.  --probe only looks whether
 * there is a GPU.
 *
 * Exit: 0 all as promised, 1 a check failed, was cut off, or none was made,
 * 69 no GPU.
 *
 * --tiny compares small models with the CPU, --step seconds (6) each at most:
 * cuBLAS reads its kernels from half a gigabyte of files in the first of them.
 * With --device cpu it takes seconds and tests this program, not a GPU.
 */
#include "tests/cuda/check.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N(array) (sizeof(array) / sizeof *(array))

static const struct check_shape big[] = {
    { "qwen3-0.6b", 1024, 3072, 28, 16, 8, 128, 151936 },
    { "qwen3-4b, 12 of 36 layers", 2560, 9728, 12, 32, 8, 128, 151936 }
};
/* the ways through attention: heads below 64, of 128, and of 256 */
static const struct check_shape small[] = {
    { "tiny-a", 64, 192, 2, 4, 2, 32, 512 },
    { "tiny-b", 128, 256, 3, 8, 2, 128, 512 },
    { "tiny-c", 64, 128, 2, 2, 1, 256, 512 }
};

/* A model written and opened on the device; NULL after a failure, or where
 * there was no time. */
static cag_engine *open_model(const struct check_shape *s, double seconds,
                              cag_model **m)
{
    cag_error err = CAG_ERROR_INIT;
    cag_engine *e = NULL;
    double start = check_now();

    if (!check_begin("open", s->name, seconds))
        return NULL;
    jv *step = jv_new_object();
    if (!check_model_make(s, check.dir))
        snprintf(check_why, sizeof check_why, "cannot write a model");
    jv_set_real(step, "write_s", check_now() - start);
    double open = check_now();
    if (check_why[0] == '\0' &&
        check_ok(cag_model_open(check.dir, CAG_MODEL_NO_TOKENIZER, m, &err),
                 &err))
        e = check_engine(*m, check.device, 0);
    jv_set_real(step, "open_s", check_now() - open);
    jv_set_str(step, "of", s->name);
    if (e) {
        jv_set_str(step, "device", cag_engine_note(e, NULL));
        jv_set_int(step, "device_mib",
                   (int64_t)(cag_engine_device_bytes(e) >> 20));
    }
    check_finish(CHECK_MEASURE, "open", step, start);
    return e;
}

static void run_model(const struct check_shape *s, bool first)
{
    static const int group[] = { 1, 16, 64, 256 };
    int depth = check.tiny ? 129 : 8192;
    cag_model *m = NULL;
    cag_engine *e = open_model(s, first ? 10 : 25, &m);

    if (e && (first || check.tiny) &&
        check_begin("cpu against gpu", s->name, 15))
        check_against_cpu(m, e, "cpu against gpu", NULL);
    if (e && check.tiny)
        check_parts(m, e);
    if (e) {
        check_speed(m, e, s->name, check.tiny ? 33 : 2048, 4);
        check_speed(m, e, s->name, depth, 6);
        check_speed(m, e, s->name, 16, 3);
    }
    if (e && first && check_make_cache(m, e, depth)) {
        check_questions(m, e, group, 4);
        check_load(m);
        if (check_begin("f16 cache", s->name, 15))
            check_against_cpu(m, e, "f16 cache", check.cache);
        check_codes(m, e, depth);
    }
    if (e)
        check_speed(m, e, s->name, check.tiny ? 500 : 32000, 12);
    unlink(check.cache);
    cag_engine_free(e);
    cag_model_close(m);
}

static int usage(void)
{
    fputs("usage: check_cuda [--device DEV] [--plugin FILE] [--tiny] "
          "[--step S]\n       [--budget S] [--bandwidth GB/S] OUT.json | "
          "--probe\n",
          stderr);
    return 64;
}

/* Whether the device can be used, by opening a small model on it. */
static bool has_device(void)
{
    cag_error err = CAG_ERROR_INIT;
    cag_model *m = NULL;
    cag_engine *e = NULL;
    bool there =
        check_model_make(&small[0], check.dir) &&
        check_ok(cag_model_open(check.dir, CAG_MODEL_NO_TOKENIZER, &m, &err),
                 &err);

    if (there)
        e = check_engine(m, check.device, 0);
    there = e != NULL;
    cag_engine_free(e);
    cag_model_close(m);
    return there;
}

static bool read_options(int argc, char **argv)
{
    static const struct option options[] = {
        { "device", required_argument, NULL, 'd' },
        { "plugin", required_argument, NULL, 'p' },
        { "budget", required_argument, NULL, 'b' },
        { "bandwidth", required_argument, NULL, 'w' },
        { "step", required_argument, NULL, 's' },
        { "tiny", no_argument, NULL, 't' },
        { "probe", no_argument, NULL, 'o' },
        { NULL, 0, NULL, 0 }
    };
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
        if (c == 'd')
            check.device = optarg;
        else if (c == 'p')
            check.plugin = optarg;
        else if (c == 'b')
            check.budget = strtod(optarg, NULL);
        else if (c == 'w')
            check.bandwidth = strtod(optarg, NULL);
        else if (c == 's')
            check.step_s = strtod(optarg, NULL);
        else if (c == 'o')
            check.probe = true;
        else if (c == 't')
            check.tiny = true;
        else
            return false;
    if (optind + !check.probe != argc)
        return false;
    check.out = argv[optind];
    return true;
}

int main(int argc, char **argv)
{
    const char *tmp = getenv("TMPDIR");
    int status = 0;

    if (!read_options(argc, argv))
        return usage();
    check.start = check_now();
    snprintf(check.dir, sizeof check.dir, "%.40s/cag-cuda-XXXXXX",
             tmp && *tmp != '\0' ? tmp : "/tmp");
    if (!mkdtemp(check.dir)) {
        fprintf(stderr, "check_cuda: %s: %s\n", check.dir, strerror(errno));
        return 73;
    }
    snprintf(check.cache, sizeof check.cache, "%s/kb.kvc", check.dir);
    check.deadline = check_now() + 60;
    if (!has_device()) {
        fprintf(stderr, "check_cuda: %s\n", check_why);
        status = 69;
    } else if (!check.probe) {
        check.steps = jv_new_array();
        for (size_t i = 0; i < (check.tiny ? N(small) : N(big)); i++)
            run_model(check.tiny ? &small[i] : &big[i], i == 0);
        status = check_sum();
        jv_free(check.steps);
    }
    check_model_remove(check.dir);
    return status;
}

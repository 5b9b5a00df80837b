/*
 * check_cuda.c - prove the CUDA backend on a machine that has a GPU, and
 * measure it there; `make check-cuda`.
 *
 *   check_cuda [--device DEV] [--plugin FILE] [--tiny] [--budget S] OUT.json
 *
 * Runs a tree that was built elsewhere.  Weights are random, written on the
 * spot as bf16 safetensors in the shapes of Qwen3-0.6B and Qwen3-4B; nothing
 * is downloaded.  Steps run in the order of their worth, each only while the
 * budget lasts, and OUT.json is rewritten after each, so that a run that is
 * cut off leaves what it had.  Exit: 0 all as promised, 1 a check failed, 69
 * no GPU.
 *
 * --tiny --device cpu runs every step in seconds on a CPU: it tests this
 * program, not a GPU.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cag/session.h>

#include "util/json.h"
#include "util/mem.h"

struct shape {
    const char *name;
    int d_model, d_ff, n_layer, n_head, n_kv_head, d_head, n_vocab;
};

static const struct shape big[2] = {
    { "qwen3-0.6b", 1024, 3072, 28, 16, 8, 128, 151936 },
    { "qwen3-4b", 2560, 9728, 36, 32, 8, 128, 151936 }
};
static const struct shape small[2] = {
    { "tiny-a", 64, 192, 2, 4, 2, 32, 512 },
    { "tiny-b", 128, 256, 3, 8, 2, 32, 512 }
};

static struct {
    const char *device, *plugin, *out;
    bool        tiny;
    double      budget, start;
    char        dir[64];
    jv         *steps;
    int         n_bad;
} g = { .device = "cuda", .budget = 220 };

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double left(void)
{
    return g.budget - (now() - g.start);
}

/* ----------------------------------------------------------------- results */

/* Add a step's result and write all results so far. */
static void finish(const char *name, jv *step, double seconds, const char *bad)
{
    struct buf b = BUF_INIT;
    FILE *f;

    jv_set_str(step, "step", name);
    jv_set_real(step, "seconds", seconds);
    if (bad[0] != '\0') {
        jv_set_str(step, "failed", bad);
        g.n_bad++;
    }
    jv_dump(step, &b);
    printf("%s%.*s\n", bad[0] != '\0' ? "FAILED " : "", (int)b.size, b.data);
    fflush(stdout);
    buf_free(&b);
    jv_append(g.steps, step);
    jv_dump(g.steps, &b);
    f = fopen(g.out, "w");
    if (f == NULL || fwrite(b.data, 1, b.size, f) != b.size ||
        fclose(f) != 0)
        fprintf(stderr, "check_cuda: cannot write %s: %s\n", g.out,
                strerror(errno));
    buf_free(&b);
}

/* ----------------------------------------------------------------- weights */

static uint64_t seed = 88172645463325252u;

static uint64_t random64(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

struct writer {
    FILE    *f;
    struct buf head;
    uint64_t off;
    bool     body;
};

/* One tensor: its line of the header, or its bytes.  Weights are bf16 of
 * random sign, magnitude 2^e times 1 to 2; norms are 1. */
static void tensor(struct writer *w, const char *name, int rows, int cols,
                   bool norm)
{
    uint64_t n = (uint64_t)rows * (uint64_t)cols;
    static uint16_t block[8192];
    char dims[64];

    if (!w->body) {
        if (norm)
            snprintf(dims, sizeof dims, "[%d]", cols);
        else
            snprintf(dims, sizeof dims, "[%d,%d]", rows, cols);
        buf_printf(&w->head,
                   "%s\"%s\":{\"dtype\":\"BF16\",\"shape\":%s,"
                   "\"data_offsets\":[%llu,%llu]}",
                   w->off != 0 ? "," : "", name, dims,
                   (unsigned long long)w->off,
                   (unsigned long long)(w->off + 2 * n));
        w->off += 2 * n;
        return;
    }
    /* about 1 / sqrt(cols): 2^-5 at 1024 */
    int e = (int)lrint(127 - 0.5 * log2((double)cols) - 0.5);
    while (n > 0) {
        uint64_t m = n < 8192 ? n : 8192;
        for (uint64_t i = 0; i < m; i += 4) {
            uint64_t r = random64();
            for (uint64_t j = i; j < i + 4 && j < m; j++, r >>= 16)
                block[j] = norm ? 0x3f80
                                : (uint16_t)((r & 0x807f) | (uint64_t)e << 7);
        }
        fwrite(block, 2, m, w->f);
        n -= m;
    }
}

static void tensors(struct writer *w, const struct shape *s)
{
    static const struct { const char *name; int rows, cols; } part[] = {
        { "self_attn.q_proj", 'q', 'd' }, { "self_attn.k_proj", 'k', 'd' },
        { "self_attn.v_proj", 'k', 'd' }, { "self_attn.o_proj", 'd', 'q' },
        { "mlp.gate_proj", 'f', 'd' },    { "mlp.up_proj", 'f', 'd' },
        { "mlp.down_proj", 'd', 'f' },    { "input_layernorm", 0, 'd' },
        { "post_attention_layernorm", 0, 'd' },
        { "self_attn.q_norm", 0, 'h' },   { "self_attn.k_norm", 0, 'h' }
    };
    char name[128];

    tensor(w, "model.embed_tokens.weight", s->n_vocab, s->d_model, false);
    for (int l = 0; l < s->n_layer; l++)
        for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) {
            int size[2] = { part[i].rows, part[i].cols };
            for (int k = 0; k < 2; k++)
                size[k] = size[k] == 'q'   ? s->n_head * s->d_head
                          : size[k] == 'k' ? s->n_kv_head * s->d_head
                          : size[k] == 'd' ? s->d_model
                          : size[k] == 'f' ? s->d_ff
                          : size[k] == 'h' ? s->d_head
                                           : 1;
            snprintf(name, sizeof name, "model.layers.%d.%s.weight", l,
                     part[i].name);
            tensor(w, name, size[0], size[1], part[i].rows == 0);
        }
    tensor(w, "model.norm.weight", 1, s->d_model, true);
}

static bool write_config(const struct shape *s, const char *path)
{
    FILE *f = fopen(path, "w");

    if (f == NULL)
        return false;
    fprintf(f,
            "{\"architectures\":[\"Qwen3ForCausalLM\"],\"model_type\":"
            "\"qwen3\",\"hidden_size\":%d,\"intermediate_size\":%d,"
            "\"num_hidden_layers\":%d,\"num_attention_heads\":%d,"
            "\"num_key_value_heads\":%d,\"head_dim\":%d,\"vocab_size\":%d,"
            "\"max_position_embeddings\":40960,\"rms_norm_eps\":1e-06,"
            "\"hidden_act\":\"silu\",\"tie_word_embeddings\":true,"
            "\"attention_bias\":false,\"use_sliding_window\":false,"
            "\"sliding_window\":null,\"max_window_layers\":%d,"
            "\"rope_theta\":1000000,\"rope_scaling\":null,"
            "\"torch_dtype\":\"bfloat16\",\"eos_token_id\":1}\n",
            s->d_model, s->d_ff, s->n_layer, s->n_head, s->n_kv_head,
            s->d_head, s->n_vocab, s->n_layer);
    return fclose(f) == 0;
}

/* A model directory in dir; false with a message. */
static bool make_model(const struct shape *s, const char *dir)
{
    char path[160];
    struct writer w = { .head = BUF_INIT };
    bool ok;

    snprintf(path, sizeof path, "%s/config.json", dir);
    ok = write_config(s, path);
    buf_add(&w.head, "{", 1);
    tensors(&w, s);
    buf_add(&w.head, "}", 1);
    while (w.head.size % 8 != 0)
        buf_add(&w.head, " ", 1);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    w.f = ok && !buf_failed(&w.head) ? fopen(path, "w") : NULL;
    if (w.f != NULL) {
        uint8_t n[8];
        for (int i = 0; i < 8; i++)
            n[i] = (uint8_t)(w.head.size >> (8 * i));
        fwrite(n, 1, 8, w.f);
        fwrite(w.head.data, 1, w.head.size, w.f);
        w.body = true;
        tensors(&w, s);
        ok = !ferror(w.f);
        ok = fclose(w.f) == 0 && ok;
    } else {
        ok = false;
    }
    buf_free(&w.head);
    if (!ok)
        fprintf(stderr, "check_cuda: cannot write %s: %s\n", path,
                strerror(errno));
    return ok;
}

static void remove_model(const char *dir)
{
    char path[160];

    snprintf(path, sizeof path, "%s/config.json", dir);
    unlink(path);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    unlink(path);
    rmdir(dir);
}

/* ------------------------------------------------------------------- steps */

static char why[1600];

static bool ok(cag_status st, const cag_error *err)
{
    if (st != CAG_OK)
        snprintf(why, sizeof why, "%s%s%s", err->file,
                 err->file[0] != '\0' ? ": " : "", err->msg);
    return st == CAG_OK;
}

static cag_engine *engine(const cag_model *m, const char *device)
{
    cag_engine_opts o = { .device = device, .plugin = g.plugin };
    cag_error err = CAG_ERROR_INIT;
    cag_engine *e = NULL;

    return ok(cag_engine_new(m, &o, &e, &err), &err) ? e : NULL;
}

static int32_t *some_ids(int n, int n_vocab)
{
    int32_t *ids = mem_alloc_array((size_t)n, sizeof *ids);

    for (int i = 0; ids != NULL && i < n; i++)
        ids[i] = (int32_t)(random64() % (uint64_t)n_vocab);
    return ids;
}

/* A session with n tokens; seconds of that. */
static cag_session *prefilled(cag_engine *e, const int32_t *ids, int n,
                              int more, const float **logits, double *seconds)
{
    cag_error err = CAG_ERROR_INIT;
    cag_session *s = NULL;
    double start = now();

    if (!ok(cag_session_new(e, NULL, n + more, &s, &err), &err))
        return NULL;
    if (!ok(cag_session_prefill(s, ids, n, logits, &err), &err)) {
        cag_session_free(s);
        return NULL;
    }
    *seconds = now() - start;
    return s;
}

static double cosine(const float *a, const float *b, int n)
{
    double ab = 0, aa = 0, bb = 0;

    for (int i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

/* The same prompt and steps on both; the least cosine of the logits. */
static void agreement(const cag_model *m, cag_engine *gpu)
{
    enum { N = 70, STEPS = 4 };
    int n_vocab = cag_model_get_info(m)->n_vocab;
    int32_t *ids = some_ids(N + STEPS, n_vocab);
    cag_engine *cpu = engine(m, "cpu");
    cag_session *a = NULL, *b = NULL;
    const float *x, *y;
    cag_error err = CAG_ERROR_INIT;
    double start = now(), t, least = 1;
    jv *step = jv_new_object();

    why[0] = '\0';
    if (cpu != NULL && ids != NULL)
        a = prefilled(cpu, ids, N, STEPS, &x, &t);
    if (a != NULL)
        b = prefilled(gpu, ids, N, STEPS, &y, &t);
    for (int i = 0; b != NULL && i <= STEPS; i++) {
        least = fmin(least, cosine(x, y, n_vocab));
        if (i < STEPS &&
            (!ok(cag_session_step(&a, &ids[N + i], 1, &x, &err), &err) ||
             !ok(cag_session_step(&b, &ids[N + i], 1, &y, &err), &err)))
            break;
    }
    if (why[0] == '\0' && !(least >= 0.999))
        snprintf(why, sizeof why, "cosine %.6f, promised 0.999", least);
    jv_set_real(step, "least_cosine", least);
    cag_session_free(a);
    cag_session_free(b);
    cag_engine_free(cpu);
    mem_free(ids);
    finish("cpu against gpu", step, now() - start, why);
}

/* Prompt tokens per second, then generated ones at that depth. */
static void speed(const cag_model *m, cag_engine *e, int depth)
{
    enum { STEPS = 32 };
    int n_vocab = cag_model_get_info(m)->n_vocab;
    int32_t *ids = some_ids(depth, n_vocab), next = 1;
    const float *logits;
    cag_error err = CAG_ERROR_INIT;
    double start = now(), t = 0;
    jv *step = jv_new_object();
    cag_session *s = NULL;

    why[0] = '\0';
    if (ids != NULL)
        s = prefilled(e, ids, depth, STEPS + 2, &logits, &t);
    if (s != NULL) {
        jv_set_real(step, "prompt_tokens_per_s", depth / t);
        /* the first two record the graph */
        for (int i = 0; i < STEPS + 2 && why[0] == '\0'; i++) {
            if (i == 2)
                t = now();
            ok(cag_session_step(&s, &next, 1, &logits, &err), &err);
        }
        t = (now() - t) / STEPS;
        jv_set_real(step, "generated_tokens_per_s", 1 / t);
        const cag_model_info *i = cag_model_get_info(m);
        double kv = (double)i->kv_bytes_per_tok * depth;
        jv_set_real(step, "read_gb_per_s",
                    ((double)i->size_bytes + kv) / t * 1e-9);
    }
    jv_set_int(step, "depth", depth);
    jv_set_int(step, "device_mib",
               (int64_t)(cag_engine_device_bytes(e) >> 20));
    cag_session_free(s);
    mem_free(ids);
    finish("speed", step, now() - start, why);
}

/* n timelines stepping together. */
static void together(cag_engine *e, int n)
{
    enum { STEPS = 8, MAX = 256 };
    static cag_session *s[MAX];
    static int32_t id[MAX];
    static const float *logits[MAX];
    cag_error err = CAG_ERROR_INIT;
    double start = now(), t = 0;
    jv *step = jv_new_object();
    int made = 0;

    why[0] = '\0';
    for (; made < n; made++) {
        id[made] = made + 2;
        s[made] = prefilled(e, &id[made], 1, STEPS + 2, &logits[made], &t);
        if (s[made] == NULL)
            break;
    }
    for (int i = 0; i < STEPS + 2 && why[0] == '\0'; i++) {
        if (i == 2)
            t = now();
        ok(cag_session_step(s, id, n, logits, &err), &err);
    }
    jv_set_int(step, "timelines", n);
    if (why[0] == '\0')
        jv_set_real(step, "generated_tokens_per_s",
                    n * STEPS / (now() - t));
    while (made > 0)
        cag_session_free(s[--made]);
    finish("together", step, now() - start, why);
}

static void run_model(const struct shape *s, bool first)
{
    static const int depths[] = { 2048, 8192, 16, 32000 };
    static const int groups[] = { 1, 16, 64, 256 };
    cag_error err = CAG_ERROR_INIT;
    cag_model *m = NULL;
    cag_engine *e = NULL;
    double start = now();
    jv *step = jv_new_object();

    why[0] = '\0';
    if (!make_model(s, g.dir))
        snprintf(why, sizeof why, "cannot write a model");
    jv_set_real(step, "write_s", now() - start);
    double open = now();
    if (why[0] == '\0' &&
        ok(cag_model_open(g.dir, CAG_MODEL_NO_TOKENIZER, &m, &err), &err))
        e = engine(m, g.device);
    jv_set_real(step, "open_s", now() - open);
    jv_set_str(step, "model", s->name);
    if (e != NULL)
        jv_set_str(step, "device", cag_engine_note(e, NULL));
    finish("open", step, now() - start, why);
    if (e != NULL && first)
        agreement(m, e);
    for (int i = 0; e != NULL && i < 4 && left() > 20; i++)
        speed(m, e, g.tiny ? depths[i] / 64 + 1 : depths[i]);
    for (int i = 0; e != NULL && first && i < 4 && left() > 20; i++)
        together(e, groups[i]);
    cag_engine_free(e);
    cag_model_close(m);
}

static int usage(void)
{
    fputs("usage: check_cuda [--device DEV] [--plugin FILE] [--tiny] "
          "[--budget S] OUT.json\n", stderr);
    return 64;
}

/* Whether the device can be used, by opening a small model on it. */
static bool has_device(void)
{
    cag_error err = CAG_ERROR_INIT;
    cag_model *m = NULL;
    cag_engine *e = NULL;
    bool there = make_model(&small[0], g.dir) &&
                 ok(cag_model_open(g.dir, CAG_MODEL_NO_TOKENIZER, &m, &err),
                    &err);

    if (there)
        e = engine(m, g.device);
    there = e != NULL;
    cag_engine_free(e);
    cag_model_close(m);
    return there;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "device", required_argument, NULL, 'd' },
        { "plugin", required_argument, NULL, 'p' },
        { "budget", required_argument, NULL, 'b' },
        { "tiny", no_argument, NULL, 't' },
        { NULL, 0, NULL, 0 }
    };
    const char *tmp = getenv("TMPDIR");
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
        if (c == 'd')
            g.device = optarg;
        else if (c == 'p')
            g.plugin = optarg;
        else if (c == 'b')
            g.budget = strtod(optarg, NULL);
        else if (c == 't')
            g.tiny = true;
        else
            return usage();
    if (optind + 1 != argc)
        return usage();
    g.out = argv[optind];
    g.start = now();
    snprintf(g.dir, sizeof g.dir, "%.40s/cag-cuda-XXXXXX",
             tmp != NULL && *tmp != '\0' ? tmp : "/tmp");
    if (mkdtemp(g.dir) == NULL) {
        fprintf(stderr, "check_cuda: %s: %s\n", g.dir, strerror(errno));
        return 73;
    }
    if (!has_device()) {
        fprintf(stderr, "check_cuda: %s\n", why);
        remove_model(g.dir);
        return 69;
    }
    g.steps = jv_new_array();
    for (int i = 0; i < 2 && left() > 20; i++)
        run_model(g.tiny ? &small[i] : &big[i], i == 0);
    remove_model(g.dir);
    jv_free(g.steps);
    return g.n_bad != 0;
}

/*
 * build_opts.c - see build_opts.h.
 */
#include "cmd/build/build_opts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cag/tool/names.h>
#include <cag/tool/text_file.h>
#include <cag/backend.h>

#include "cmd/build/build_hint.h"
#include "cmd/cli/operands.h"
#include "cmd/cli/places.h"
#include "cmd/cli/ui.h"

static const char *const verifies[] = { "header", "full", NULL };

static const char *front_name(int i)
{
    static const char *const names[] = { "keep", "drop", NULL };

    return names[i];
}

/* The codecs that --recode converts to; NULL past the last. */
static const char *recode_name(int i)
{
    const char *name;

    for (int j = 0; (name = cag_kvc_codec_name(j)) != NULL; j++)
        if (cag_kvc_codec_recodes(name) && i-- == 0)
            return name;
    return NULL;
}

struct build_cli cli = { .reserve = -1, .max_loss = -1 };

const opt_spec build_specs[] = {
    OPT_STR('m', "model", &cli.model, "M", "CAG_MODEL",
            "GGUF file, model directory or hub id"),
    OPT_STR(0, "manifest", &cli.manifest, "FILE", NULL,
            "a build described in YAML: cag-manifest(5)"),
    OPT_STR('o', "output", &cli.output, "FILE", NULL, "the cache to write"),
    OPT_FLAG('n', "dry-run", &cli.dry_run,
             "count tokens, sizes and memory; build nothing"),
    OPT_FLAG(0, "check", &cli.check,
             "is FILE.kvc fresh? 0 yes, 1 no, 66 cannot be seen"),
    OPT_FLAG(0, "refresh", &cli.refresh,
             "rebuild FILE.kvc... from what they record"),
    OPT_FLAG('B', "force", &cli.force, "build even if nothing changed"),
    OPT_MORE,
    OPT_CHOICE_OF(0, "codec", &cli.codec, cag_kvc_codec_name, NULL,
                  "how keys and values are stored"),
    { .type = OPT_T_STR,
      .name = "recode",
      .var.str = &cli.recode,
      .choice_at = recode_name,
      .help = "convert IN.kvc to -o FILE" },
    OPT_DOUBLE(0, "max-loss", &cli.max_loss, 0, 1e6, "KL", NULL,
               "refuse a lossy codec above this mean KL; default 3e-4"),
    OPT_CHOICE_OF(0, "calibrate", &cli.calibrate, cag_calibrate_name, NULL,
                  "find heads that quote: for better evidence"),
    OPT_STR(0, "questions", &cli.questions, "F", NULL,
            "measure a null for the label weak: one a line, or JSONL"),
    OPT_I64('c', "ctx-size", &cli.n_ctx, 64, 1 << 24, "N", NULL,
            "context to build for; default: the model's"),
    OPT_I64(0, "reserve", &cli.reserve, 0, 1 << 24, "N", NULL,
            "tokens kept free for question and answer"),
    OPT_STR(0, "system", &cli.system, "TEXT", NULL,
            "the instructions; {refusal} is replaced"),
    OPT_STR(0, "system-file", &cli.system_file, "F", NULL,
            "the instructions, from a file"),
    OPT_STR(0, "label", &cli.label, "TEXT", NULL,
            "the line above the knowledge"),
    OPT_STR(0, "refusal", &cli.refusal, "TEXT", NULL,
            "the answer when it is not in the knowledge"),
    OPT_STR(0, "acknowledgement", &cli.ack, "TEXT", NULL,
            "said to the knowledge, where a template has no system role"),
    OPT_STR(0, "title", &cli.title, "TEXT", NULL,
            "name of the source that is a pipe or '-'"),
    OPT_STR(0, "files0-from", &cli.files0, "F", NULL,
            "NUL-separated list of sources, '-' for stdin"),
    OPT_LIST(0, "include", &cli.include, "PATTERN",
             "take these files of directories, not .md .markdown .rst .txt"),
    OPT_LIST(0, "exclude", &cli.exclude, "PATTERN",
             "leave out these files or directories"),
    OPT_CHOICE_OF(0, "front-matter", &cli.front, front_name, NULL,
                  "YAML front matter of Markdown sources"),
    { .type = OPT_T_STR,
      .name = "chat-template",
      .var.str = &cli.template_name,
      .arg = "NAME",
      .choice_at = cag_template_name, /* for completion */
      .help = "a built-in chat template instead of the model's" },
    OPT_STR(0, "chat-template-file", &cli.template_file, "F", NULL,
            "a chat template (Jinja) from a file"),
    OPT_STR(0, "template-date", &cli.template_date, "YYYY-MM-DD", NULL,
            "the date a template may print"),
    OPT_INT('b', "batch-size", &cli.chunk, 1, 65536, "N", NULL,
            "prompt tokens per pass"),
    OPT_ENGINE(&cli.engine, engine_precision),
    OPT_SIZE(0, "max-memory", &cli.max_memory, 1, INT64_MAX, "B", NULL,
             "refuse a build that needs more"),
    OPT_STR(0, "depfile", &cli.depfile, "FILE", NULL,
            "write a make rule naming every source"),
    OPT_FLAG(0, "allow-outside", &cli.allow_outside,
             "--refresh: read sources outside the cache's directory"),
    OPT_FLAG(0, "keep-mtime", &cli.keep_mtime,
             "leave the time of a fresh file alone"),
    OPT_FLAG(0, "checkpoint", &cli.checkpoint,
             "go on where an interrupted build stopped"),
    OPT_DOUBLE(0, "checkpoint-interval", &cli.checkpoint_s, 0.001, 1e6, "SEC",
               NULL, "save what is computed that often; default 30"),
    OPT_STR(0, "mode", &cli.mode, "OCTAL", NULL, "mode of a new file"),
    OPT_DOUBLE(0, "lock-timeout", &cli.lock_timeout, 0, 1e6, "SEC", NULL,
               "wait for another build of the same file"),
    OPT_CHOICE(0, "verify", &cli.verify, verifies, NULL,
               "full: hash models even if remembered"),
    OPT_FLAG(0, "json", &cli.json, "report as one JSON object a cache"),
    OPT_COMMON,
    OPT_END
};

void build_check_recode(void)
{
    const char *names[16] = { NULL }, *near;
    char list[64] = "";

    if (cag_kvc_codec_recodes(cli.recode))
        return;
    if (cag_kvc_codec_lossy(cli.recode))
        opt_fail("--recode converts without the model, and codec %s needs "
                 "its queries: build with --codec %s",
                 cli.recode, cli.recode);
    for (int i = 0; i < 15 && (names[i] = recode_name(i)) != NULL; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s",
                 i ? " or " : "", names[i]);
    near = opt_did_you_mean(cli.recode, names);
    opt_fail("--recode converts to %s, not to '%s'%s%s%s", list, cli.recode,
             near ? "; did you mean '" : "", near ? near : "",
             near ? "'?" : "");
}

/* May the manifest set this option?  Not where the user did. */
static bool takes(const void *var, bool given, const char *origin)
{
    if (!given || opt_origin(var))
        return false;
    opt_set_origin(var, origin);
    return true;
}

static void take(const char **var, const char *value, const char *origin)
{
    if (takes(var, value != NULL, origin))
        *var = value;
}

static void take_choice(int *var, const char *value, const char *(*name)(int i),
                        const char *origin)
{
    if (takes(var, value != NULL, origin))
        for (int i = 0; name(i); i++)
            if (!strcmp(name(i), value))
                *var = i;
}

static void take_i64(int64_t *var, int64_t value, const char *origin)
{
    if (takes(var, value >= 0, origin))
        *var = value;
}

static void take_int(int *var, int64_t value, const char *origin)
{
    if (takes(var, value >= 0, origin))
        *var = (int)value;
}

static void take_double(double *var, double value, const char *origin)
{
    if (takes(var, value >= 0, origin))
        *var = value;
}

static void take_list(struct opt_list *list, const char *const *value,
                      const char *origin)
{
    if (takes(list, value != NULL, origin))
        for (; *value && list->n < OPT_LIST_MAX; value++)
            list->item[list->n++] = *value;
}

void build_show_defaults(void)
{
    opt_show(&cli.n_ctx, "model");
    opt_show(&cli.reserve, "512, or a quarter of the context");
    engine_opts_show(&cli.engine);
    opt_show(&cli.chunk, "device");
    opt_show(&cli.max_memory, "no limit");
    opt_show(&cli.checkpoint_s, "30");
    opt_show(&cli.max_loss, "codec");
}

/* kb.yaml -> kb.kvc */
static char *default_output(const char *path)
{
    const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
    int n =
        dot && (!slash || dot > slash) ? (int)(dot - path) : (int)strlen(path);
    char *out;

    return asprintf(&out, "%.*s.kvc", n, path) < 0 ? NULL : out;
}

int build_take_manifest(const cag_manifest *m)
{
    static char from[512];

    snprintf(from, sizeof from, "manifest %s", m->path);
    take(&cli.model, m->model, from);
    take(&cli.output, m->output, from);
    take(&cli.engine.device, m->device, from);
    take(&cli.engine.gpu_layers, m->gpu_layers, from);
    take(&cli.depfile, m->depfile, from);
    take(&cli.questions, m->questions, from);
    if (!cli.system_file)
        take(&cli.system, m->system, from);
    if (!cli.system)
        take(&cli.system_file, m->system_file, from);
    take(&cli.label, m->label, from);
    take(&cli.refusal, m->refusal, from);
    take(&cli.ack, m->acknowledgement, from);
    if (!cli.template_file)
        take(&cli.template_name, m->chat_template, from);
    if (!cli.template_name)
        take(&cli.template_file, m->chat_template_file, from);
    take(&cli.template_date, m->template_date, from);
    take_choice(&cli.codec, m->codec, cag_kvc_codec_name, from);
    take_choice(&cli.engine.precision, m->precision, engine_precision, from);
    take_choice(&cli.calibrate, m->calibrate, cag_calibrate_name, from);
    take_choice(&cli.front, m->front_matter, front_name, from);
    take_i64(&cli.n_ctx, m->ctx_size, from);
    take_i64(&cli.reserve, m->reserve, from);
    take_i64(&cli.max_memory, m->max_memory, from);
    take_double(&cli.max_loss, m->max_loss, from);
    take_list(&cli.include, m->include, from);
    take_list(&cli.exclude, m->exclude, from);
    take_int(&cli.engine.n_thread, m->threads, from);
    take_int(&cli.chunk, m->batch_size, from);
    if (!cli.output) {
        cli.output = default_output(m->path);
        if (!cli.output)
            return ui_fail(CAG_E_NOMEM, NULL, "out of memory");
        opt_set_origin(&cli.output, from);
    }
    return UI_OK;
}

/* A value that only this program can judge: 64 for an option's, 78 with its
 * place for a manifest's. */
static int bad_value(const void *var, const char *key, const cag_manifest *m,
                     const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static int bad_value(const void *var, const char *key, const cag_manifest *m,
                     const char *fmt, ...)
{
    cag_error err = CAG_ERROR_INIT;
    const char *origin = opt_origin(var);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(err.msg, sizeof err.msg, fmt, ap);
    va_end(ap);
    if (!m || !origin || strncmp(origin, "manifest", 8))
        opt_fail("%s", err.msg);
    err.status = CAG_E_CONFIG;
    snprintf(err.file, sizeof err.file, "%s", m->path);
    for (int i = 0; i < m->n_place; i++)
        if (!strcmp(m->place[i].key, key)) {
            err.line = m->place[i].line;
            err.column = m->place[i].column;
        }
    return ui_error(&err);
}

static int check_template_name(const cag_manifest *m)
{
    const char *names[64] = { NULL }, *near;
    char list[512];
    size_t n = 0;

    list[0] = 0;
    for (int i = 0; i < 63 && (names[i] = cag_template_name(i)) != NULL; i++) {
        if (!strcmp(names[i], cli.template_name))
            return UI_OK;
        if (n < sizeof list)
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%s",
                                  i ? ", " : "", names[i]);
    }
    near = opt_did_you_mean(cli.template_name, names);
    if (near)
        return bad_value(&cli.template_name, "chat-template", m,
                         "unknown chat template '%s'; did you mean '%s'?",
                         cli.template_name, near);
    return bad_value(&cli.template_name, "chat-template", m,
                     "unknown chat template '%s'; there are %s",
                     cli.template_name, list);
}

/* Options that would be passed over in silence.  What they say is recorded in
 * the cache (--refresh), or not asked for. */
static void refuse_idle(void)
{
    static const void *const what[] = {
        &cli.codec,         &cli.n_ctx,
        &cli.reserve,       &cli.system,
        &cli.system_file,   &cli.label,
        &cli.refusal,       &cli.ack,
        &cli.include,       &cli.exclude,
        &cli.title,         &cli.files0,
        &cli.front,         &cli.template_name,
        &cli.template_file, &cli.engine.precision,
        &cli.calibrate,     &cli.questions
    };
    static const void *const how[] = {
        &cli.model,    &cli.template_date,    &cli.chunk,      &cli.force,
        &cli.depfile,  &cli.keep_mtime,       &cli.checkpoint, &cli.max_memory,
        &cli.max_loss, &cli.engine.gpu_layers
    };
    const char *run = cli.check     ? cli.manifest ? NULL : "--check"
                      : cli.refresh ? "--refresh"
                      : cli.recode  ? "--recode"
                                    : NULL;
    const char *from;

    for (size_t i = 0; run && i < sizeof what / sizeof *what; i++)
        if ((from = opt_origin(what[i])) != NULL)
            opt_fail("%s does not go with %s: %s", from, run,
                     cli.refresh ? "the cache records it; build with it once"
                                 : "nothing is built");
    for (size_t i = 0; run && !cli.refresh && i < sizeof how / sizeof *how; i++)
        if ((from = opt_origin(how[i])) != NULL &&
            strncmp(from, "environment", 11))
            opt_fail("%s does not go with %s: nothing is built", from, run);
    if (run && !cli.recode && cli.output)
        opt_fail("-o does not go with %s: name the caches themselves", run);
}

/* A list of patterns as the library takes it; NULL where none is given. */
static const char *const *patterns(const struct opt_list *l, const char *name,
                                   const char **out)
{
    for (int i = 0; i < l->n; i++) {
        if (!*l->item[i] || *l->item[i] == '!')
            opt_fail("--%s '%s': a pattern is not empty and does not begin "
                     "with '!'",
                     name, l->item[i]);
        out[i] = l->item[i];
    }
    out[l->n] = NULL;
    return l->n ? out : NULL;
}

/* What is only to be copied. */
static void copy_options(cag_build_opts *b)
{
    b->model = cli.model;
    b->output = cli.output;
    b->system = cli.system;
    b->label = cli.label;
    b->refusal = cli.refusal;
    b->acknowledgement = cli.ack;
    b->drop_front_matter = cli.front == 1;
    b->n_ctx = cli.n_ctx;
    b->reserve = cli.reserve;
    b->chat_template = cli.template_name;
    b->codec = cag_kvc_codec_name(cli.codec);
    b->max_loss = cli.max_loss;
    b->calibrate = (cag_calibrate)cli.calibrate;
    if (cli.questions)
        b->calibrate = CAG_CALIBRATE_HEADS;
    b->engine.pass_rows = cli.chunk;
    b->force = cli.force;
    b->keep_mtime = cli.keep_mtime;
    b->allow_outside = cli.allow_outside;
    b->checkpoint = cli.checkpoint;
    b->checkpoint_s = cli.checkpoint_s;
    b->verify_full = cli.verify == 1;
    b->lock_timeout_s = cli.lock_timeout;
    b->max_memory = (uint64_t)cli.max_memory;
    b->depfile = cli.depfile;
    b->template_date = places_epoch();
    b->now = places_now();
}

/* Options that need, or exclude, each other, and their spelling. */
static void check_options(cag_build_opts *b)
{
    if (cli.allow_outside && !cli.refresh)
        opt_fail("--allow-outside belongs to --refresh");
    if (cli.template_date &&
        !operand_date(cli.template_date, &b->template_date))
        opt_fail("--template-date is '%s', expected YYYY-MM-DD",
                 cli.template_date);
    if (cli.mode && !operand_mode(cli.mode, &b->mode))
        opt_fail("--mode is '%s', expected an octal number up to 0777",
                 cli.mode);
    if (cli.checkpoint_s > 0 && !cli.checkpoint)
        opt_fail("--checkpoint-interval belongs to --checkpoint");
    if (cli.refusal && !*cli.refusal)
        opt_fail("--refusal is empty: the model must have something to say");
    if (cli.system && cli.system_file)
        opt_fail("--system and --system-file exclude each other");
    if (cli.template_name && cli.template_file)
        opt_fail("--chat-template and --chat-template-file exclude each "
                 "other");
}

/* Values that a manifest may hold, too. */
static int check_values(cag_build_opts *b, const cag_manifest *m)
{
    int status = cli.template_name ? check_template_name(m) : UI_OK;

    if (status)
        return status;
    if (cli.engine.device && !cag_device_is_name(cli.engine.device))
        return bad_value(&cli.engine.device, "device", m,
                         "unknown device '%s', expected auto, cpu, cuda or "
                         "cuda:N",
                         cli.engine.device);
    if (cli.engine.gpu_layers &&
        !cag_gpu_layers_of(cli.engine.gpu_layers, &b->engine.gpu_layers))
        return bad_value(&cli.engine.gpu_layers, "gpu-layers", m,
                         "gpu-layers is '%s', expected all, auto or a number "
                         "from 1 on (for none: --device cpu)",
                         cli.engine.gpu_layers);
    if (cli.questions && cli.calibrate == CAG_CALIBRATE_OFF)
        return bad_value(&cli.questions, "questions", m,
                         "--questions needs the copy heads that --calibrate "
                         "off does without");
    return UI_OK;
}

int build_fill(cag_build_opts *b, const cag_manifest *m)
{
    /* these live as long as the program */
    static const char *system_text, *template_text;
    static const char *include[OPT_LIST_MAX + 1], *exclude[OPT_LIST_MAX + 1];
    cag_error err = CAG_ERROR_INIT;
    int status;

    refuse_idle();
    cag_build_opts_init(b);
    b->include = patterns(&cli.include, "include", include);
    b->exclude = patterns(&cli.exclude, "exclude", exclude);
    b->places = *places_get();
    b->hooks = places_hooks();
    if (cli.engine.precision == CAG_PRECISION_DEFAULT && !cli.refresh &&
        (!cli.engine.device || strncmp(cli.engine.device, "cuda", 4) != 0))
        build_hint(&b->hooks);
    copy_options(b);
    check_options(b);
    status = check_values(b, m);
    if (status)
        return status;
    engine_opts_fill(&cli.engine, &b->engine);
    if ((cli.system_file &&
         cag_read_text(cli.system_file, &system_text, &err) != CAG_OK) ||
        (cli.template_file &&
         cag_read_text(cli.template_file, &template_text, &err) != CAG_OK))
        return ui_error(&err);
    if (system_text)
        b->system = system_text;
    b->chat_template_text = template_text;
    return UI_OK;
}

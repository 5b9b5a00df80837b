/*
 * cag-build - read texts once, keep the model's attention state in a .kvc.
 */
#include <stdlib.h>
#include <string.h>

#include <cag/pipeline.h>

#include "cmd/build_report.h"
#include "cmd/operands.h"
#include "cmd/opt.h"
#include "cmd/places.h"
#include "cmd/ui.h"

static const char *const codecs[] = { "f16z", "f16", "f32", NULL };
static const char *const precisions[] = { "default", "exact", NULL };
static const char *const fronts[] = { "keep", "drop", NULL };

static struct {
    const char *model, *output, *files0, *title, *system, *system_file,
        *label, *refusal, *template_name, *template_file, *template_date,
        *device, *depfile, *recode, *mode;
    int         codec, precision, front, n_thread, chunk;
    int64_t     n_ctx, reserve, max_memory;
    double      lock_timeout;
    bool        force, check, keep_mtime, dry_run, refresh, verify_full, json;
} o = { .reserve = -1 };

static const opt_spec specs[] = {
    OPT_STR('m', "model", &o.model, "M", NULL,
            "GGUF file, model directory or hub id (or CAG_MODEL)"),
    OPT_STR('o', "output", &o.output, "FILE", NULL, "the cache to write"),
    OPT_CHOICE(0, "codec", &o.codec, codecs, NULL,
               "how keys and values are stored"),
    OPT_I64('c', "ctx-size", &o.n_ctx, 64, 1 << 24, "N", NULL,
            "context to build for; default: the model's"),
    OPT_I64(0, "reserve", &o.reserve, 0, 1 << 24, "N", NULL,
            "tokens kept free for question and answer"),
    OPT_INT('t', "threads", &o.n_thread, 1, 512, "N", "CAG_THREADS",
            "CPU threads"),
    OPT_FLAG('n', "dry-run", &o.dry_run,
             "count tokens, sizes and memory; build nothing"),
    OPT_FLAG(0, "check", &o.check,
             "is FILE.kvc fresh? 0 yes, 1 no, 66 cannot be seen"),
    OPT_FLAG(0, "refresh", &o.refresh,
             "rebuild FILE.kvc... from what they record"),
    OPT_STR(0, "recode", &o.recode, "CODEC", NULL,
            "convert IN.kvc to -o FILE: f16z or f16"),
    OPT_FLAG('B', "force", &o.force, "build even if nothing changed"),
    OPT_MORE,
    OPT_STR(0, "system", &o.system, "TEXT", NULL,
            "the instructions; {refusal} is replaced"),
    OPT_STR(0, "system-file", &o.system_file, "F", NULL,
            "the instructions, from a file"),
    OPT_STR(0, "label", &o.label, "TEXT", NULL,
            "the line above the knowledge"),
    OPT_STR(0, "refusal", &o.refusal, "TEXT", NULL,
            "the answer when it is not in the knowledge"),
    OPT_STR(0, "title", &o.title, "TEXT", NULL,
            "name of the next source that is a pipe or '-'"),
    OPT_STR(0, "files0-from", &o.files0, "F", NULL,
            "NUL-separated list of sources, '-' for stdin"),
    OPT_CHOICE(0, "front-matter", &o.front, fronts, NULL,
               "YAML front matter of Markdown sources"),
    OPT_STR(0, "chat-template", &o.template_name, "NAME", NULL,
            "a built-in chat template instead of the model's"),
    OPT_STR(0, "chat-template-file", &o.template_file, "F", NULL,
            "a chat template (Jinja) from a file"),
    OPT_STR(0, "template-date", &o.template_date, "YYYY-MM-DD", NULL,
            "the date a template may print"),
    OPT_CHOICE(0, "precision", &o.precision, precisions, NULL,
               "exact: f32 throughout"),
    OPT_INT('b', "batch-size", &o.chunk, 1, 65536, "N", NULL,
            "prompt tokens per pass"),
    OPT_STR(0, "device", &o.device, "auto|cpu|cuda[:N]", "CAG_DEVICE",
            "where to compute"),
    OPT_SIZE(0, "max-memory", &o.max_memory, 1, INT64_MAX, "B", NULL,
             "refuse a build that needs more"),
    OPT_STR(0, "depfile", &o.depfile, "FILE", NULL,
            "write a make rule naming every source"),
    OPT_FLAG(0, "keep-mtime", &o.keep_mtime,
             "leave the time of a fresh file alone"),
    OPT_STR(0, "mode", &o.mode, "OCTAL", NULL, "mode of a new file"),
    OPT_DOUBLE(0, "lock-timeout", &o.lock_timeout, 0, 1e6, "SEC", NULL,
               "wait for another build of the same file"),
    OPT_FLAG(0, "verify-full", &o.verify_full,
             "hash models even if remembered"),
    OPT_FLAG(0, "json", &o.json, "report as one JSON object a cache"),
    OPT_COMMON,
    OPT_END
};

static const char examples[] =
    "  cag-build -m model.gguf -o handbook.kvc docs/\n"
    "  cag-build -n -m model.gguf docs/          where are the tokens?\n"
    "  cag-build --check handbook.kvc && echo fresh\n"
    "  cag-build --refresh *.kvc\n";

static const opt_usage usage = {
    "cag-build",
    "[options] -o FILE.kvc SOURCE...\n"
    "[options] --refresh FILE.kvc...\n"
    "[options] --check FILE.kvc...\n"
    "--recode CODEC IN.kvc -o OUT.kvc",
    "read texts once and keep what the model made of them", examples, specs
};

/* Only what the command line and the environment say; sources come later. */
static int fill(cag_build_opts *b)
{
    cag_error err = CAG_ERROR_INIT;

    cag_build_opts_init(b);
    b->places = *places_get();
    b->hooks = places_hooks();
    b->model = o.model;
    b->output = o.output;
    b->system = o.system;
    b->label = o.label;
    b->refusal = o.refusal;
    b->drop_front_matter = o.front == 1;
    b->n_ctx = o.n_ctx;
    b->reserve = o.reserve;
    b->chat_template = o.template_name;
    b->codec = codecs[o.codec];
    b->engine.device = o.device;
    b->engine.n_thread = o.n_thread;
    b->engine.chunk = o.chunk;
    b->engine.precision = o.precision == 1 ? CAG_PRECISION_EXACT
                                           : CAG_PRECISION_DEFAULT;
    b->force = o.force;
    b->keep_mtime = o.keep_mtime;
    b->verify_full = o.verify_full;
    b->lock_timeout_s = o.lock_timeout;
    b->max_memory = (uint64_t)o.max_memory;
    b->depfile = o.depfile;
    b->template_date = places_epoch();
    b->now = places_now();
    if (o.template_date && !operand_date(o.template_date, &b->template_date))
        opt_fail("--template-date is '%s', expected YYYY-MM-DD",
                 o.template_date);
    if (o.mode && !operand_mode(o.mode, &b->mode))
        opt_fail("--mode is '%s', expected an octal number up to 0777",
                 o.mode);
    if (o.system && o.system_file)
        opt_fail("--system and --system-file exclude each other");
    if (o.template_name && o.template_file)
        opt_fail("--chat-template and --chat-template-file exclude each "
                 "other");
    if (o.system_file &&
        cag_read_text(o.system_file, &b->system, &err) != CAG_OK)
        return ui_error(&err);
    if (o.template_file &&
        cag_read_text(o.template_file, &b->chat_template_text, &err) != CAG_OK)
        return ui_error(&err);
    return UI_OK;
}

static int build(cag_build_opts *b, char **operand)
{
    struct operands list;
    cag_build_report r;
    cag_error err = CAG_ERROR_INIT;
    cag_status st;
    int status = operands_read(operand, o.files0, o.title, &list);

    if (status)
        return status;
    if (!list.n)
        opt_fail("no source: name a file or a directory");
    if (!o.output && !o.dry_run)
        opt_fail("no output: name the cache with -o FILE.kvc");
    if (o.output && !strcmp(o.output, "-"))
        opt_fail("-o must be a file: a cache is mapped, not streamed");
    b->source = list.spec;
    b->n_source = list.n;
    ui_catch(true);
    st = o.dry_run ? cag_build_plan(b, &r, &err) : cag_build(b, &r, &err);
    ui_catch(false);
    ui_progress_end();
    if (o.dry_run || st == CAG_E_LIMIT)
        report_plan(&r, o.json);
    else if (!st)
        report_build(o.output, &r, o.json);
    status = st ? ui_error(&err) : UI_OK;
    cag_build_report_release(&r);
    operands_release(&list);
    return status;
}

static int refresh(cag_build_opts *b, char **file)
{
    int status = UI_OK;

    for (; *file; file++) {
        cag_build_report r;
        cag_error err = CAG_ERROR_INIT;
        cag_status st;

        ui_catch(true);
        st = cag_refresh(*file, b, &r, &err);
        ui_catch(false);
        ui_progress_end();
        if (st)
            status = ui_error(&err);
        else
            report_build(*file, &r, o.json);
        cag_build_report_release(&r);
        if (st == CAG_E_CANCELLED)
            break;
    }
    return status;
}

static int check(char **file)
{
    int status = UI_OK;

    for (; *file; file++) {
        int s = report_check(*file, places_get(), o.verify_full, o.json);

        /* the worst one counts: unusable, then stale, then not seen */
        if (s && (!status || status == UI_NOINPUT || s > UI_NOINPUT))
            status = s;
    }
    return status;
}

static int recode(char **file)
{
    cag_error err = CAG_ERROR_INIT;
    int mode = -1;

    if (!o.output || !file[0] || file[1])
        opt_fail("--recode takes one cache and -o OUT.kvc");
    if (o.mode && !operand_mode(o.mode, &mode))
        opt_fail("--mode is '%s', expected an octal number up to 0777",
                 o.mode);
    if (cag_kvc_recode(file[0], o.recode, o.output, mode, o.n_thread, &err))
        return ui_error(&err);
    return UI_OK;
}

int main(int argc, char **argv)
{
    char **operand = opt_parse(&usage, argc, argv, 0);
    cag_build_opts b;
    int status;

    if (opt_wants_config()) {
        opt_print_config();
        return ui_close_stdout(UI_OK);
    }
    if (o.check + o.refresh + (o.recode != NULL) + o.dry_run > 1)
        opt_fail("--check, --refresh, --recode and --dry-run exclude each "
                 "other");
    if ((o.check || o.refresh) && !operand[0])
        opt_fail("name at least one FILE.kvc");
    status = fill(&b);
    if (!status)
        status = o.check     ? check(operand)
                 : o.refresh ? refresh(&b, operand)
                 : o.recode  ? recode(operand)
                             : build(&b, operand);
    return ui_close_stdout(status);
}

/*
 * cag-build - read texts once, keep the model's attention state in a .kvc.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cag/build.h>

#include "cmd/build/build_opts.h"
#include "cmd/build/build_report.h"
#include "cmd/cli/check_report.h"
#include "cmd/cli/operands.h"
#include "cmd/cli/opt.h"
#include "cmd/cli/places.h"
#include "cmd/cli/ui.h"

static const char examples[] =
    "  cag-build -m model.gguf -o handbook.kvc docs/\n"
    "  cag-build -n -m model.gguf docs/          where are the tokens?\n"
    "  cag-build --check handbook.kvc && echo fresh\n"
    "  cag-build --refresh *.kvc\n";

static const opt_usage usage = {
    "cag-build",
    "[options] -o FILE.kvc SOURCE...\n"
    "[options] [--check] --manifest FILE.yaml\n"
    "[options] --refresh FILE.kvc...\n"
    "[options] --check FILE.kvc...\n"
    "--recode CODEC IN.kvc -o OUT.kvc",
    "read texts once and keep what the model made of them",
    examples,
    build_specs,
    NULL,
    NULL
};

/* A text that does not fit: where the tokens are.  The table is talk, so it
 * goes to standard error. */
static void report_excess(const cag_build_report *r, bool json)
{
    if (r->n_source && r->n_ctx && !report_fits(r)) {
        if (json)
            report_plan(cli.output, r, true);
        else if (!ui.quiet)
            report_table(stderr, r, false);
    }
}

/* A cache where a source is meant, and nothing says what is to be made. */
static void refuse_cache(char **operand)
{
    const char *word = operand[0];
    size_t n = word ? strlen(word) : 0;

    if (n > 4 && !strcmp(word + n - 4, ".kvc") && !operand[1] &&
        !access(word, F_OK))
        opt_fail("'%s' is a cache, not a text; to rebuild it: cag-build "
                 "--refresh %s (--check: is it fresh?)",
                 word, word);
}

/* The library knows sources and model; these only this program reads. */
static int refuse_inputs(const char *written, const char *what)
{
    const char *const in[] = { cli.manifest, cli.system_file, cli.template_file,
                               cli.questions, cli.files0 };
    for (size_t i = 0; written && i < sizeof in / sizeof *in; i++)
        if (in[i] && ui_same_file(in[i], written))
            return ui_fail(CAG_E_USAGE, written,
                           "the %s is what the build reads (%s)", what, in[i]);
    return UI_OK;
}

static int build(cag_build_opts *b, char **operand, const cag_manifest *m)
{
    struct operands list = { NULL, 0, NULL };
    cag_build_report r;
    cag_error err = CAG_ERROR_INIT;
    cag_status st;
    int status = UI_OK;

    if (!m)
        status = operands_read(operand, cli.files0, cli.title, &list);
    if (status)
        return status;
    if (!m && !list.n)
        opt_fail("no source: name a file or a directory, as in: cag-build -m "
                 "MODEL -o FILE.kvc docs/");
    if (!cli.output)
        refuse_cache(operand);
    if ((!cli.output || !*cli.output) && !cli.dry_run)
        opt_fail("no output: name the cache with -o FILE.kvc");
    if (cli.output && !strcmp(cli.output, "-"))
        opt_fail("-o must be a file: a cache is mapped, not streamed");
    b->source = m ? m->source : list.spec;
    b->n_source = m ? m->n_source : list.n;
    status = refuse_inputs(cli.output, "output");
    if (!status)
        status = refuse_inputs(cli.depfile, "depfile");
    if (!status && cli.questions)
        status = build_null_check();
    if (status) {
        operands_release(&list);
        return status;
    }
    /* Only a checkpoint has something to save; otherwise a signal ends the
     * run at once, also while it waits for a pipe or for the lock. */
    ui_catch(cli.checkpoint);
    st = cli.dry_run ? cag_build_plan(b, &r, &err) : cag_build(b, &r, &err);
    ui_catch(false);
    ui_progress_end();
    if (cli.dry_run)
        report_plan(cli.output, &r, cli.json);
    else if (!st)
        report_build(cli.output, &r, cli.json);
    else
        report_excess(&r, cli.json);
    status = st ? ui_error(&err) : UI_OK;
    cag_build_report_release(&r);
    if (!status && cli.questions && !cli.dry_run)
        status = build_null(b);
    operands_release(&list);
    return status;
}

static int refresh(cag_build_opts *b, char **file)
{
    const char *from = opt_origin(&cli.model);
    cag_error none = CAG_ERROR_INIT;
    int status = UI_OK;

    /* what the cache records comes before the environment */
    if (from && !strncmp(from, "environment", 11))
        b->model = NULL;
    if (file[1] && cag_build_kit_new(&b->kit, &none))
        return ui_error(&none);
    for (; *file; file++) {
        cag_build_report r;
        cag_error err = CAG_ERROR_INIT;
        cag_status st;
        bool had_null = build_has_null(*file);

        ui_catch(cli.checkpoint);
        st = cag_refresh(*file, b, &r, &err);
        ui_catch(false);
        ui_progress_end();
        if (st) {
            report_excess(&r, cli.json);
            status = report_worse(status, ui_error(&err));
            if (st == CAG_E_MISSING)
                report_way_out(*file);
        } else {
            report_build(*file, &r, cli.json);
            if (had_null && !build_has_null(*file))
                ui_warn("%s: the null of its questions was measured on the "
                        "old text and is gone; build it with --questions",
                        ui_clean(*file));
        }
        cag_build_report_release(&r);
        if (st == CAG_E_CANCELLED)
            break;
    }
    cag_build_kit_free(b->kit);
    b->kit = NULL;
    return status;
}

static int check(char **file)
{
    int status = UI_OK;

    for (; *file; file++)
        status = report_worse(status, report_check(*file, places_get(),
                                                   cli.verify == 1, cli.json));
    return status;
}

static void report_recode(const char *in)
{
    char a[UI_TEXT], b[UI_TEXT];
    cag_kvc *k = NULL, *l = NULL;
    struct ui_json j;

    if (cag_kvc_open(in, &k, NULL) || cag_kvc_open(cli.output, &l, NULL)) {
        cag_kvc_close(k);
        return;
    }
    const cag_kvc_info *x = cag_kvc_get_info(k), *y = cag_kvc_get_info(l);
    ui_note("%s: %s, %s; %s was %s, %s", cli.output, y->codec,
            ui_size(a, y->size_bytes), in, x->codec, ui_size(b, x->size_bytes));
    if (cli.json) {
        ui_json_start(&j, stdout);
        ui_json_object(&j, NULL);
        ui_json_int(&j, "schema", 1);
        ui_json_str(&j, "file", cli.output);
        ui_json_str(&j, "codec", y->codec);
        ui_json_uint(&j, "file_bytes", y->size_bytes);
        ui_json_str(&j, "content_id", y->content_id);
        ui_json_end(&j);
    }
    cag_kvc_close(k);
    cag_kvc_close(l);
}

static int recode(char **file)
{
    cag_error err = CAG_ERROR_INIT;
    int mode = -1;

    if (!cli.output || !file[0] || file[1])
        opt_fail("--recode takes one cache and -o OUT.kvc");
    build_check_recode();
    if (cli.mode && !operand_mode(cli.mode, &mode))
        opt_fail("--mode is '%s', expected an octal number up to 0777",
                 cli.mode);
    if (cag_kvc_recode(file[0], cli.recode, cli.output, mode,
                       cli.engine.n_thread, cli.lock_timeout, &err))
        return ui_error(&err);
    if (cli.json || !ui.quiet)
        report_recode(file[0]);
    return UI_OK;
}

int main(int argc, char **argv)
{
    char **operand = opt_parse(&usage, argc, argv, 0);
    cag_error err = CAG_ERROR_INIT;
    cag_manifest *m = NULL;
    static cag_build_opts b; /* texts it points to live to the end */
    int status = UI_OK;

    if (cli.manifest &&
        (operand[0] || cli.files0 || cli.title || cli.refresh || cli.recode))
        opt_fail("--manifest names the sources itself, and goes with no "
                 "other kind of run");
    if (cli.manifest) {
        status = cag_manifest_load(cli.manifest, &m, &err)
                     ? ui_error(&err)
                     : build_take_manifest(m);
        if (status)
            return ui_close_stdout(status);
    }
    if (opt_wants_config()) {
        build_show_defaults();
        opt_print_config();
        cag_manifest_free(m);
        return ui_close_stdout(UI_OK);
    }
    if (cli.check + cli.refresh + (cli.recode != NULL) + cli.dry_run > 1)
        opt_fail("--check, --refresh, --recode and --dry-run exclude each "
                 "other");
    if ((cli.check || cli.refresh) && !operand[0] && !cli.manifest)
        opt_fail("name at least one FILE.kvc");
    if (cli.refresh && cli.depfile && operand[1])
        opt_fail("--depfile names one file: refresh one cache at a time");
    status = build_fill(&b, m);
    if (!status && cli.check && m) {
        b.source = m->source;
        b.n_source = m->n_source;
        status = report_check_build(&b, cli.manifest, cli.json);
    } else if (!status)
        status = cli.check     ? check(operand)
                 : cli.refresh ? refresh(&b, operand)
                 : cli.recode  ? recode(operand)
                               : build(&b, operand, m);
    cag_manifest_free(m);
    return ui_close_stdout(status);
}

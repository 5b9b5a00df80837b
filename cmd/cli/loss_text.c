/*
 * loss_text.c - see loss_text.h.
 *
 * 256 positions give the mean within about 15 %, the 99th percentile worse
 * (SPIKES B.5): hence two digits, and "about".
 */
#include "cmd/cli/loss_text.h"

#include <stdio.h>

#include "cmd/cli/ui_internal.h"
#include "cmd/cli/ui_wrap.h"

const char *loss_kl(char out[LOSS_TEXT], const cag_kvc_receipt *r)
{
    ui_format(out, LOSS_TEXT, "KL mean %.1e, p99 about %.1e, max %.1e nats",
              (double)r->kl_mean, (double)r->kl_p99, (double)r->kl_max);
    return out;
}

const char *loss_top(char out[LOSS_TEXT], const cag_kvc_receipt *r)
{
    double percent = 100 * (double)r->ppl_change;

    if (percent > -0.005 && percent < 0.005)
        percent = 0; /* not "-0.00" */
    ui_format(out, LOSS_TEXT,
              "best token the same in %lld of %lld, %lld clear "
              "flip%s; perplexity %+.2f %%",
              (long long)r->n_same, (long long)(r->end - r->begin),
              (long long)r->n_clear_flip, ui_s(r->n_clear_flip), percent);
    return out;
}

static void json_loss(struct ui_json *j, const char *key, const cag_kvc_loss *l)
{
    ui_json_object(j, key);
    ui_json_double(j, "max", (double)l->max_abs);
    ui_json_double(j, "rel_rms", (double)l->rel_rms);
    ui_json_int(j, "overflow", l->n_overflow);
    ui_json_int(j, "subnormal", l->n_subnormal);
    ui_json_end(j);
}

void loss_json(struct ui_json *j, const cag_kvc_receipt *r, int n_layer)
{
    ui_json_object(j, "receipt");
    ui_json_int(j, "version", r->version);
    ui_json_int(j, "begin", r->begin);
    ui_json_int(j, "end", r->end);
    ui_json_double(j, "kl_mean", (double)r->kl_mean);
    ui_json_double(j, "kl_p99", (double)r->kl_p99);
    ui_json_double(j, "kl_max", (double)r->kl_max);
    ui_json_int(j, "top1_same", r->n_same);
    ui_json_int(j, "clear_flips", r->n_clear_flip);
    ui_json_double(j, "ppl_change", (double)r->ppl_change);
    if (r->loss) {
        ui_json_array(j, "layers");
        for (int l = 0; l < n_layer; l++) {
            ui_json_object(j, NULL);
            json_loss(j, "k", &r->loss[2 * l]);
            json_loss(j, "v", &r->loss[2 * l + 1]);
            ui_json_end(j);
        }
        ui_json_end(j);
    }
    ui_json_end(j);
}

/* The largest value, and the smallest and largest error of all layers. */
static void print_values(struct ui_wrap *w, const cag_kvc_loss *loss,
                         int n_layer, int is_v)
{
    float max = 0, low = loss[is_v].rel_rms, high = 0;

    for (int l = 0; l < n_layer; l++) {
        const cag_kvc_loss *x = &loss[2 * l + is_v];

        max = x->max_abs > max ? x->max_abs : max;
        low = x->rel_rms < low ? x->rel_rms : low;
        high = x->rel_rms > high ? x->rel_rms : high;
    }
    ui_wrap_printf(w, "%s%c up to %.3g, error %.2f to %.2f %%",
                   is_v ? "; " : "", is_v ? 'V' : 'K', (double)max,
                   100 * (double)low, 100 * (double)high);
}

void loss_print(const cag_kvc_receipt *r, int n_layer)
{
    char t[LOSS_TEXT];
    struct ui_wrap w;

    ui_wrap_lines(&w, stdout, 13);
    ui_wrap_printf(&w, "%-12s %s over the last %lld tokens\n", "receipt",
                   loss_kl(t, r), (long long)(r->end - r->begin));
    ui_wrap_printf(&w, "%-12s %s\n%-12s ", "", loss_top(t, r), "");
    print_values(&w, r->loss, n_layer, 0);
    print_values(&w, r->loss, n_layer, 1);
    ui_wrap_printf(&w, "\n");
    ui_wrap_end(&w);
}

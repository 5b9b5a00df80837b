/*
 * bench_svg.c - the sweep as a drawing: one panel a question.
 *
 * Plain SVG 1.1 without scripts, style sheets, fonts or links, so that it
 * looks the same in a browser, a README and a printer.  Curves differ in
 * colour, in dash and in the shape of their points, and are named at the
 * right of the panel; a bar from best to worst stands at every point.
 */
#include <cag/tool/bench.h>

#include <math.h>
#include <string.h>

#include "cmd/bench_cmd.h"
#include "cmd/cli/ui_internal.h"

enum {
    WIDTH = 760,
    PANEL = 260,
    LEFT = 70,
    RIGHT = 210,
    TOP = 44,
    BOTTOM = 40,
    MAX_POINT = 64,
    MAX_CURVE = 4
};

struct curve_spec {
    const char *name, *state, *label;
};

static const struct panel_spec {
    const char *title, *unit;
    struct curve_spec curve[MAX_CURVE];
} panels[] = {
    { "process start to first byte",
      "s",
      { { "ttft", "warm", "cached, warm" },
        { "ttft", "cold", "cached, cold" },
        { "ttft_uncached", "warm", "reading everything" } } },
    { "first token, in the process",
      "s",
      { { "first_token", "warm", "cached" },
        { "first_token_uncached", "warm", "reading everything" } } },
    { "building the cache",
      "s",
      { { "build", "", "all" },
        { "prefill", "", "prefill" },
        { "write", "", "write" } } },
    { "generated tokens a second",
      "tokens/s",
      { { "decode_rate", "", "one question" } } },
    { "size of the cache", "bytes", { { "file_bytes", "", "file" } } },
};

static const char *const colours[] = { "#1b5e9b", "#c0562b", "#2f7d4f",
                                       "#7a4b9d" };
static const char *const dashes[] = { "", "6 3", "2 3", "8 3 2 3" };

struct curve {
    const struct curve_spec *spec;
    const cag_bench_figure *point[MAX_POINT];
    int n;
};

struct axes {
    double x0, x1, y0, y1;
    bool log_y;
};

static void collect(const cag_bench_report *r, struct curve *c)
{
    for (int i = 0; i < r->n_figure && c->n < MAX_POINT; i++) {
        const cag_bench_figure *f = &r->figure[i];
        int at = c->n;

        if (strcmp(f->name, c->spec->name) != 0 || f->context < 1 ||
            strcmp(f->state, c->spec->state) != 0 || f->batch > 0)
            continue;
        for (; at > 0 && c->point[at - 1]->context > f->context; at--)
            c->point[at] = c->point[at - 1];
        c->point[at] = f;
        c->n++;
    }
}

/* Values that differ much are told apart on a logarithmic axis. */
static void scale(const struct curve *c, int n, struct axes *a)
{
    *a = (struct axes){ INFINITY, 0, INFINITY, 0, false };
    for (int i = 0; i < n; i++)
        for (int k = 0; k < c[i].n; k++) {
            const cag_bench_figure *f = c[i].point[k];
            a->x0 = fmin(a->x0, (double)f->context);
            a->x1 = fmax(a->x1, (double)f->context);
            a->y0 = fmin(a->y0, f->min);
            a->y1 = fmax(a->y1, f->max);
        }
    a->log_y = a->y0 > 0 && a->y1 / a->y0 > 20;
    if (a->log_y) {
        a->y0 = pow(10, floor(log10(a->y0)));
        a->y1 = pow(10, ceil(log10(a->y1)));
    } else {
        a->y0 = 0;
        a->y1 = a->y1 > 0 ? a->y1 * 1.1 : 1;
    }
    if (a->x1 <= a->x0) { /* a single length stands in the middle */
        a->x0 *= 0.5;
        a->x1 *= 2;
    }
}

static double at_x(const struct axes *a, double v)
{
    double t = log(v / a->x0) / log(a->x1 / a->x0);

    return LEFT + t * (WIDTH - LEFT - RIGHT);
}

static double at_y(const struct axes *a, double v, int top)
{
    double t =
        a->log_y ? log(fmax(v, a->y0) / a->y0) / log(a->y1 / a->y0) : v / a->y1;

    return top + PANEL - BOTTOM - t * (PANEL - BOTTOM - TOP);
}

static void escaped(FILE *to, const char *s)
{
    for (; *s != '\0'; s++) {
        if (*s == '<')
            fputs("&lt;", to);
        else if (*s == '&')
            fputs("&amp;", to);
        else if ((unsigned char)*s >= ' ')
            fputc(*s, to);
    }
}

static void text(FILE *to, double x, double y, const char *anchor,
                 const char *s)
{
    fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y,
            anchor);
    escaped(to, s);
    fputs("</text>\n", to);
}

static void draw_axes(FILE *to, const struct axes *a, int top,
                      const struct curve *c)
{
    double right = WIDTH - RIGHT, bottom = top + PANEL - BOTTOM, y = a->y0;
    char n[32];

    fprintf(to,
            "<path d=\"M%d %dV%.1fH%.1f\" fill=\"none\" "
            "stroke=\"#555\"/>\n",
            LEFT, top + TOP, bottom, right);
    for (int i = 0; i <= 12; i++) {
        if (a->log_y ? y > a->y1 * 1.001 : i > 4)
            break;
        double v = a->log_y ? y : a->y1 * i / 4;
        fprintf(to, "<path d=\"M%d %.1fH%.1f\" stroke=\"#ddd\"/>\n", LEFT,
                at_y(a, v, top), right);
        ui_format(n, sizeof n, "%.3g", v);
        text(to, LEFT - 6, at_y(a, v, top) + 4, "end", n);
        y *= 10;
    }
    for (int k = 0; k < c->n; k++) {
        double x = at_x(a, (double)c->point[k]->context);

        ui_format(n, sizeof n, "%lld", (long long)c->point[k]->context);
        text(to, x, bottom + 16, "middle", n);
    }
    text(to, right + 14, bottom + 16, "start", "tokens of knowledge");
}

static void draw_point(FILE *to, int shape, double x, double y)
{
    if (shape == 0)
        fprintf(to, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>\n", x, y);
    else if (shape == 1)
        fprintf(to,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"8\" "
                "height=\"8\"/>\n",
                x - 4, y - 4);
    else
        fprintf(to, "<path d=\"M%.1f %.1fl5 9h-10z\"/>\n", x, y - 5);
}

static void draw_curve(FILE *to, const struct axes *a, int top, int i,
                       const struct curve *c)
{
    double y = 0;

    fprintf(to, "<g stroke=\"%s\" fill=\"%s\">\n", colours[i], colours[i]);
    fprintf(to, "<polyline fill=\"none\" stroke-width=\"2\"");
    if (dashes[i][0] != '\0')
        fprintf(to, " stroke-dasharray=\"%s\"", dashes[i]);
    fprintf(to, " points=\"");
    for (int k = 0; k < c->n; k++)
        fprintf(to, "%s%.1f,%.1f", k ? " " : "",
                at_x(a, (double)c->point[k]->context),
                at_y(a, c->point[k]->median, top));
    fprintf(to, "\"/>\n");
    for (int k = 0; k < c->n; k++) {
        const cag_bench_figure *f = c->point[k];
        double x = at_x(a, (double)f->context);

        y = at_y(a, f->median, top);
        fprintf(to, "<path d=\"M%.1f %.1fV%.1f\"/>\n", x, at_y(a, f->min, top),
                at_y(a, f->max, top));
        draw_point(to, i, x, y);
    }
    fprintf(to, "</g>\n");
}

static void draw_panel(FILE *to, const struct panel_spec *p,
                       const struct curve *c, int n, int top)
{
    const struct curve *longest = c;
    struct axes a;
    char title[128];

    scale(c, n, &a);
    ui_format(title, sizeof title, "%s (%s)", p->title, p->unit);
    text(to, LEFT, top + 26, "start", title);
    for (int i = 1; i < n; i++)
        if (c[i].n > longest->n)
            longest = &c[i];
    draw_axes(to, &a, top, longest);
    for (int i = 0; i < n; i++) {
        double y = top + TOP + 18 * i + 8;

        draw_curve(to, &a, top, i, &c[i]);
        fprintf(to, "<g stroke=\"%s\" fill=\"%s\">\n", colours[i], colours[i]);
        draw_point(to, i, WIDTH - RIGHT + 20, y - 4);
        fprintf(to, "</g>\n");
        text(to, WIDTH - RIGHT + 32, y, "start", c[i].spec->label);
    }
}

/* Curves of a panel that have points; how many. */
static int panel_curves(const cag_bench_report *r, const struct panel_spec *p,
                        struct curve *c)
{
    int n = 0;

    for (int i = 0; i < MAX_CURVE && p->curve[i].name; i++) {
        c[n] = (struct curve){ .spec = &p->curve[i] };
        collect(r, &c[n]);
        n += c[n].n > 0;
    }
    return n;
}

bool bench_print_svg(const cag_bench_report *r, FILE *to)
{
    enum { N = sizeof panels / sizeof panels[0] };
    const char *about[] = { "model", "codec", "cpu", "threads", "date" };
    struct curve c[MAX_CURVE];
    int n_panel = 0, n = 0, top = 30;

    for (int i = 0; i < N; i++)
        n_panel += panel_curves(r, &panels[i], c) > 0;
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
            "height=\"%d\" viewBox=\"0 0 %d %d\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n",
            WIDTH, top + n_panel * PANEL, WIDTH, top + n_panel * PANEL);
    fprintf(to, "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n");
    fputs("<text x=\"12\" y=\"20\">", to);
    for (int i = 0; i < 5; i++) {
        const char *v = cag_bench_get(r, about[i]);
        if (!v)
            continue;
        fputs(n++ ? ", " : "", to);
        fputs(i == 3 ? "threads " : "", to);
        escaped(to, v);
    }
    fputs("</text>\n", to);
    for (int i = 0; i < N; i++) {
        int k = panel_curves(r, &panels[i], c);
        if (k == 0)
            continue;
        draw_panel(to, &panels[i], c, k, top);
        top += PANEL;
    }
    fprintf(to, "</svg>\n");
    return n_panel > 0;
}

/*
 * bench_svg.c - a report as a drawing: what it comes to in words, then one
 * panel a question.
 *
 * Plain SVG 1.1 without scripts, style sheets, fonts or links, so that it
 * looks the same in a browser, a README and a printer.  Curves differ in
 * colour, in dash and in the shape of their points, and are named at the
 * right of the panel; a line from best to worst stands at every point.  Of
 * one size there are bars.
 */
#include <cag/tool/bench.h>

#include <math.h>
#include <string.h>

#include "cmd/bench/bench_axes.h"
#include "cmd/bench/bench_cmd.h"
#include "cmd/bench/bench_words.h"
#include "cmd/cli/ui_internal.h"

enum {
    WIDTH = 760,
    HEAD = 80,
    PANEL = 270, /* height of one with curves */
    BAR = 30,    /* height of a bar in one with bars */
    LEFT = 64,
    RIGHT = 190,
    TOP = 48,
    BOTTOM = 56,
    INSET = 26, /* of the first and last point from the panel's sides */
    MAX_POINT = 64,
    MAX_CURVE = 4
};

struct curve_spec {
    const char *name, *state, *label;
};

static const struct panel_spec {
    const char *title, *unit;
    bool over_batch; /* else over the tokens of the text */
    struct curve_spec curve[MAX_CURVE];
} panels[] = {
    { "From the start of the process to its first byte",
      "s",
      false,
      { { "ttft", "warm", "cached" },
        { "ttft", "cold", "cached, cold disk" },
        { "ttft_uncached", "warm", "reading the text" } } },
    { "First token, in a process that has the model",
      "s",
      false,
      { { "first_token", "warm", "cached" },
        { "first_token_uncached", "warm", "reading the text" } } },
    { "Building the cache",
      "s",
      false,
      { { "build", "", "all" },
        { "prefill", "", "prefill" },
        { "write", "", "write" } } },
    { "Generated tokens a second",
      "tokens/s",
      false,
      { { "decode_rate", "", "one question" } } },
    { "Generated tokens a second, of all questions at once",
      "tokens/s",
      true,
      { { "batch_rate", "", "all together" } } },
    { "Size of the cache", "bytes", false, { { "file_bytes", "", "file" } } },
};

static const char *const colours[] = { "#1b5e9b", "#c0562b", "#2f7d4f",
                                       "#7a4b9d" };
static const char *const dashes[] = { "", "6 3", "2 3", "8 3 2 3" };

struct curve {
    const struct curve_spec *spec;
    const cag_bench_figure *point[MAX_POINT];
    int n;
};

struct panel {
    const struct panel_spec *spec;
    struct curve curve[MAX_CURVE];
    int n, top;
    struct bench_unit unit;
    struct axis x, y;
};

static double size_of(const struct panel_spec *p, const cag_bench_figure *f)
{
    return p->over_batch ? f->batch : (double)f->context;
}

/* A batch is drawn for the longest text only. */
static bool is_of(const cag_bench_report *r, const struct panel_spec *p,
                  const struct curve_spec *c, const cag_bench_figure *f)
{
    if (strcmp(f->name, c->name) || strcmp(f->state, c->state))
        return false;
    if (p->over_batch)
        return f->batch > 0 && f->context == bench_find(r, c->name)->context;
    return f->batch == 0 && f->context > 0;
}

static void collect(const cag_bench_report *r, const struct panel_spec *p,
                    struct curve *c)
{
    for (int i = 0; i < r->n_figure && c->n < MAX_POINT; i++) {
        const cag_bench_figure *f = &r->figure[i];
        int at = c->n;

        if (!is_of(r, p, c->spec, f))
            continue;
        for (; at > 0 && size_of(p, c->point[at - 1]) > size_of(p, f); at--)
            c->point[at] = c->point[at - 1];
        c->point[at] = f;
        c->n++;
    }
}

/* The curves of a panel that have points, and what they reach. */
static bool fill(const cag_bench_report *r, const struct panel_spec *spec,
                 int top, struct panel *p)
{
    double x0 = INFINITY, x1 = 0, y0 = INFINITY, y1 = 0;

    *p = (struct panel){ .spec = spec, .top = top };
    for (int i = 0; i < MAX_CURVE && spec->curve[i].name; i++) {
        struct curve *c = &p->curve[p->n];

        *c = (struct curve){ .spec = &spec->curve[i] };
        collect(r, spec, c);
        for (int k = 0; k < c->n; k++) {
            const cag_bench_figure *f = c->point[k];

            x0 = fmin(x0, size_of(spec, f));
            x1 = fmax(x1, size_of(spec, f));
            y0 = fmin(y0, f->min);
            y1 = fmax(y1, f->max);
        }
        p->n += c->n > 0;
    }
    if (!p->n)
        return false;
    p->unit = bench_unit(spec->unit, y1);
    p->x = axis_of_sizes(x0, x1, LEFT + INSET, WIDTH - RIGHT - INSET);
    p->y = axis_of_values(y0 / p->unit.by, y1 / p->unit.by,
                          top + PANEL - BOTTOM, top + TOP);
    return true;
}

/* Has every curve one point, and all the same size? */
static bool is_bars(const struct panel *p)
{
    for (int i = 0; i < p->n; i++)
        if (p->curve[i].n > 1 || size_of(p->spec, p->curve[i].point[0]) !=
                                     size_of(p->spec, p->curve[0].point[0]))
            return false;
    return true;
}

static int height(const struct panel *p)
{
    return is_bars(p) ? TOP + p->n * BAR + 16 : PANEL;
}

/* --- elements ------------------------------------------------------------ */

static void escaped(FILE *to, const char *s)
{
    for (; *s != '\0'; s++) {
        if (*s == '<')
            fputs("&lt;", to);
        else if (*s == '&')
            fputs("&amp;", to);
        else if ((unsigned char)*s >= ' ' && *s != 0x7F)
            fputc(*s, to);
    }
}

static void text(FILE *to, double x, double y, const char *more, const char *s)
{
    fprintf(to, "<text x=\"%.1f\" y=\"%.1f\"%s%s>", x, y, *more ? " " : "",
            more);
    escaped(to, s);
    fputs("</text>\n", to);
}

#define MIDDLE "text-anchor=\"middle\""
#define END    "text-anchor=\"end\""
#define GREY   "font-size=\"11\" fill=\"#555\""
#define SMALL  "stroke=\"none\" font-size=\"11\""

static void draw_point(FILE *to, int shape, double x, double y)
{
    if (shape == 0)
        fprintf(to, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>\n", x, y);
    else if (shape == 1)
        fprintf(to, "<rect x=\"%.1f\" y=\"%.1f\" width=\"8\" height=\"8\"/>\n",
                x - 4, y - 4);
    else
        fprintf(to, "<path d=\"M%.1f %.1fl5 9h-10z\"/>\n", x, y - 5);
}

/* --- curves -------------------------------------------------------------- */

static void draw_axes(FILE *to, const struct panel *p)
{
    double right = WIDTH - RIGHT, bottom = p->y.p0, v;
    const struct curve *c = p->curve;
    char n[32];

    for (int i = 0; axis_tick(&p->y, i, &v); i++) {
        double y = axis_at(&p->y, v);

        fprintf(to, "<path d=\"M%d %.1fH%.1f\" stroke=\"%s\"/>\n", LEFT, y,
                right, i ? "#ddd" : "#555");
        ui_format(n, sizeof n, "%g", v);
        text(to, LEFT - 8, y + 4, END, n);
    }
    for (int i = 1; i < p->n; i++)
        if (p->curve[i].n > c->n)
            c = &p->curve[i];
    for (int k = 0; k < c->n; k++) {
        double size = size_of(p->spec, c->point[k]), x = axis_at(&p->x, size);

        fprintf(to, "<path d=\"M%.1f %.1fv5\" stroke=\"#555\"/>\n", x, bottom);
        ui_format(n, sizeof n, "%.0f", size);
        text(to, x, bottom + 19, MIDDLE, n);
    }
    text(to, (LEFT + right) / 2, bottom + 38, MIDDLE,
         p->spec->over_batch ? "questions at once (logarithmic axis)"
                             : "tokens of knowledge (logarithmic axis)");
}

/* Another curve's point close above this one: its value would be hidden. */
static bool is_under(const struct panel *p, int i, const cag_bench_figure *f)
{
    double y = axis_at(&p->y, f->median / p->unit.by);

    for (int j = 0; j < p->n; j++)
        for (int k = 0; k < p->curve[j].n; k++) {
            const cag_bench_figure *g = p->curve[j].point[k];
            double d = y - axis_at(&p->y, g->median / p->unit.by);

            if (j != i && size_of(p->spec, g) == size_of(p->spec, f) &&
                (d > 0 || (d == 0 && j < i)) && d < 30)
                return true;
        }
    return false;
}

static bool rises(const struct curve *c, int k)
{
    const cag_bench_figure *a = c->point[k > 0 ? k - 1 : 0];

    return c->point[k + 1 < c->n ? k + 1 : k]->median > a->median * 1.1;
}

static void draw_curve(FILE *to, const struct panel *p, int i)
{
    const struct curve *c = &p->curve[i];

    fprintf(to, "<g stroke=\"%s\" fill=\"%s\">\n", colours[i], colours[i]);
    fprintf(to, "<polyline fill=\"none\" stroke-width=\"2\"");
    if (dashes[i][0] != '\0')
        fprintf(to, " stroke-dasharray=\"%s\"", dashes[i]);
    fprintf(to, " points=\"");
    for (int k = 0; k < c->n; k++)
        fprintf(to, "%s%.1f,%.1f", k ? " " : "",
                axis_at(&p->x, size_of(p->spec, c->point[k])),
                axis_at(&p->y, c->point[k]->median / p->unit.by));
    fprintf(to, "\"/>\n");
    for (int k = 0; k < c->n; k++) {
        const cag_bench_figure *f = c->point[k];
        double x = axis_at(&p->x, size_of(p->spec, f));
        double y = axis_at(&p->y, f->median / p->unit.by);
        char n[32];

        fprintf(to, "<path d=\"M%.1f %.1fV%.1f\"/>\n", x,
                axis_at(&p->y, f->min / p->unit.by),
                axis_at(&p->y, f->max / p->unit.by));
        draw_point(to, i, x, y);
        /* beside the line from best to worst, where the curve is not */
        text(to, rises(c, k) ? x - 7 : x + 7,
             is_under(p, i, f) ? y + 15 : y - 7,
             rises(c, k) ? SMALL " " END : SMALL,
             bench_digits(n, f->median / p->unit.by));
    }
    fprintf(to, "</g>\n");
}

static void draw_curves(FILE *to, const struct panel *p)
{
    draw_axes(to, p);
    for (int i = 0; i < p->n; i++) {
        double y = p->top + TOP + 18 * i + 8;

        draw_curve(to, p, i);
        fprintf(to, "<g stroke=\"%s\" fill=\"%s\">\n", colours[i], colours[i]);
        draw_point(to, i, WIDTH - RIGHT + 20, y - 4);
        fprintf(to, "</g>\n");
        text(to, WIDTH - RIGHT + 32, y, "", p->curve[i].spec->label);
    }
}

/* --- bars ---------------------------------------------------------------- */

static void draw_bars(FILE *to, const struct panel *p)
{
    double longest = 0, from = LEFT + 100, room = WIDTH - from - 110;

    for (int i = 0; i < p->n; i++)
        longest = fmax(longest, p->curve[i].point[0]->max);
    for (int i = 0; i < p->n; i++) {
        const cag_bench_figure *f = p->curve[i].point[0];
        double y = p->top + TOP + BAR * i, by = longest > 0 ? longest : 1;
        char n[48];

        text(to, from - 10, y + 15, END, p->curve[i].spec->label);
        fprintf(to,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"20\" "
                "fill=\"%s\"/>\n",
                from, y, fmax(1, room * f->median / by), colours[i]);
        fprintf(to, "<path d=\"M%.1f %.1fH%.1f\" stroke=\"#222\"/>\n",
                from + room * f->min / by, y + 10, from + room * f->max / by);
        text(to, from + room * f->max / by + 8, y + 15, "",
             bench_amount(n, f->unit, f->median));
    }
}

/* --- the drawing --------------------------------------------------------- */

static void draw_panel(FILE *to, const struct panel *p)
{
    char title[160];

    if (is_bars(p))
        ui_format(title, sizeof title, "%s: %.0f %s", p->spec->title,
                  size_of(p->spec, p->curve[0].point[0]),
                  p->spec->over_batch ? "questions" : "tokens of knowledge");
    else
        ui_format(title, sizeof title, "%s (%s%s)", p->spec->title,
                  p->unit.name, p->y.is_log ? ", logarithmic axis" : "");
    text(to, 12, p->top + 26, "font-weight=\"bold\"", title);
    (is_bars(p) ? draw_bars : draw_curves)(to, p);
}

/* The finding, and what it was found with. */
static void head(FILE *to, const cag_bench_report *r)
{
    static const char *const about[] = { "model", "codec", "cpu", "threads",
                                         "date" };
    char found[256], with[512] = "", *rest;
    int n = 0;

    if (!*bench_summary(r, found))
        ui_format(found, sizeof found, "What cag-bench measured");
    rest = strstr(found, ": "); /* the second half is a line of its own */
    if (rest)
        *rest++ = 0;

    for (int i = 0; i < 5; i++) {
        const char *v = cag_bench_get(r, about[i]);

        if (v) /* of the date the day */
            n += ui_format(with + n, sizeof with - (size_t)n, "%s%.*s%s",
                           n ? ", " : "", i == 4 ? 10 : 200, v,
                           i == 3 ? " threads" : "");
    }
    fputs("<title>", to);
    escaped(to, found);
    fputs("</title>\n<desc>", to);
    escaped(to, "Figures of cag-bench, the median of several measurements "
                "with a line from the best to the worst: ");
    escaped(to, with);
    fputs("</desc>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
          to);
    text(to, 12, 26, "font-size=\"15\" font-weight=\"bold\"", found);
    text(to, 12, 46, GREY, rest ? rest + 1 : "");
    text(to, 12, 62, GREY, with);
}

bool bench_print_svg(const cag_bench_report *r, FILE *to)
{
    enum { N = sizeof panels / sizeof panels[0] };
    struct panel p;
    int top = HEAD;

    for (int i = 0; i < N; i++)
        if (fill(r, &panels[i], top, &p))
            top += height(&p);
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
            "height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n",
            WIDTH, top, WIDTH, top);
    head(to, r);
    top = HEAD;
    for (int i = 0; i < N; i++)
        if (fill(r, &panels[i], top, &p)) {
            draw_panel(to, &p);
            top += height(&p);
        }
    fprintf(to, "</svg>\n");
    return top > HEAD;
}

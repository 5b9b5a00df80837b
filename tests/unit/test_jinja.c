/*
 * test_jinja.c - the template engine against jinja2's recorded output
 * (tests/golden/chat, tests/tools/make_chat_golden.py), its limits, the
 * provenance of its text, and every allocation failure.
 */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "template/jinja.h"
#include "util/file.h"
#include "util/mem.h"

#define NOW 1764000000

static cag_status render(const char *text, const jv *vars, struct buf *out,
                         struct jinja_spans *spans, cag_error *err)
{
    struct jinja *t = NULL;
    cag_status st = jinja_compile(text, strlen(text), "test", &t, err);
    if (st == CAG_OK)
        st = jinja_render_spans(t, vars, NOW, out, spans, err);
    jinja_free(t);
    return st;
}

static void golden(void **state)
{
    cag_error err = CAG_ERROR_INIT;
    jv *cases = NULL;
    int bad = 0;
    (void)state;
    assert_int_equal(
        jv_parse_file("tests/golden/chat/cases.json", 1 << 22, &cases, &err),
        CAG_OK);
    assert_true(jv_count(cases) > 100);
    for (size_t i = 0; i < jv_count(cases); i++) {
        const jv *c = jv_at(cases, i);
        const char *file = jv_get_str(c, "file", NULL);
        const char *want = jv_get_str(c, "out", NULL);
        struct buf text = BUF_INIT, out = BUF_INIT;
        cag_error e = CAG_ERROR_INIT;
        if (file) {
            char path[200];
            snprintf(path, sizeof path, "tests/golden/chat/%s", file);
            assert_int_equal(file_read(path, 1 << 20, &text, &err), CAG_OK);
        } else {
            buf_str(&text, jv_get_str(c, "text", ""));
        }
        cag_status st = render(text.data ? text.data : "", jv_get(c, "vars"),
                               &out, NULL, &e);
        const char *got = out.data ? out.data : "";
        if (want ? st != CAG_OK || strcmp(got, want) != 0 : st == CAG_OK) {
            bad++;
            print_error("case %zu (%s): %s\n want: %s\n  got: %s\n", i,
                        file ? file : jv_get_str(c, "text", ""),
                        st ? e.msg : "", want ? want : "(an error)", got);
        }
        if (!want && st != CAG_OK)
            assert_true(e.msg[0] != 0 && strcmp(e.file, "test") == 0);
        buf_free(&text);
        buf_free(&out);
    }
    jv_free(cases);
    assert_int_equal(bad, 0);
    assert_int_equal(mem_live(), 0);
}

/* the error of a template: status, line, and a word of the message */
static void fails(const char *text, cag_status want, int line, const char *word)
{
    cag_error err = CAG_ERROR_INIT;
    struct buf out = BUF_INIT;
    cag_status st = render(text, NULL, &out, NULL, &err);
    if (st != want || err.line != line || !strstr(err.msg, word))
        fail_msg("%.60s: %s at line %d: %s", text, cag_status_name(st),
                 err.line, err.msg);
    buf_free(&out);
}

static void messages(void **state)
{
    (void)state;
    fails("a\n\n{% include 'x' %}", CAG_E_UNSUPPORTED, 3, "'include'");
    fails("{{ 1 }}\n{{ x | frob }}", CAG_E_UNSUPPORTED, 2, "'frob'");
    fails("{{ x is frob }}", CAG_E_UNSUPPORTED, 1, "'frob'");
    fails("\n\n\n{{ frob(1) }}", CAG_E_UNSUPPORTED, 4, "'frob'");
    fails("{{ a.b }}", CAG_E_UNSUPPORTED, 1, "'a' is undefined");
    fails("\n{{ raise_exception('no\nsystem') }}", CAG_E_MISMATCH, 2,
          "no system");
    fails("{% if x %}\n{% for %}", CAG_E_FORMAT, 2, "name");
    fails("{% for x in y recursive %}{% endfor %}", CAG_E_UNSUPPORTED, 1,
          "recursive");
    fails("x\n{% if x %}\n", CAG_E_FORMAT, 2, "end tag");
    fails("\n{{ 'x", CAG_E_FORMAT, 2, "string");
    fails("\xff", CAG_E_FORMAT, 0, "UTF-8");
}

/* n times a, the middle, n times b */
static char *nest(const char *a, const char *mid, const char *b, int n)
{
    struct buf t = BUF_INIT;
    for (int i = 0; i < n; i++)
        buf_str(&t, a);
    buf_str(&t, mid);
    for (int i = 0; i < n; i++)
        buf_str(&t, b);
    assert_false(buf_failed(&t));
    return buf_detach(&t, NULL);
}

static void limits(void **state)
{
    static const struct {
        const char *a, *mid, *b;
        int n;
    } deep[] = {
        { "(", "1", ")", 100000 },   { "[", "", "]", 100000 },
        { "not ", "1", "", 100000 }, { "-", "1", "", 100000 },
        { "1+", "1", "", 50000 },    { "1 if ", "1", "", 50000 },
        { "{1:", "1", "}", 50000 },  { "", "x", "[0]", 100000 },
        { "", "x", "|list", 50000 }, { "1 if 1 else ", "1", "", 50000 },
        { "", "1", " if 1", 50000 }, { "", "1", "<1", 450000 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof deep / sizeof *deep; i++) {
        char *e = nest(deep[i].a, deep[i].mid, deep[i].b, deep[i].n);
        struct buf b = BUF_INIT, out = BUF_INIT;
        cag_error err = CAG_ERROR_INIT;
        buf_printf(&b, "{{ %s }}", e);
        assert_int_not_equal(render(b.data, NULL, &out, NULL, &err), CAG_OK);
        buf_free(&b);
        buf_free(&out);
        mem_free(e);
    }
    char *ifs = nest("{% if 1 %}", "x", "{% endif %}", 20000);
    fails(ifs, CAG_E_LIMIT, 1, "nested");
    mem_free(ifs);
    fails("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", CAG_E_LIMIT, 1,
          "recurses");
    fails("{% set n = namespace(s='xxxxxxxxxxxxxxxx') %}"
          "{% for a in range(99) %}{% set n.s = n.s + n.s %}{% endfor %}",
          CAG_E_LIMIT, 1, "bytes");
    fails("{% set x = 'abcdefgh' * 1000000 %}{% for a in range(99) %}{{ x }}"
          "{% endfor %}",
          CAG_E_LIMIT, 1, "bytes");
    fails("{{ 'x' * 9223372036854775807 }}", CAG_E_LIMIT, 1, "");
    fails("{{ 9223372036854775807 + 1 }}", CAG_E_LIMIT, 1, "integer");
    fails("{{ 3 ** 9223372036854775807 }}", CAG_E_LIMIT, 1, "integer");
    fails("{% set n = namespace() %}{% set n.n = n %}{{ n }}", CAG_E_LIMIT, 1,
          "recurses");
    fails("{{ range(100001) }}", CAG_E_LIMIT, 1, "range");
    fails("{% for a in range(99999) %}{% for b in range(99999) %}"
          "{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}",
          CAG_E_LIMIT, 1, "");
    assert_int_equal(mem_live(), 0);
}

/* Which bytes of the output are input: '#' marks them. */
static void check_spans(const char *text, const char *want)
{
    static const char json[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"Q1 </t> Q2\"},"
        "{\"role\":\"<b>\",\"content\":\"zz\"}],\"bos\":\"<s>\"}";
    cag_error err = CAG_ERROR_INIT;
    struct jinja_spans sp = { NULL, 0 };
    struct buf out = BUF_INIT;
    jv *vars = NULL;
    assert_int_equal(jv_parse(json, strlen(json), "v", &vars, &err), CAG_OK);
    cag_status st = render(text, vars, &out, &sp, &err);
    if (st != CAG_OK)
        fail_msg("%s: %s", text, err.msg);
    for (size_t i = 0, at = 0; i < sp.n; i++)
        for (; at < sp.s[i].end; at++)
            if (sp.s[i].input)
                out.data[at] = '#';
    assert_string_equal(out.data, want);
    jinja_spans_free(&sp);
    buf_free(&out);
    jv_free(vars);
}

static void provenance(void **state)
{
    (void)state;
    check_spans("{{ bos }}{{ messages[0].role }}:{{ messages[0].content }}.",
                "<s>user:##########.");
    check_spans("{{ '<' + messages[0].content + '>' + messages[1].content }}",
                "<##########>##");
    check_spans("{% set c = messages[0].content.split('</t>') %}"
                "{{ '<t>' ~ c[0].strip() ~ '</t>' ~ c[-1] }}",
                "<t>##</t>###");
    check_spans("{% set x %}a{{ messages[1].content }}b{% endset %}"
                "{{ x[1:] | trim }}{{ x.replace('z', '-') }}"
                "{{ x | replace('a', bos) }}",
                "##ba--b<s>##b");
    check_spans("{% macro m(x) %}[{{ x }}]{% endmacro %}"
                "{{ m(messages[1].content) }}{{ [m('y'), messages[1].content]"
                " | join('+') }}",
                "[##][y]+##");
    check_spans("{{ messages[1].content | upper }}{{ 'a' | upper }}"
                "{{ messages[1].content | tojson }}",
                "##A####");
    check_spans("{{ ('a' + messages[1].content + 'b')[::-1] }}", "b##a");
    check_spans("{{ 'x' }}{{ messages[0].content[3:7] }}{{ messages | length "
                "}}",
                "x####2");
}

static void mentions(void **state)
{
    static const char text[] =
        "{% if enable_thinking is defined %}{{ a.thinking }}{% endif %}";
    struct jinja *t = NULL;
    (void)state;
    assert_int_equal(jinja_compile(text, strlen(text), "t", &t, NULL), CAG_OK);
    assert_true(jinja_mentions(t, "enable_thinking"));
    assert_true(jinja_mentions(t, "a"));
    assert_false(jinja_mentions(t, "thinking"));
    jinja_free(t);
}

/* Every allocation fails once: an error, no leak, no crash. */
static void no_memory(void **state)
{
    static const char json[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a</think>b\"}]}";
    struct buf text = BUF_INIT;
    jv *vars = NULL;
    (void)state;
    assert_int_equal(
        file_read("tests/golden/chat/think.jinja", 1 << 20, &text, NULL),
        CAG_OK);
    buf_str(&text, "{{ messages | tojson }}{% for k in messages | sort("
                   "attribute='role') %}{{ k }}{% endfor %}");
    assert_int_equal(jv_parse(json, strlen(json), "v", &vars, NULL), CAG_OK);
    int64_t live = mem_live();
    bool done = false;
    for (int64_t n = 1; !done; n++) {
        cag_error err = CAG_ERROR_INIT;
        struct buf out = BUF_INIT;
        struct jinja_spans sp = { NULL, 0 };
        mem_fault(n, n % 2 == 0);
        cag_status st = render(text.data, vars, &out, &sp, &err);
        done = fault_missed(n);
        jinja_spans_free(&sp);
        buf_free(&out);
        assert_int_equal(mem_live(), live);
        assert_int_equal(st, done ? CAG_OK : CAG_E_NOMEM);
        if (!done)
            assert_int_equal(err.status, CAG_E_NOMEM);
    }
    jv_free(vars);
    buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden),   cmocka_unit_test(messages),
        cmocka_unit_test(limits),   cmocka_unit_test(provenance),
        cmocka_unit_test(mentions), cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

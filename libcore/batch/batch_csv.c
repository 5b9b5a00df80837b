/*
 * batch_csv.c - see batch_csv.h.
 */
#include "batch/batch_csv.h"

#include <stdio.h>
#include <string.h>

#include "util/error.h"
#include "util/mem.h"

enum { MAX_COLUMNS = 4096 };

void csv_release(struct csv *c)
{
    jv_free(c->names);
    buf_free(&c->record);
    buf_free(&c->json);
    memset(c, 0, sizeof *c);
}

bool csv_add(struct csv *c, const char *line, size_t size)
{
    if (c->record.size)
        buf_char(&c->record, '\n');
    buf_add(&c->record, line, size);
    for (size_t i = 0; i < size; i++)
        c->n_quote += line[i] == '"';
    return buf_failed(&c->record) || c->n_quote % 2 == 0;
}

/* The value at *s, which goes to the separator or the end after it. */
static cag_status take_value(const char **s, const char *end, char separator,
                             struct buf *out, cag_error *err)
{
    buf_clear(out);
    if (*s < end && **s == '"') {
        bool closed = false;

        for (++*s; *s < end; ++*s) {
            closed = **s == '"' && (++*s == end || **s != '"');
            if (closed)
                break;
            buf_char(out, **s);
        }
        if (!closed)
            return cag_fail(err, CAG_E_FORMAT, NULL, -1,
                            "CSV: a quote that is not closed");
        if (*s < end && **s != separator)
            return cag_fail(err, CAG_E_FORMAT, NULL, -1,
                            "CSV: text after a closing quote; a quote in a "
                            "value is written twice");
    } else {
        for (; *s < end && **s != separator; ++*s) {
            if (**s == '"')
                return cag_fail(err, CAG_E_FORMAT, NULL, -1,
                                "CSV: a quote in a value that is not quoted");
            buf_char(out, **s);
        }
    }
    return buf_failed(out) ? cag_fail_nomem(err, "CSV") : CAG_OK;
}

/* All values of the record, as an array. */
static cag_status take_values(const struct buf *record, char separator, jv *to,
                              cag_error *err)
{
    const char *s = record->size ? record->data : "", *end = s + record->size;
    struct buf value = BUF_INIT;
    cag_status st = CAG_OK;
    bool more = true;

    while (!st && more) {
        jv *v;

        st = take_value(&s, end, separator, &value, err);
        if (st)
            break;
        more = s < end;
        s += more;
        v = jv_new_str(value.size ? value.data : "", value.size);
        if (!v)
            st = cag_fail(err, CAG_E_FORMAT, NULL, -1,
                          "CSV: invalid UTF-8 in a value");
        else if (!jv_append(to, v))
            st = cag_fail_nomem(err, "CSV");
    }
    buf_free(&value);
    return st;
}

static cag_status to_object(struct csv *c, const jv *values, cag_error *err)
{
    jv *o = jv_new_object();
    bool ok = o != NULL;
    size_t n;

    for (size_t i = 0; ok && i < jv_count(c->names); i++)
        ok = jv_set(o, jv_str(jv_at(c->names, i), &n),
                    jv_copy(jv_at(values, i)));
    buf_clear(&c->json);
    if (ok)
        jv_dump(o, &c->json);
    jv_free(o);
    return ok && !buf_failed(&c->json) ? CAG_OK : cag_fail_nomem(err, "CSV");
}

static cag_status fail_field(const jv *names, const char *field, cag_error *err)
{
    char list[160] = "";
    size_t n, at = 0;

    for (size_t i = 0; i < jv_count(names) && at < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s",
                               i ? ", " : "", jv_str(jv_at(names, i), &n));
    return cag_fail(err, CAG_E_FORMAT, NULL, -1,
                    "CSV: no column is called \"%s\"; there are: %s; "
                    "--question-field NAME says which one is asked",
                    field, list);
}

static cag_status check_names(const jv *names, const char *field,
                              cag_error *err)
{
    bool found = false;
    size_t n, k;

    if (jv_count(names) > MAX_COLUMNS)
        return cag_fail(err, CAG_E_FORMAT, NULL, -1,
                        "CSV: the header has %zu columns, at most %d are taken",
                        jv_count(names), MAX_COLUMNS);
    for (size_t i = 0; i < jv_count(names); i++) {
        const char *name = jv_str(jv_at(names, i), &n);

        if (!n || strlen(name) != n)
            return cag_fail(err, CAG_E_FORMAT, NULL, -1,
                            "CSV: column %zu has no name", i + 1);
        found = found || !strcmp(name, field);
        for (size_t j = 0; j < i; j++)
            if (!strcmp(jv_str(jv_at(names, j), &k), name))
                return cag_fail(err, CAG_E_FORMAT, NULL, -1,
                                "CSV: two columns are called \"%s\"", name);
    }
    return found ? CAG_OK : fail_field(names, field, err);
}

cag_status csv_take(struct csv *c, cag_error *err)
{
    jv *values = jv_new_array();
    cag_status st;

    if (!values || buf_failed(&c->record))
        st = cag_fail_nomem(err, "CSV");
    else
        st = take_values(&c->record, c->separator, values, err);
    buf_clear(&c->record);
    c->n_quote = 0;
    if (!st && !c->names) {
        st = check_names(values, c->field, err);
        if (!st) {
            c->names = values;
            return CAG_OK;
        }
    } else if (!st && jv_count(values) != jv_count(c->names)) {
        st = cag_fail(err, CAG_E_FORMAT, NULL, -1,
                      "CSV: %zu values, the header has %zu", jv_count(values),
                      jv_count(c->names));
    } else if (!st) {
        st = to_object(c, values, err);
    }
    jv_free(values);
    return st;
}

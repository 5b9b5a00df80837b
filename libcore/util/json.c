/*
 * json.c - strict JSON on jansson; the only file with jansson.h.
 *
 * jansson's reader does not check whether its token buffer could grow: it
 * goes on with a shorter token and then fails an assertion.  So while text
 * is parsed a reserve is held that is large enough for that buffer.  The
 * first allocation that fails switches to the reserve and ends the input;
 * the parse then finishes in an orderly way and its result is thrown away.
 *
 * Text is written by json_write.c.
 */
#include "util/json.h"

#include <jansson.h>
#include <pthread.h>
#include <string.h>

#include "util/file.h"
#include "util/mem.h"

/* --- allocation ---------------------------------------------------------- */

static _Thread_local struct {
    bool failed; /* an allocation failed since watch()         */
    char *reserve;
    size_t cap, used;
} tls;

static void *json_alloc(size_t n)
{
    void *p = mem_alloc(n);

    if (p)
        return p;
    tls.failed = true;
    n = (n + 15) & ~(size_t)15;
    if (!tls.reserve || n > tls.cap - tls.used)
        return NULL;
    p = tls.reserve + tls.used;
    tls.used += n;
    return p;
}

static void json_release(void *p)
{
    uintptr_t at = (uintptr_t)p, base = (uintptr_t)tls.reserve;

    if (tls.reserve && at >= base && at < base + tls.cap)
        return;
    mem_free(p);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void set_up(void)
{
    json_set_alloc_funcs(json_alloc, json_release);
}

/* Before anything that makes values. */
static void watch(void)
{
    pthread_once(&once, set_up);
    tls.failed = false;
}

/* jansson has no const getters, and our values are jansson's */
static json_t *raw(const jv *v)
{
    return (json_t *)(uintptr_t)v;
}

static jv *made(json_t *v)
{
    return (jv *)v;
}

/* --- reading ------------------------------------------------------------- */

struct input {
    const char *text;
    size_t left;
};

static size_t feed(void *buffer, size_t size, void *ctx)
{
    struct input *in = ctx;
    size_t n = in->left < size ? in->left : size;

    if (tls.failed)
        return 0;
    memcpy(buffer, in->text, n);
    in->text += n;
    in->left -= n;
    return n;
}

/* Do these digits, after a minus or not, lie outside of int64? */
static bool beyond_int64(const char *digits, size_t n, bool negative)
{
    const char *max = negative ? "9223372036854775808" : "9223372036854775807";

    return n > 19 || (n == 19 && memcmp(digits, max, 19) > 0);
}

/* Copy text with ".0" after every integer that needs more than 64 bits;
 * false if there is none. */
static bool widen(const char *text, size_t n, struct buf *out)
{
    size_t done = 0;
    bool in_string = false;

    for (size_t i = 0; i < n; i++) {
        size_t digits = i;
        if (text[i] == '"')
            in_string = !in_string;
        if (in_string && text[i] == '\\') {
            i++;
            continue;
        }
        while (!in_string && digits < n && text[digits] >= '0' &&
               text[digits] <= '9')
            digits++;
        if (digits == i)
            continue;
        /* fraction and exponent have digits, too */
        size_t b = i > 1 && text[i - 1] == '-' ? i - 1 : i;
        bool whole = (b == 0 || !strchr(".eE+", text[b - 1])) &&
                     (digits == n || !strchr(".eE", text[digits]));
        if (whole &&
            beyond_int64(text + i, digits - i, i > 0 && text[i - 1] == '-')) {
            buf_add(out, text + done, digits - done);
            buf_str(out, ".0");
            done = digits;
        }
        i = digits - 1;
    }
    if (done)
        buf_add(out, text + done, n - done);
    return done > 0;
}

static cag_status parse(const char *text, size_t n, const char *file,
                        bool retry, jv **out, cag_error *err)
{
    struct input in = { text ? text : "", n };
    json_error_t e;
    json_t *v;

    watch();
    /* the token buffer doubles (sum below 4n); then 1 KiB more of input may
     * still be looked at.  Never touched unless memory runs out. */
    if (n > SIZE_MAX / 16 || !(tls.reserve = mem_alloc(8 * n + 65536)))
        return cag_fail_nomem(err, "JSON");
    tls.cap = 8 * n + 65536;
    tls.used = 0;
    v = json_load_callback(
        feed, &in, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY,
        &e);
    bool failed = tls.failed;
    if (failed) {
        json_decref(v);
        v = NULL;
    }
    mem_free(tls.reserve);
    tls.reserve = NULL;
    tls.cap = 0;
    if (failed || (!v && json_error_code(&e) == json_error_out_of_memory))
        return cag_fail_nomem(err, "JSON");
    if (!v && retry && json_error_code(&e) == json_error_numeric_overflow) {
        struct buf wide = BUF_INIT;
        bool changed = widen(text, n, &wide);
        cag_status st = CAG_OK;
        if (changed)
            st = buf_failed(&wide)
                     ? cag_fail_nomem(err, "JSON")
                     : parse(wide.data, wide.size, file, false, out, err);
        buf_free(&wide);
        if (changed)
            return st;
    }
    if (!v)
        return cag_fail_at(err, CAG_E_FORMAT, file, e.line > 0 ? e.line : 1,
                           e.column > 0 ? e.column : 1, "invalid JSON: %s",
                           e.text);
    *out = made(v);
    return CAG_OK;
}

cag_status jv_parse(const char *text, size_t n, const char *file, jv **out,
                    cag_error *err)
{
    return parse(text, n, file, true, out, err);
}

cag_status jv_parse_file(const char *path, size_t max_bytes, jv **out,
                         cag_error *err)
{
    struct buf b = BUF_INIT;
    cag_status st = file_read_regular(path, max_bytes, &b, err);

    if (!st)
        st = jv_parse(b.data, b.size, path, out, err);
    buf_free(&b);
    return st;
}

cag_status jv_parse_object(const char *path, size_t max_bytes, jv **out,
                           cag_error *err)
{
    jv *v = NULL;
    cag_status st = jv_parse_file(path, max_bytes, &v, err);

    if (!st && jv_type(v) != JV_OBJECT) {
        st = cag_fail(err, CAG_E_FORMAT, path, -1,
                      "holds %s, expected a JSON object", jv_type_name(v));
        jv_free(v);
        v = NULL;
    }
    *out = v;
    return st;
}

void jv_free(jv *v)
{
    json_decref(raw(v));
}

/* --- getters ------------------------------------------------------------- */

enum jv_type jv_type(const jv *v)
{
    if (!v)
        return JV_NULL;
    switch (json_typeof(raw(v))) {
    case JSON_OBJECT:
        return JV_OBJECT;
    case JSON_ARRAY:
        return JV_ARRAY;
    case JSON_STRING:
        return JV_STR;
    case JSON_INTEGER:
        return JV_INT;
    case JSON_REAL:
        return JV_REAL;
    case JSON_TRUE:
    case JSON_FALSE:
        return JV_BOOL;
    default:
        return JV_NULL;
    }
}

const char *jv_type_name(const jv *v)
{
    static const char *const names[] = {
        [JV_NULL] = "null",        [JV_BOOL] = "a boolean",
        [JV_INT] = "an integer",   [JV_REAL] = "a number",
        [JV_STR] = "a string",     [JV_ARRAY] = "an array",
        [JV_OBJECT] = "an object",
    };

    return names[jv_type(v)];
}

const jv *jv_get(const jv *object, const char *key)
{
    return made(json_object_get(raw(object), key));
}

size_t jv_count(const jv *v)
{
    return jv_type(v) == JV_OBJECT ? json_object_size(raw(v))
                                   : json_array_size(raw(v));
}

const jv *jv_at(const jv *array, size_t i)
{
    return made(json_array_get(raw(array), i));
}

const char *jv_str(const jv *v, size_t *n)
{
    const char *s = json_string_value(raw(v));

    if (n)
        *n = s ? json_string_length(raw(v)) : 0;
    return s;
}

const char *jv_get_str(const jv *object, const char *key, const char *def)
{
    const char *s = jv_str(jv_get(object, key), NULL);

    return s ? s : def;
}

int64_t jv_int(const jv *v, int64_t def)
{
    return jv_type(v) == JV_INT ? json_integer_value(raw(v)) : def;
}

int64_t jv_get_int(const jv *object, const char *key, int64_t def)
{
    return jv_int(jv_get(object, key), def);
}

double jv_num(const jv *v, double def)
{
    return v && json_is_number(raw(v)) ? json_number_value(raw(v)) : def;
}

double jv_get_num(const jv *object, const char *key, double def)
{
    return jv_num(jv_get(object, key), def);
}

bool jv_bool(const jv *v, bool def)
{
    return jv_type(v) == JV_BOOL ? json_is_true(raw(v)) : def;
}

bool jv_get_bool(const jv *object, const char *key, bool def)
{
    return jv_bool(jv_get(object, key), def);
}

void *jv_iter(const jv *object)
{
    return json_object_iter(raw(object));
}

void *jv_next(const jv *object, void *it)
{
    return json_object_iter_next(raw(object), it);
}

const char *jv_iter_key(void *it, size_t *n)
{
    if (n)
        *n = json_object_iter_key_len(it);
    return json_object_iter_key(it);
}

const jv *jv_iter_value(void *it)
{
    return made(json_object_iter_value(it));
}

static const jv *need(const jv *object, const char *key, const char *file,
                      cag_error *err)
{
    const jv *v = jv_get(object, key);

    if (v)
        return v;
    if (jv_type(object) != JV_OBJECT)
        cag_fail(err, CAG_E_FORMAT, file, -1,
                 "\"%s\" is looked for in %s, expected an object", key,
                 jv_type_name(object));
    else
        cag_fail(err, CAG_E_FORMAT, file, -1, "\"%s\" is missing", key);
    return NULL;
}

cag_status jv_need_str(const jv *object, const char *key, const char *file,
                       const char **out, cag_error *err)
{
    const jv *v = need(object, key, file, err);

    if (!v)
        return CAG_E_FORMAT;
    if (jv_type(v) != JV_STR)
        return cag_fail(err, CAG_E_FORMAT, file, -1,
                        "\"%s\" is %s, expected a string", key,
                        jv_type_name(v));
    *out = jv_str(v, NULL);
    return CAG_OK;
}

cag_status jv_need_int(const jv *object, const char *key, const char *file,
                       int64_t min, int64_t max, int64_t *out, cag_error *err)
{
    const jv *v = need(object, key, file, err);

    if (!v)
        return CAG_E_FORMAT;
    if (jv_type(v) != JV_INT)
        return cag_fail(err, CAG_E_FORMAT, file, -1,
                        "\"%s\" is %s, expected an integer", key,
                        jv_type_name(v));
    int64_t i = jv_int(v, 0);
    if (i < min || i > max)
        return cag_fail(err, CAG_E_FORMAT, file, -1,
                        "\"%s\" is %lld, expected %lld..%lld", key,
                        (long long)i, (long long)min, (long long)max);
    *out = i;
    return CAG_OK;
}

/* --- making -------------------------------------------------------------- */

jv *jv_new_object(void)
{
    watch();
    return made(json_object());
}

jv *jv_new_array(void)
{
    watch();
    return made(json_array());
}

jv *jv_new_str(const char *s, size_t n)
{
    watch();
    return made(json_stringn(s, n));
}

jv *jv_new_int(int64_t v)
{
    watch();
    return made(json_integer(v));
}

jv *jv_new_real(double v)
{
    watch();
    return made(json_real(v));
}

jv *jv_new_bool(bool v)
{
    return made(json_boolean(v));
}

jv *jv_new_null(void)
{
    return made(json_null());
}

jv *jv_copy(const jv *v)
{
    watch();
    json_t *copy = json_deep_copy(raw(v));
    /* it leaves out the members that it could not copy */
    if (copy && tls.failed) {
        json_decref(copy);
        copy = NULL;
    }
    return made(copy);
}

bool jv_set(jv *object, const char *key, jv *value)
{
    watch();
    return json_object_set_new(raw(object), key, raw(value)) == 0;
}

void jv_clear(jv *array)
{
    json_array_clear(raw(array));
}

bool jv_append(jv *array, jv *value)
{
    watch();
    return json_array_append_new(raw(array), raw(value)) == 0;
}

void jv_remove(jv *object, const char *key)
{
    json_object_del(raw(object), key);
}

bool jv_set_str(jv *object, const char *key, const char *s)
{
    return jv_set(object, key, jv_new_str(s, strlen(s)));
}

bool jv_set_int(jv *object, const char *key, int64_t v)
{
    return jv_set(object, key, jv_new_int(v));
}

bool jv_set_bool(jv *object, const char *key, bool v)
{
    return jv_set(object, key, jv_new_bool(v));
}

bool jv_set_real(jv *object, const char *key, double v)
{
    return jv_set(object, key, jv_new_real(v));
}

/*
 * json.h - strict JSON with our errors; the only view of jansson.
 *
 * The prefix is jv_ because jansson's own symbols begin with json_.
 * Reading: duplicate keys, bad UTF-8, trailing bytes are refused; \u0000 is
 * allowed.  An integer beyond 64 bits is a real (transformers writes
 * model_max_length as 10^30).  Errors give file, line and column.  Getters
 * never fail hard: a missing key or another type gives the default, unless
 * a jv_need_* function is used, which fills err and names the key.
 * Writing: jv_dump keeps the insertion order; jv_dump_canonical sorts keys
 * bytewise without spaces, raw UTF-8, and refuses reals (kvc(5), META).
 *
 * Values returned by getters are borrowed from their container.  jv_new_*
 * values are owned by the caller until given to jv_set or jv_append, which
 * take them over (even on failure) and return false when out of memory.
 */
#ifndef UTIL_JSON_H
#define UTIL_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/buf.h"
#include "util/error.h"

typedef struct jv jv; /* opaque; a jansson value */

enum jv_type { JV_NULL, JV_BOOL, JV_INT, JV_REAL, JV_STR, JV_ARRAY, JV_OBJECT };

cag_status jv_parse(const char *text, size_t n, const char *file, jv **out,
                    cag_error *err);
cag_status jv_parse_file(const char *path, size_t max_bytes, jv **out,
                         cag_error *err);
/* The same of a file that must hold an object: else CAG_E_FORMAT. */
cag_status jv_parse_object(const char *path, size_t max_bytes, jv **out,
                           cag_error *err);
void jv_free(jv *v); /* drops one owned reference */

enum jv_type jv_type(const jv *v); /* NULL -> JV_NULL */
const char *jv_type_name(const jv *v);
const jv *jv_get(const jv *object, const char *key); /* NULL if absent */
size_t jv_count(const jv *v);               /* array or object, else 0 */
const jv *jv_at(const jv *array, size_t i); /* NULL outside */
const char *jv_str(const jv *v, size_t *n); /* NULL if not a string */
const char *jv_get_str(const jv *object, const char *key, const char *def);
int64_t jv_int(const jv *v, int64_t def);
int64_t jv_get_int(const jv *object, const char *key, int64_t def);
double jv_num(const jv *v, double def); /* integer or real */
double jv_get_num(const jv *object, const char *key, double def);
bool jv_bool(const jv *v, bool def);
bool jv_get_bool(const jv *object, const char *key, bool def);

/* Iterate an object in insertion order: for (it = jv_iter(o); it; it =
 * jv_next(o, it)) */
void *jv_iter(const jv *object);
void *jv_next(const jv *object, void *it);
const char *jv_iter_key(void *it, size_t *n);
const jv *jv_iter_value(void *it);

/* Required members: err names file, key, found and expected. */
cag_status jv_need_str(const jv *object, const char *key, const char *file,
                       const char **out, cag_error *err);
cag_status jv_need_int(const jv *object, const char *key, const char *file,
                       int64_t min, int64_t max, int64_t *out, cag_error *err);

jv *jv_new_object(void);
jv *jv_new_array(void);
jv *jv_new_str(const char *s, size_t n); /* NULL if not UTF-8 */
jv *jv_new_int(int64_t v);
jv *jv_new_real(double v);
jv *jv_new_bool(bool v);
jv *jv_new_null(void);
jv *jv_copy(const jv *v); /* deep */
bool jv_set(jv *object, const char *key, jv *value);
bool jv_append(jv *array, jv *value);
void jv_clear(jv *array); /* cannot fail */
void jv_remove(jv *object, const char *key);
bool jv_set_str(jv *object, const char *key, const char *s);
bool jv_set_int(jv *object, const char *key, int64_t v);
bool jv_set_bool(jv *object, const char *key, bool v);
bool jv_set_real(jv *object, const char *key, double v);

void jv_dump(const jv *v, struct buf *out); /* compact, one line */
cag_status jv_dump_canonical(const jv *v, struct buf *out, cag_error *err);

#endif

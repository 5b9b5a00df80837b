/*
 * focus_json.c - see focus_json.h.
 */
#include "ask/focus_json.h"

#include <string.h>

#include "ask/answer_copy.h"
#include "evidence/evidence_json.h"
#include "util/mem.h"

static const char whole[] = "whole";

static const char *look_name(cag_focus from)
{
    return from ? cag_focus_name(from) : whole;
}

static bool add_look(jv *list, const cag_look *l)
{
    jv *o = jv_new_object();

    if (o && jv_set_str(o, "look", look_name(l->from)) &&
        jv_set(o, "answer", jv_new_str(l->text, l->size)) &&
        jv_set_str(o, "finish_reason", l->finish) &&
        jv_set_str(o, "support", cag_support_name(l->support)) &&
        jv_set_real(o, "support_score", evidence_json_score(l->score)))
        return jv_append(list, o);
    jv_free(o);
    return false;
}

bool focus_json_add(jv *row, const cag_looked *l)
{
    jv *looks = jv_new_array(), *passages = jv_new_array();
    bool ok = looks && passages;

    for (int i = 0; i < l->n_look && ok; i++)
        ok = add_look(looks, &l->look[i]);
    for (int i = 0; i < l->n_passage && ok; i++)
        ok = evidence_json_piece(passages, &l->passage[i]);
    if (!ok || !jv_set_str(row, "look", look_name(l->look[l->given].from))) {
        jv_free(looks);
        jv_free(passages);
        return false;
    }
    ok = jv_set(row, "looks", looks);
    return jv_set(row, "passages", passages) && ok;
}

bool focus_json_has(const char *key)
{
    return !strcmp(key, "look") || !strcmp(key, "looks") ||
           !strcmp(key, "passages");
}

static bool read_look(const jv *o, cag_look *out)
{
    const char *name = jv_get_str(o, "look", "");

    out->text = NULL;
    for (int f = CAG_FOCUS_OFF; f < CAG_FOCUS_AUTO; f++)
        if (!strcmp(name, look_name((cag_focus)f))) {
            const char *s = jv_str(jv_get(o, "answer"), &out->size);
            const char *finish = jv_get_str(o, "finish_reason", "");

            out->finish = !strcmp(finish, "length") ? "length" : "stop";
            out->from = (cag_focus)f;
            out->text = s ? mem_strndup(s, out->size) : NULL;
            return s != NULL;
        }
    return false;
}

cag_looked *focus_json_read(const jv *row, bool *failed)
{
    const jv *looks = jv_get(row, "looks");
    const char *given = jv_get_str(row, "look", "");
    cag_looked *l;
    size_t n = jv_count(looks);

    *failed = false;
    if (jv_type(looks) != JV_ARRAY || !n || n > CAG_LOOKS)
        return NULL;
    l = mem_zalloc(sizeof *l);
    *failed = !l;
    for (size_t i = 0; i < n && l; i++) {
        cag_look *k = &l->look[l->n_look];
        bool is_look = read_look(jv_at(looks, i), k);

        l->n_look += k->text != NULL;
        if (!strcmp(jv_get_str(jv_at(looks, i), "look", ""), given))
            l->given = (int)i;
        if (!k->text) {
            *failed = is_look;
            answer_looked_free(l);
            l = NULL;
        }
    }
    return l;
}

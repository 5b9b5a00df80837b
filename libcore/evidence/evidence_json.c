/*
 * evidence_json.c - see evidence_json.h.
 */
#include "evidence/evidence_json.h"

#include <string.h>

/* Four digits say all that a score says. */
double evidence_json_score(double v)
{
    return (double)(int64_t)(v * 10000 + 0.5) / 10000;
}

static jv *piece_json(const cag_piece *p)
{
    jv *o = jv_new_object();

    if (o && jv_set_str(o, "source", p->source) &&
        jv_set(o, "path",
               p->path ? jv_new_str(p->path, strlen(p->path))
                       : jv_new_null()) &&
        jv_set_str(o, "state", cag_source_state_name(p->state)) &&
        (!p->filtered || jv_set_bool(o, "filtered", true)) &&
        jv_set_int(o, "line_from", p->line_from) &&
        jv_set_int(o, "line_to", p->line_to) &&
        jv_set_int(o, "byte_from", (int64_t)p->byte_from) &&
        jv_set_int(o, "byte_to", (int64_t)p->byte_to) &&
        jv_set(o, "text", jv_new_str(p->text, p->size)))
        return o;
    jv_free(o);
    return NULL;
}

static bool add_evidence(jv *list, const cag_evidence *e)
{
    jv *o = piece_json(&e->at);

    if (o && jv_set_real(o, "score", evidence_json_score(e->score)) &&
        jv_set_str(o, "sha256", e->at.sha256))
        return jv_append(list, o);
    jv_free(o);
    return false;
}

static bool add_quote(jv *list, const cag_quote *q)
{
    jv *o = piece_json(&q->at);

    if (o && jv_set_int(o, "tokens", q->n_tok))
        return jv_append(list, o);
    jv_free(o);
    return false;
}

bool evidence_json_piece(jv *list, const cag_piece *p)
{
    jv *o = piece_json(p);

    if (o && jv_set_str(o, "sha256", p->sha256))
        return jv_append(list, o);
    jv_free(o);
    return false;
}

bool evidence_json_add(jv *row, const cag_checked *c)
{
    jv *evidence = jv_new_array(), *quotes = jv_new_array();
    jv *unsupported = jv_new_array();
    bool ok = evidence && quotes && unsupported;

    for (int i = 0; i < c->n_evidence && ok; i++)
        ok = add_evidence(evidence, &c->evidence[i]);
    for (int i = 0; i < c->n_quote && ok; i++)
        ok = add_quote(quotes, &c->quote[i]);
    for (int i = 0; i < c->n_unsupported && ok; i++)
        ok = jv_append(unsupported, jv_new_str(c->unsupported[i],
                                               strlen(c->unsupported[i])));
    ok = ok && (!c->refused_by || jv_set_str(row, "by", c->refused_by)) &&
         (!c->withheld ||
          jv_set(row, "withheld", jv_new_str(c->withheld, c->n_withheld))) &&
         jv_set_str(row, "support", cag_support_name(c->support)) &&
         jv_set_real(row, "support_score", evidence_json_score(c->score)) &&
         jv_set_str(row, "evidence_by", c->by);
    if (!ok) {
        jv_free(evidence);
        jv_free(quotes);
        jv_free(unsupported);
        return false;
    }
    ok = jv_set(row, "evidence", evidence);
    ok = jv_set(row, "quotes", quotes) && ok;
    return jv_set(row, "unsupported", unsupported) && ok;
}

bool evidence_json_has(const char *key)
{
    static const char *const name[] = { "by",          "withheld",
                                        "support",     "support_score",
                                        "evidence",    "quotes",
                                        "unsupported", "evidence_by" };

    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++)
        if (!strcmp(key, name[i]))
            return true;
    return false;
}

/*
 * answer_copy.c - see answer_copy.h.
 */
#include "ask/answer_copy.h"

#include <string.h>

#include "ask/token_logprobs.h"
#include "evidence/line_mass.h"
#include "evidence/support_facts.h"
#include "util/error.h"
#include "util/mem.h"

void answer_checked_free(cag_checked *c)
{
    if (!c)
        return;
    mem_free(c->evidence);
    mem_free(c->quote);
    support_facts_free(c->unsupported, c->n_unsupported);
    mem_free(c->withheld);
    mem_free(c);
}

void answer_looked_free(cag_looked *l)
{
    for (int i = 0; l && i < l->n_look; i++)
        mem_free(l->look[i].text);
    mem_free(l);
}

void cag_answer_release(cag_answer *a)
{
    mem_free(a->text);
    mem_free(a->reasoning);
    answer_checked_free(a->checked);
    answer_looked_free(a->looked);
    line_mass_release(a->attention);
    mem_free(a->logprob);
    memset(a, 0, sizeof *a);
}

static cag_looked *copy_looked(const cag_looked *l)
{
    cag_looked *copy = mem_zalloc(sizeof *copy);

    if (!copy)
        return NULL;
    *copy = *l;
    copy->n_look = 0;
    for (int i = 0; i < l->n_look; i++) {
        cag_look *to = &copy->look[copy->n_look++];

        to->text = mem_strndup(l->look[i].text, l->look[i].size);
        if (!to->text) {
            answer_looked_free(copy);
            return NULL;
        }
    }
    return copy;
}

cag_status answer_copy(cag_answer *to, const cag_answer *a, cag_error *err)
{
    *to = *a;
    to->checked = NULL;
    to->text = mem_strndup(a->text, a->size);
    to->reasoning = a->reasoning ? mem_strdup(a->reasoning) : NULL;
    to->looked = a->looked ? copy_looked(a->looked) : NULL;
    to->attention = line_mass_share(a->attention);
    to->logprob = token_logprobs_copy(a);
    if (to->text && (!a->reasoning || to->reasoning) &&
        (!a->looked || to->looked) && (!a->n_logprob || to->logprob))
        return CAG_OK;
    cag_answer_release(to);
    return cag_fail_nomem(err, "answer");
}

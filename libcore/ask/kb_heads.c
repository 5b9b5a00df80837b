/*
 * kb_heads.c - the cache's copy heads, given to its engine to be measured.
 *
 * An engine measures the same heads for all its sessions.  Of several caches on
 * one engine (kb_shared.h) the first has its own; another one that has others
 * goes by words, and says so.
 */
#include "ask/kb.h"

#include "engine/session.h"
#include "util/error.h"
#include "util/mem.h"

static bool comes_before(const cag_kvc_head *a, const struct copy_head *b)
{
    return a->layer < b->layer || (a->layer == b->layer && a->head < b->head);
}

cag_status kb_set_heads(cag_kb *kb, cag_error *err)
{
    const cag_kvc_attention *a = cag_kvc_get_attention(kb->kvc);
    cag_error why = CAG_ERROR_INIT;
    struct copy_head *head;
    cag_status st = CAG_OK;

    if (!a || a->head[0].mass < CAG_QUOTE_MASS || !kb->prefix)
        return CAG_OK;
    head = mem_alloc_array((size_t)a->n_head, sizeof *head);
    if (!head)
        return cag_fail_nomem(err, "copy heads");
    for (int i = 0; i < a->n_head; i++) { /* ascending, as the engine has it */
        int at = i;

        for (; at > 0 && comes_before(&a->head[i], &head[at - 1]); at--)
            head[at] = head[at - 1];
        head[at] = (struct copy_head){ a->head[i].layer, a->head[i].head };
    }
    if (kb->own_engine->n_ref == 1)
        st = engine_set_heads(kb->engine, head, a->n_head, &why);
    else if (!engine_has_heads(kb->engine, head, a->n_head))
        st = CAG_E_UNSUPPORTED;
    mem_free(head);
    kb->n_head = st ? 0 : a->n_head;
    if (st == CAG_E_USAGE)
        return cag_fail(err, CAG_E_MISMATCH, cag_kvc_get_info(kb->kvc)->path,
                        -1,
                        "section ATTN names heads that the model does not "
                        "have; build the cache again");
    return st && st != CAG_E_UNSUPPORTED ? cag_error_copy(err, &why) : CAG_OK;
}

/*
 * kb.h - what a cag_kb is made of; internal.
 */
#ifndef ASK_KB_H
#define ASK_KB_H

#include <cag/ask.h>

#include "ask/kb_shared.h"
#include "evidence/evidence_base.h"
#include "prompt/prompt.h"
#include "util/file.h"

/* A file that is mapped, as it was when it was opened. */
struct kb_file {
    const char *path; /* the kvc's or the model's */
    struct file_id id;
};

struct cag_kb {
    cag_kvc *kvc;
    struct kb_model *own_model; /* NULL with no_weights, as the rest of it */
    struct kb_engine *own_engine;
    cag_model *model;   /* own_model's */
    cag_engine *engine; /* own_engine's */
    cag_prefix *prefix; /* NULL with no_cache                    */
    const cag_tokenizer *tok;
    const int32_t *ids; /* [n_ids] the prefix                    */
    size_t n_ids;
    struct prompt_tail tail; /* what follows the prefix               */
    int64_t n_ctx;
    int n_vocab;
    int n_unseen;
    struct evidence_base *evidence; /* from the first check on, or NULL */
    double load_s;
    cag_kb_times times;   /* expand is the prefix's */
    struct kb_file *file; /* [n_file] */
    int n_file;
    int n_head;      /* copy heads that are measured; 0: none */
    bool calibrates; /* their null is being measured */
    bool no_cache;
    bool is_small;     /* the model: focus.c                                  */
    int64_t spare_tok; /* room that sessions have for later turns */
    cag_places places;
    cag_hooks hooks;
};

/*
 * What is mapped must be what was opened: a file that was written in place
 * would give answers made of old and new.  One that was replaced (renamed
 * over, removed) is still mapped as it was.  CAG_E_IO names the file.
 */
cag_status kb_check_files(const cag_kb *kb, cag_error *err);
/* Give the engine the cache's copy heads, if it takes them (kb->n_head).
 * CAG_E_MISMATCH (heads that the model does not have), CAG_E_NOMEM. */
cag_status kb_set_heads(cag_kb *kb, cag_error *err);
/* A question of which the model cannot see everything is worth a warning. */
void kb_note_dropped(const cag_kb *kb, const cag_ids *ids);
/* May a token end an answer of this cache? */
bool kb_is_stop(const cag_kb *kb, int32_t id);
/*
 * A session that holds the prefix (mapped, or read in full with no_cache)
 * and has room for n_more tokens.
 */
cag_status kb_session(cag_kb *kb, int64_t n_more, cag_session **out,
                      cag_error *err);

#endif

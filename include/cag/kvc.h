/*
 * kvc.h - open, describe, verify and recode .kvc files.  Format: kvc(5).
 *
 * cag_kvc_open maps the file and checks the header and every small section
 * whole (SHA-256); KV chunks are checked before first use (XXH3-64 of the
 * stored bytes) or all at once by cag_kvc_verify.  A cag_kvc is immutable
 * and thread-safe; everything it hands out is valid until cag_kvc_close.
 */
#ifndef CAG_KVC_H
#define CAG_KVC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cag/base.h>
#include <cag/tokenizer.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cag_kvc cag_kvc;

#define CAG_KVC_MAJOR 1
#define CAG_KVC_MINOR 0

typedef struct cag_kvc_source {
    const char *name;    /* as the model sees it                      */
    const char *path;    /* relative to the .kvc's directory, or NULL
                            for standard input and pipes              */
    const char *filter;  /* external command's description, or NULL   */
    const char *group;   /* the glob or directory it came from, NULL  */
    uint64_t size_bytes; /* raw                                       */
    char sha256_raw[65], sha256_text[65];
    uint64_t text_off, text_bytes; /* its text inside the prefix text  */
    int64_t tok_begin, tok_end;    /* ids that begin inside that text  */
} cag_kvc_source;

typedef struct cag_kvc_info {
    const char *path;
    int major, minor;
    uint64_t size_bytes;
    const char *codec; /* one of cag_kvc_codec_name           */
    int n_layer, n_kv_head, d_head;
    int64_t n_tok; /* of the prefix                       */
    int chunk_tok;
    uint64_t kv_raw_bytes, kv_stored_bytes;
    int64_t n_ctx, reserve;
    int n_source;
    const char *model_name, *model_arch;
    const char *model_path, *model_hub; /* NULL if not recorded          */
    int n_vocab;
    const char *weights_sha256, *config_sha256, *tokenizer_sha256,
        *template_sha256, *text_sha256;
    const char *binding, *content_id; /* 64 hex digits                 */
    const char *template_date;        /* ISO 8601 day, or NULL         */
    const char *precision, *numerics, *device, *tool; /* provenance        */
    const char *system, *label, *refusal; /* the prompt's parts            */
    const char *acknowledgement;          /* or NULL: none is in it        */
    bool knows_thinking;
    int64_t checkpoint_of; /* 0, or: the first n_tok of so many
                              tokens of an unfinished build       */
    const char *kv_class;  /* what an element is: "f16"           */
    int row_bytes;         /* of one token and head of K, or of V */
} cag_kvc_info;

/* What a lossy codec did to K or V of one layer. */
typedef struct cag_kvc_loss {
    float max_abs;       /* of the exact values                       */
    float rel_rms;       /* rms of the differences / rms of the values */
    int64_t n_subnormal; /* exact values that are f16 subnormals      */
    int64_t n_overflow;  /* stored values that no f16 holds           */
} cag_kvc_loss;

/*
 * The receipt of a lossy codec, measured when the cache was built: the last
 * n tokens of the prefix were read once more over the stored keys and values
 * of all before them, and compared with the exact pass.
 */
typedef struct cag_kvc_receipt {
    int version;        /* of the codec's coder                      */
    int64_t begin, end; /* the tokens that were compared             */
    float kl_mean, kl_p99, kl_max; /* nats, of the next token           */
    int64_t n_same;           /* positions whose best token is the same    */
    int64_t n_clear_flip;     /* ... is another, and was ahead by over 0.1 */
    float ppl_change;         /* of the perplexity; 0.01 is 1 % worse      */
    const cag_kvc_loss *loss; /* [n_layer][2]: K, V                        */
} cag_kvc_receipt;

/* A head of the model's attention, and the share of it that went to the very
 * token that came next, when lines of the text were quoted. */
typedef struct cag_kvc_head {
    int layer, head;
    float mass; /* 0 .. 1 */
} cag_kvc_head;

/*
 * Copy heads: those that look where the text says what comes next, found when
 * the cache was built.  If the best one's mass is below CAG_QUOTE_MASS they are
 * not used.  The null is what they look like where the text does not have the
 * answer: the quantile, over questions of a user, of the attention on the best
 * place times the model's confidence while the lines of evidence were hidden.
 */
typedef struct cag_kvc_attention {
    int version;
    const cag_kvc_head *head; /* [n_head] the best first                  */
    int n_head;
    int64_t n_line, n_row; /* lines that were quoted, tokens of them ...   */
    int64_t n_tok;         /* ... over so many tokens of the cache         */
    bool has_null;
    float null;   /* 0 .. 1 */
    int quantile; /* 90: percent of the questions are not above it */
    int64_t n_question;
    char questions_sha256[65]; /* of the file they came from */
    /* Only with a null: of those questions that have known answers, how many
     * each look alone answered right, from which --focus auto chooses. */
    bool has_looks;
    int64_t n_answerable, n_whole, n_mask, n_reread;
} cag_kvc_attention;
#define CAG_QUOTE_MASS 0.2f

CAG_API cag_status cag_kvc_open(const char *path, cag_kvc **out,
                                cag_error *err);
CAG_API void cag_kvc_close(cag_kvc *k);
CAG_API const cag_kvc_info *cag_kvc_get_info(const cag_kvc *k);
/* NULL for a codec that loses nothing. */
CAG_API const cag_kvc_receipt *cag_kvc_get_receipt(const cag_kvc *k);
/* NULL where none were looked for. */
CAG_API const cag_kvc_attention *cag_kvc_get_attention(const cag_kvc *k);
CAG_API const cag_kvc_source *cag_kvc_get_source(const cag_kvc *k, int i);
/* The exact cached text, and its ids (offsets point into the text). */
CAG_API const char *cag_kvc_text(const cag_kvc *k, size_t *size);
CAG_API const int32_t *cag_kvc_ids(const cag_kvc *k, size_t *n);
CAG_API const int64_t *cag_kvc_id_offsets(const cag_kvc *k); /* [n] */
/* The tokenizer the file carries, made at the first call; NULL when its blob
 * is not valid or memory is short. */
CAG_API const cag_tokenizer *cag_kvc_tokenizer(const cag_kvc *k);
/* META as one line of canonical JSON. */
CAG_API const char *cag_kvc_meta_json(const cag_kvc *k, size_t *size);

typedef struct cag_kvc_section {
    char name[5];
    uint64_t off, size_bytes;
    char sha256[65];
    bool required;
} cag_kvc_section;
CAG_API int cag_kvc_n_section(const cag_kvc *k);
CAG_API void cag_kvc_get_section(const cag_kvc *k, int i, cag_kvc_section *out);

/*
 * Check everything: SHA-256 of every section and chunk, expansion of every
 * chunk, padding, reserved bits, exact length.  progress may be NULL; it
 * returns false to cancel.
 */
CAG_API cag_status cag_kvc_verify(const cag_kvc *k, int n_thread,
                                  cag_progress_fn progress, void *ctx,
                                  cag_error *err);

/*
 * What has been checked of an open cache so far: opening checks the header
 * and the small sections, whoever uses a chunk checks it first, and
 * cag_kvc_verify checks all there is.  Thread-safe.
 */
typedef struct cag_kvc_checked {
    int n_section;             /* by their SHA-256                          */
    int64_t n_chunk, of_chunk; /* different chunks, of all in the file      */
    bool full;                 /* cag_kvc_verify found every byte intact    */
} cag_kvc_checked;
CAG_API void cag_kvc_get_checked(const cag_kvc *k, cag_kvc_checked *out);

/* Convert between f16z and f16 without model or prefill; same content id.
 * CAG_E_UNSUPPORTED for any other pair, CAG_E_LOCKED while out is built. */
CAG_API cag_status cag_kvc_recode(const char *in, const char *codec,
                                  const char *out, int mode, int n_thread,
                                  double lock_timeout_s, cag_error *err);
/* Names of the codecs, i from 0; NULL past the last. */
CAG_API const char *cag_kvc_codec_name(int i);
/* Does a codec change values?  False where there is none of that name. */
CAG_API bool cag_kvc_codec_lossy(const char *name);
/* Can a cache of another codec be converted to this one? */
CAG_API bool cag_kvc_codec_recodes(const char *to);

/* What a foreign file is ("a GGUF model", "a llama.cpp session file"), by its
 * magic; NULL if unknown.  For messages. */
CAG_API const char *cag_file_kind(const void *head, size_t n);

#ifdef __cplusplus
}
#endif
#endif

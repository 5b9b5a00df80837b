/*
 * batch.c - many questions on one cache, answered as they are read.
 *
 * A window of rows slides over the input; those that need an answer join a
 * crew (crew.h), and as soon as one ends, the next row takes its place.  Rows
 * leave in input order (or as they end, unordered), so memory is bounded by the
 * window whatever the input's length.
 *
 * While rows are running the input is read only as far as it is there: a
 * coprocess that waits for each answer is served like a file.
 *
 * An error that ends the batch (a GPU that is lost) does not take back what was
 * answered: rows that waited for a running one leave then, if they are JSON
 * and so say which they are.
 */
#include <string.h>

#include "batch/batch_csv.h"
#include "batch/batch_known.h"
#include "batch/batch_row.h"
#include "ask/answer_copy.h"
#include "ask/crew.h"
#include "ask/kb.h"
#include "ask/support.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/mem.h"
#include "util/shell.h"
#include "util/note.h"
#include "util/sized.h"

enum slot_state { SLOT_FREE, SLOT_ASKED, SLOT_DONE };

struct slot {
    enum slot_state state;
    struct row row;
    struct crew_member member; /* while asked                             */
    struct buf out;            /* the finished row                        */
    bool earlier;              /* its answer is of an earlier run         */
    char key[17];
};

struct batch {
    cag_kb *kb;
    const cag_batch_opts *o;
    cag_ask_params params; /* of rows that say nothing else          */
    cag_line_fn in;
    cag_row_fn out;
    void *ctx;
    cag_batch_report *r;
    struct crew crew;
    struct slot *slot; /* [n_slot], a ring                     */
    int n_slot, head, n_used;
    int64_t line;
    bool jsonl_in, jsonl_out, know_format, end, stop;
    bool torn; /* the output itself failed             */
    struct known known;
    struct csv csv;
    struct sha256 input; /* of all rows, for a shard                */
};

/* ------------------------------------------------------------------ rows */

static struct slot *slot_at(struct batch *b, int i)
{
    return &b->slot[(b->head + i) % b->n_slot];
}

/* Write the finished row of s. */
static cag_status complete(struct batch *b, struct slot *s, const cag_answer *a,
                           cag_error *err)
{
    const cag_text q = { s->row.question, s->row.size, 0 };
    bool check = a && support_is_asked(&s->row.params);
    cag_answer checked = { 0 };
    cag_status st = CAG_OK;

    if (check)
        st = support_check_copy(b->kb, &q, &s->row.params, a, &checked, err);
    if (st)
        return st;
    if (check)
        a = &checked;
    b->r->n_withheld += a && a->checked && a->checked->withheld;
    b->r->n_cut += a && !strcmp(a->finish, "length") &&
                   !(a->checked && a->checked->withheld);
    if (b->jsonl_out)
        st = row_write(b->kb, &s->row, a, s->key, &s->out, err);
    else
        row_write_text(s->row.error.status ? NULL : a, &s->out);
    if (!st && buf_failed(&s->out))
        st = cag_fail_nomem(err, "row");
    cag_answer_release(&checked);
    s->state = SLOT_DONE;
    return st;
}

static cag_status fail_row(struct batch *b, struct slot *s,
                           const cag_error *why, cag_error *err)
{
    char msg[sizeof why->msg];

    memcpy(msg, why->msg, sizeof msg);
    cag_fail(&s->row.error, why->status, NULL, -1, "line %lld: %s",
             (long long)s->row.line, msg);
    return complete(b, s, NULL, err);
}

/* Errors of one row; all others end the batch. */
static bool is_row_error(cag_status st)
{
    return st == CAG_E_FORMAT || st == CAG_E_LIMIT || st == CAG_E_USAGE;
}

/* The crew is done with the question of s. */
static cag_status take_answer(struct batch *b, struct slot *s, cag_error *err)
{
    cag_answer *a = &s->member.answer;
    cag_status st;

    if (s->member.error.status)
        return fail_row(b, s, &s->member.error, err);
    st = complete(b, s, a, err);
    if (!st)
        known_add(&b->known, &s->row, s->key, a);
    cag_answer_release(a);
    return st;
}

/* --dry-run: would this row be answered? */
static cag_status check_row(struct batch *b, struct slot *s, cag_error *err)
{
    cag_error why = CAG_ERROR_INIT;
    cag_prompt_view v;
    int64_t first;
    cag_status st = known_id(&b->known, &s->row, &first, err);

    if (st)
        return st;
    st = cag_kb_prompt(b->kb, s->row.question, s->row.size, s->row.params.think,
                       &v, &why);
    if (!st && v.room < 1)
        st = cag_fail(&why, CAG_E_LIMIT, NULL, -1,
                      "the question does not fit: %lld tokens of knowledge + "
                      "%lld of question, the context has %lld",
                      (long long)v.n_cached, (long long)v.n_prompt,
                      (long long)b->kb->n_ctx);
    else if (!st && first)
        st =
            cag_fail(&why, CAG_E_FORMAT, NULL, -1,
                     "the id was given before, on line %lld", (long long)first);
    cag_free(v.text);
    if (st && !is_row_error(st))
        return cag_error_copy(err, &why);
    if (st)
        return fail_row(b, s, &why, err);
    s->state = SLOT_DONE;
    return CAG_OK;
}

static cag_status ask_row(struct batch *b, struct slot *s, cag_error *err)
{
    struct crew_member *m = &s->member;
    cag_status st;

    *m = (struct crew_member){ .question = s->row.question,
                               .size = s->row.size,
                               .params = &s->row.params };
    memcpy(m->key, s->key, sizeof m->key);
    s->state = SLOT_ASKED;
    st = crew_add(&b->crew, m, err);
    return !st && m->state == CREW_DONE ? take_answer(b, s, err) : st;
}

/* An answer of an earlier run, judged again; not one that should have looks,
 * and has none. */
static cag_status take_earlier(struct batch *b, struct slot *s, cag_answer *a,
                               cag_error *err)
{
    const cag_text q = { s->row.question, s->row.size, 0 };
    cag_status st = CAG_OK;

    if (!s->row.params.focus) { /* a field of the input may be called so */
        answer_looked_free(a->looked);
        a->looked = NULL;
    } else if (!a->looked) {
        return CAG_OK;
    }
    if (a->looked)
        st = focus_judge(b->kb, &q, &s->row.params, a, err);
    if (st)
        return st;
    b->r->n_resumed++;
    s->earlier = true;
    return complete(b, s, a, err);
}

static cag_status start_row(struct batch *b, struct slot *s, cag_error *err)
{
    const cag_answer *recent;
    cag_answer earlier;
    cag_status st;

    if (s->row.error.status)
        return complete(b, s, NULL, err);
    if (b->o->check_only)
        return check_row(b, s, err);
    st = row_options_key(b->kb, &s->row.params, s->key, err);
    if (st)
        return st;
    if (known_earlier(&b->known, &s->row, s->key, &earlier)) {
        st = take_earlier(b, s, &earlier, err);
        cag_answer_release(&earlier);
        if (st || s->earlier)
            return st;
    }
    recent = known_recent(&b->known, &s->row, s->key);
    if (recent)
        return complete(b, s, recent, err);
    return ask_row(b, s, err);
}

/* Bytes of blanks at the begin of s. */
static size_t blanks(const char *s, size_t n)
{
    size_t i = 0;

    while (i < n && (s[i] == ' ' || s[i] == '\t' || s[i] == '\r'))
        i++;
    return i;
}

/* The next line that is not blank, without byte order mark and line end.  NULL
 * at the end, or with *why set. */
static const char *next_text(struct batch *b, size_t *size, cag_error *why)
{
    const char *s;

    do {
        s = b->in(b->ctx, size, why);
        if (!s || why->status) {
            b->line += s != NULL;
            return s;
        }
        if (++b->line == 1 && *size >= 3 && !memcmp(s, "\xef\xbb\xbf", 3)) {
            s += 3;
            *size -= 3;
        }
        if (*size && s[*size - 1] == '\r')
            --*size;
    } while (blanks(s, *size) == *size);
    return s;
}

/* The next record of a CSV, as the text of an object; *line is its first. */
static const char *next_record(struct batch *b, size_t *size, int64_t *line,
                               cag_error *why)
{
    for (;;) {
        const char *s = next_text(b, size, why);
        bool header = !b->csv.names;

        if (!b->csv.record.size)
            *line = b->line;
        if ((!s && !b->csv.record.size) || why->status)
            return s;
        if (s && !csv_add(&b->csv, s, *size))
            continue;
        if (csv_take(&b->csv, why))
            return header ? NULL : "";
        if (header)
            continue;
        *size = b->csv.json.size;
        return b->csv.json.data;
    }
}

/* JSON that is not a line each: the others of its lines would be rows. */
static cag_status refuse_document(const struct batch *b, const char *s,
                                  size_t n, cag_error *err)
{
    const char *in = b->o->name ? b->o->name : "the input", *how = NULL;
    bool named = b->o->name && shell_is_plain(in);
    size_t after = 1 + blanks(s + 1, n - 1);

    if (*s == '[' && (after == n || strchr("{\"[]", s[after])))
        how = "a JSON array; make it a row each: jq -c '.[]'";
    else if (*s == '{' && after == n)
        how = "JSON over several lines; make it a row each: jq -c .";
    return how ? cag_fail(err, CAG_E_FORMAT, in, -1,
                          "line %lld: this is %s%s%s", (long long)b->line, how,
                          named ? " " : "", named ? in : "")
               : CAG_OK;
}

/* The first row says what the rows are. */
static cag_status take_format(struct batch *b, const char *text, size_t size,
                              cag_error *err)
{
    size_t skip = blanks(text, size);

    text += skip;
    size -= skip;
    b->know_format = true;
    b->jsonl_in = b->o->separator || text[0] == '{';
    b->jsonl_out = b->o->format == CAG_ROWS_AS_INPUT
                       ? b->jsonl_in
                       : b->o->format == CAG_ROWS_JSON;
    if (b->o->earlier && !b->jsonl_out)
        return cag_fail(err, CAG_E_USAGE, b->o->name, -1,
                        "--resume needs rows as JSON: add "
                        "--output-format jsonl");
    if (b->params.evidence && !b->jsonl_out && !b->o->check_only)
        return cag_fail(err, CAG_E_USAGE, b->o->name, -1,
                        "--evidence needs rows as JSON: add "
                        "--output-format jsonl");
    if (b->o->n_shard && !b->jsonl_out)
        return cag_fail(err, CAG_E_USAGE, b->o->name, -1,
                        "--shard needs rows as JSON: add "
                        "--output-format jsonl");
    return b->o->separator ? CAG_OK : refuse_document(b, text, size, err);
}

/* Answers do not depend on it, but who joins rows by it should know. */
static cag_status warn_same_id(struct batch *b, const struct slot *s,
                               cag_error *err)
{
    int64_t first = 0;
    cag_status st = s->row.error.status || b->o->check_only
                        ? CAG_OK
                        : known_id(&b->known, &s->row, &first, err);

    if (first)
        note(&b->kb->hooks, CAG_NOTE_WARN,
             "%s%sline %lld: the id was given before, on line %lld",
             b->o->name ? b->o->name : "", b->o->name ? ": " : "",
             (long long)s->row.line, (long long)first);
    return st;
}

/* Count a row that was read; is it one of this shard's? */
static bool is_ours(struct batch *b, const char *text, size_t size)
{
    int64_t n = b->r->n_input++;

    if (!b->o->n_shard)
        return true;
    sha256_update(&b->input, text, size);
    sha256_update(&b->input, "\n", 1);
    return n % b->o->n_shard == b->o->shard;
}

/* Read rows until enough are running or the window is full. */
static cag_status fill(struct batch *b, cag_error *err)
{
    cag_status st = CAG_OK;

    while (!st && !b->end && !b->stop && crew_has_room(&b->crew) &&
           b->n_used < b->n_slot) {
        struct slot *s = slot_at(b, b->n_used);
        const char *field = b->o->question_field, *text;
        cag_error why = CAG_ERROR_INIT;
        int64_t line = 0;
        size_t size;

        if (b->crew.n_running && b->o->ready && !b->o->ready(b->ctx))
            break;
        text = b->o->separator ? next_record(b, &size, &line, &why)
                               : next_text(b, &size, &why);
        line = line ? line : b->line;
        if (!text) {
            b->end = true;
            st = why.status ? cag_error_copy(err, &why) : CAG_OK;
            break;
        }
        if (!b->know_format && (!why.status || b->o->separator))
            st = take_format(b, text, why.status ? 0 : size, err);
        else if (!b->know_format) /* the next row may say more */
            b->jsonl_out = b->o->format == CAG_ROWS_JSON;
        if (!st && !is_ours(b, text, why.status ? 0 : size))
            continue;
        if (!st && why.status)
            row_unreadable(&s->row, line, &why);
        else if (!st)
            st = row_parse(&s->row, text, size, line,
                           !b->jsonl_in ? NULL
                           : field      ? field
                                        : "question",
                           &b->params, err);
        if (!st)
            st = warn_same_id(b, s, err);
        if (st)
            break;
        b->n_used++;
        b->r->n_row++;
        st = start_row(b, s, err);
        /* rows that are done at once should not wait for a full window */
        if (!st && s->state == SLOT_DONE)
            break;
    }
    return st;
}

/* A step of all that run; the rows of those that end. */
static cag_status step(struct batch *b, cag_error *err)
{
    cag_status st = crew_step(&b->crew, err);

    for (int i = 0; i < b->n_used && !st; i++) {
        struct slot *s = slot_at(b, i);

        if (s->state == SLOT_ASKED && s->member.state == CREW_DONE)
            st = take_answer(b, s, err);
    }
    return st;
}

static cag_status emit(struct batch *b, struct slot *s, cag_error *err)
{
    bool failed = s->row.error.status != CAG_OK;
    cag_status st = CAG_OK;

    b->r->n_failed += failed;
    b->r->n_ok += !failed;
    if (failed)
        note(&b->kb->hooks, CAG_NOTE_WARN, "%s%s%s",
             b->o->name ? b->o->name : "", b->o->name ? ": " : "",
             s->row.error.msg);
    if (s->out.size)
        st = b->out(b->ctx, s->out.data, s->out.size,
                    failed       ? CAG_ROW_FAILED
                    : s->earlier ? CAG_ROW_EARLIER
                                 : CAG_ROW_NEW,
                    err);
    b->torn = st;
    if (failed && b->o->fail_fast)
        b->stop = true;
    row_release(&s->row);
    buf_free(&s->out);
    memset(s, 0, sizeof *s);
    return st;
}

/* Rows leave at the head; unordered ones as soon as they are done. */
static cag_status drain(struct batch *b, cag_error *err)
{
    cag_status st = CAG_OK;

    for (int i = 0; b->o->unordered && i < b->n_used && !st && !b->stop; i++)
        if (slot_at(b, i)->state == SLOT_DONE)
            st = emit(b, slot_at(b, i), err);
    while (!st && !b->stop && b->n_used) {
        struct slot *s = slot_at(b, 0);

        if (s->state == SLOT_DONE)
            st = emit(b, s, err);
        else if (s->state != SLOT_FREE)
            break;
        b->head = (b->head + 1) % b->n_slot;
        b->n_used--;
    }
    return st;
}

/* After a fatal error, put out every finished JSON row, out of order if need
 * be. */
static void give_rest(struct batch *b)
{
    cag_error why = CAG_ERROR_INIT; /* the first error is the one told */

    for (int i = 0; b->jsonl_out && i < b->n_used && !b->torn; i++)
        if (slot_at(b, i)->state == SLOT_DONE)
            emit(b, slot_at(b, i), &why);
}

static cag_status set_up(struct batch *b, cag_error *err)
{
    cag_status st;

    if (b->o->n_shard && (b->o->shard < 0 || b->o->shard >= b->o->n_shard))
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "shard %d of %d: expected 0 to %d", b->o->shard,
                        b->o->n_shard, b->o->n_shard - 1);
    st = crew_init(&b->crew, b->kb, b->o->parallel, 0, b->params.max_tok, err);
    if (st)
        return st;
    b->n_slot = b->crew.most;
    b->slot = mem_alloc_array((size_t)b->n_slot, sizeof *b->slot);
    if (!b->slot)
        return cag_fail_nomem(err, "batch");
    st = b->o->n_shard ? sha256_init(&b->input, err) : CAG_OK;
    return st ? st : known_init(&b->known, b->o->earlier, err);
}

void cag_batch_opts_init_size(cag_batch_opts *o, size_t size)
{
    static const cag_batch_opts defaults = { .parallel = 0 };

    sized_init(o, size, &defaults, sizeof defaults);
}

cag_status cag_kb_batch(cag_kb *kb, const cag_batch_opts *given, cag_line_fn in,
                        cag_row_fn out, void *ctx, cag_batch_report *r,
                        cag_error *err)
{
    cag_batch_opts own;
    struct batch b = {
        .kb = kb, .o = &own, .in = in, .out = out, .ctx = ctx, .r = r
    };
    double start = clock_s();
    cag_status st;

    memset(r, 0, sizeof *r);
    cag_batch_opts_init(&own);
    st = sized_take(&own, sizeof own, given, "cag_batch_opts", err);
    b.csv.separator = own.separator;
    b.csv.field = own.question_field ? own.question_field : "question";
    if (!st)
        st = turn_params(&b.params, own.params, err);
    if (!st)
        st = focus_check(kb, &b.params, err);
    if (!st)
        st = set_up(&b, err);
    while (!st && !b.stop && (!b.end || b.n_used)) {
        st = fill(&b, err);
        if (!st)
            st = step(&b, err);
        if (!st)
            st = drain(&b, err);
        if (!st)
            st = crew_progress(&b.crew, r->n_ok + r->n_failed, 0, err);
    }
    if (st && b.slot)
        give_rest(&b);
    r->n_prompt = b.crew.n_prompt;
    r->n_generated = b.crew.n_generated;
    /* it releases what runs, which is in the slots */
    crew_release(&b.crew);
    for (int i = 0; b.slot && i < b.n_slot; i++) {
        cag_answer_release(&b.slot[i].member.answer);
        row_release(&b.slot[i].row);
        buf_free(&b.slot[i].out);
    }
    mem_free(b.slot);
    known_release(&b.known);
    csv_release(&b.csv);
    if (!st && b.input.ctx) {
        uint8_t digest[SHA256_SIZE];

        sha256_final(&b.input, digest);
        memcpy(&r->input_digest, digest, sizeof r->input_digest);
    }
    sha256_release(&b.input);
    r->seconds = clock_s() - start;
    return st;
}

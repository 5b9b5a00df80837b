/*
 * fingerprint.c - digests of model files, computed once.
 *
 * Hashing a model takes seconds and its files hardly ever change, so the
 * digest of such a file is remembered with what stat said about it.  The
 * memory is one small file:
 *
 *   header, 32 bytes   "CAGFPRT\n" u32 version u32 record size, zeros
 *   record, 96 bytes   u64 dev, ino, size  i64 mtime_ns, ctime_ns
 *                      u8 sha256[32]  u8 zero[16]  u64 XXH3 of the above
 *
 * Little-endian, newest last.  A record whose check fails, or a file of
 * another form, is as if it were not there.  Writers take a lock, read what
 * is there, and replace the file by rename: readers need no lock, and of two
 * writers none loses the other's record.  That the memory cannot be written
 * (a read-only home, a full disk), or that its directory or file could have
 * been written by another user (trust.h), costs time, never correctness, so
 * it is no error.
 *
 * A file changed less than two seconds before it is hashed is not
 * remembered: time stamps are as coarse as that on some file systems, and a
 * second change within the same tick would go unseen.
 */
#include "model/fingerprint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "model/model.h"
#include "model/model_place.h"
#include "util/clock.h"
#include "util/file.h"
#include "util/mem.h"
#include "util/memo.h"
#include "util/rd.h"

#define REMEMBER_BYTES ((uint64_t)16 << 20)
#define ANNOUNCE_NS    INT64_C(1000000000)
#define YOUNG_NS       INT64_C(2000000000)
#define FILE_NAME      "fingerprints"
#define VERSION        1
#define HEADER         32
#define RECORD         96
#define MAX_RECORD     1024
#define CHUNK          ((size_t)1 << 20)

static const char magic[8] = { 'C', 'A', 'G', 'F', 'P', 'R', 'T', '\n' };

/* ---------------------------------------------------------------- memory */

static void encode(uint8_t rec[RECORD], const struct file_id *id,
                   const uint8_t digest[SHA256_SIZE])
{
    memset(rec, 0, RECORD);
    rd_put64(rec, id->dev);
    rd_put64(rec + 8, id->ino);
    rd_put64(rec + 16, id->size_bytes);
    rd_put64(rec + 24, (uint64_t)id->mtime_ns);
    rd_put64(rec + 32, (uint64_t)id->ctime_ns);
    memcpy(rec + 40, digest, SHA256_SIZE);
    rd_put64(rec + RECORD - 8, xxh3_64(rec, RECORD - 8));
}

static bool decode(const uint8_t rec[RECORD], struct file_id *id)
{
    if (rd_le64(rec + RECORD - 8) != xxh3_64(rec, RECORD - 8))
        return false;
    id->dev = rd_le64(rec);
    id->ino = rd_le64(rec + 8);
    id->size_bytes = rd_le64(rec + 16);
    id->mtime_ns = (int64_t)rd_le64(rec + 24);
    id->ctime_ns = (int64_t)rd_le64(rec + 32);
    return true;
}

static void encode_header(uint8_t h[HEADER])
{
    memset(h, 0, HEADER);
    memcpy(h, magic, sizeof magic);
    rd_put32(h + 8, VERSION);
    rd_put32(h + 12, RECORD);
}

#define MEMO_BYTES (HEADER + (size_t)MAX_RECORD * RECORD)

/* Whole records after the header; of anything unusable, none. */
static size_t n_record(const struct buf *b)
{
    uint8_t want[HEADER];

    encode_header(want);
    return b->size >= HEADER && memcmp(b->data, want, HEADER) == 0
               ? (b->size - HEADER) / RECORD
               : 0;
}

static const uint8_t *record_at(const struct buf *b, size_t i)
{
    return (const uint8_t *)b->data + HEADER + i * RECORD;
}

static bool recall(const char *dir, const struct file_id *id,
                   uint8_t out[SHA256_SIZE])
{
    struct buf b = BUF_INIT;
    struct file_id got;
    bool hit = false;
    size_t n;

    if (!dir)
        return false;
    memo_load(dir, FILE_NAME, MEMO_BYTES, &b);
    n = n_record(&b);
    while (n > 0 && !hit) {
        const uint8_t *rec = record_at(&b, --n);

        hit = decode(rec, &got) && file_id_same(&got, id);
        if (hit)
            memcpy(out, rec + 40, SHA256_SIZE);
    }
    buf_free(&b);
    return hit;
}

static bool make_dir(const char *dir)
{
    char *parent;
    bool ok;

    if (file_is_dir(dir))
        return true;
    if (mkdir(dir, 0700) == 0 || errno == EEXIST)
        return true;
    if (errno != ENOENT)
        return false;
    parent = file_dirname(dir);
    ok = parent && strcmp(parent, dir) != 0 && make_dir(parent) &&
         (mkdir(dir, 0700) == 0 || errno == EEXIST);
    mem_free(parent);
    return ok;
}

struct record {
    const struct file_id *id;
    const uint8_t *digest; /* [SHA256_SIZE] */
};

/* Header, the sound records of other files, the new one: as few as fit. */
static void compose(void *ctx, const struct buf *old, struct buf *out)
{
    const struct record *new = ctx;
    uint8_t head[HEADER], rec[RECORD];
    struct file_id got;
    size_t n = n_record(old);
    size_t i = n > MAX_RECORD - 1 ? n - (MAX_RECORD - 1) : 0;

    encode_header(head);
    buf_add(out, head, HEADER);
    for (; i < n; i++)
        if (decode(record_at(old, i), &got) &&
            !(got.dev == new->id->dev &&got.ino == new->id->ino))
            buf_add(out, record_at(old, i), RECORD);
    encode(rec, new->id, new->digest);
    buf_add(out, rec, RECORD);
}

static void remember(const char *dir, const struct file_id *id,
                     const uint8_t digest[SHA256_SIZE])
{
    struct record new = { id, digest };

    if (dir && make_dir(dir))
        memo_update(dir, FILE_NAME, MEMO_BYTES, compose, &new);
}

/* --------------------------------------------------------------- hashing */

/* A stamp in the future counts as young: its clock is not ours. */
bool fingerprint_is_young(const struct file_id *id)
{
    int64_t last = id->mtime_ns > id->ctime_ns ? id->mtime_ns : id->ctime_ns;
    struct timespec now;

    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return true;
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - last < YOUNG_NS;
}

static cag_status hash_fd(int fd, const char *path, const struct file_id *id,
                          const struct fingerprint_memory *mem,
                          uint8_t out[SHA256_SIZE], cag_error *err)
{
    int64_t quiet_until = clock_ns() + ANNOUNCE_NS;
    bool announced = !mem || !mem->announce;
    struct sha256 h = { NULL };
    struct file_id after;
    struct stat s;
    uint8_t *chunk = mem_alloc(CHUNK);
    uint64_t total = 0;
    cag_status st;
    ssize_t n;

    if (!chunk)
        return cag_fail_nomem(err, "fingerprint");
    st = sha256_init(&h, err);
    if (st)
        goto out;
    while ((n = read(fd, chunk, CHUNK)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            st = cag_fail_sys(err, CAG_E_IO, errno, path, "cannot read");
            goto out;
        }
        sha256_update(&h, chunk, (size_t)n);
        total += (uint64_t)n;
        if (!announced && clock_ns() > quiet_until) {
            mem->announce(mem->ctx, path, id->size_bytes);
            announced = true;
        }
    }
    if (fstat(fd, &s) != 0) {
        st = cag_fail_sys(err, CAG_E_IO, errno, path, "cannot stat");
        goto out;
    }
    file_id_of(&after, &s);
    if (total != id->size_bytes || !file_id_same(&after, id)) {
        st = cag_fail(err, CAG_E_CHANGED, path, -1,
                      "the file changed while it was read");
        goto out;
    }
    sha256_final(&h, out);
out:
    sha256_release(&h);
    mem_free(chunk);
    return st;
}

/* As fingerprint_file; also says which file it was. */
static cag_status fingerprint_id(const char *path,
                                 const struct fingerprint_memory *mem,
                                 uint8_t out[SHA256_SIZE], struct file_id *id,
                                 cag_error *err)
{
    uint8_t digest[SHA256_SIZE];
    bool large, young;
    struct stat s;
    cag_status st;
    int fd;

    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return cag_fail_sys(err, CAG_E_MISSING, errno, path, "cannot open");
    if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode)) {
        st = cag_fail(err, CAG_E_MISSING, path, -1, "not a regular file");
        goto out;
    }
    file_id_of(id, &s);
    large = mem &&
            id->size_bytes > (mem->min_bytes ? mem->min_bytes : REMEMBER_BYTES);
    young = fingerprint_is_young(id);
    if (large && !mem->ignore && !young &&
        (recall(mem->dir, id, digest) || recall(mem->dir_ro, id, digest))) {
        memcpy(out, digest, SHA256_SIZE);
        st = CAG_OK;
        goto out;
    }
    st = hash_fd(fd, path, id, mem, digest, err);
    if (st)
        goto out;
    memcpy(out, digest, SHA256_SIZE);
    if (large && !young)
        remember(mem->dir, id, digest);
    if (large && mem->min_bytes == FINGERPRINT_MODEL_BYTES)
        model_place_note(mem->dir, digest, path);
out:
    close(fd);
    return st;
}

cag_status fingerprint_file(const char *path,
                            const struct fingerprint_memory *mem,
                            uint8_t out[SHA256_SIZE], cag_error *err)
{
    struct file_id id;

    return fingerprint_id(path, mem, out, &id, err);
}

/* ----------------------------------------------------------------- model */

/* One weight file into h; it must be the one that was mapped at open. */
static cag_status add_file(struct sha256 *h, const char *path,
                           const struct file_id *opened,
                           const struct fingerprint_memory *mem, cag_error *err)
{
    uint8_t digest[SHA256_SIZE];
    struct file_id id;
    cag_status st = fingerprint_id(path, mem, digest, &id, err);

    if (st)
        return st;
    if (!file_id_same(&id, opened))
        return cag_fail(err, CAG_E_CHANGED, path, -1,
                        "the file changed since the model was opened");
    sha256_update(h, digest, SHA256_SIZE);
    return CAG_OK;
}

/*
 * Everything that enters the computation of K and V or of logits.  Not in
 * it: n_ctx (a limit, not a part of the computation) and the end-of-text ids
 * (a cache stores its own stop ids).
 */
static cag_status config_digest(const struct model_config *c,
                                uint8_t out[SHA256_SIZE], cag_error *err)
{
    struct buf b = BUF_INIT;
    uint32_t eps;
    cag_status st;

    memcpy(&eps, &c->rms_eps, sizeof eps);
    buf_printf(&b,
               "cag-config 1\narch %s\nn_layer %d\nn_head %d\nn_kv_head %d\n"
               "d_head %d\nd_model %d\nd_ff %d\nn_vocab %d\nrms_eps %08x\n"
               "tied %d\nqkv_bias %d\no_bias %d\nwindow %d\nrope %s\n",
               c->family->arch, c->n_layer, c->n_head, c->n_kv_head, c->d_head,
               c->d_model, c->d_ff, c->n_vocab, (unsigned)eps, c->tied,
               c->qkv_bias, c->o_bias, c->window, c->rope_text);
    st = buf_failed(&b) ? cag_fail_nomem(err, "configuration digest")
                        : sha256_buf(b.data, b.size, out, err);
    buf_free(&b);
    return st;
}

cag_status fingerprint_model(const cag_model *m,
                             const struct fingerprint_memory *mem,
                             struct model_fingerprint *out, cag_error *err)
{
    struct fingerprint_memory own = { .dir = NULL };
    struct model_fingerprint got;
    struct sha256 h = { NULL };
    cag_status st;
    size_t i;

    if (mem)
        own = *mem;
    own.min_bytes = FINGERPRINT_MODEL_BYTES;

    if (!m->gguf && !m->st)
        return cag_fail(err, CAG_E_MISSING, m->info.path, -1,
                        "the model's weight files are not there");
    st = config_digest(&m->config, got.config, err);
    if (!st)
        st = sha256_init(&h, err);
    if (st)
        return st;
    for (i = 0; m->gguf && !st && i < gguf_n_file(m->gguf); i++)
        st = add_file(&h, gguf_file(m->gguf, i), gguf_file_id(m->gguf, i), &own,
                      err);
    for (i = 0; m->st && !st && i < st_n_file(m->st); i++)
        st = add_file(&h, st_file(m->st, i), st_file_id(m->st, i), &own, err);
    if (!st) {
        sha256_final(&h, got.weights);
        *out = got;
    }
    sha256_release(&h);
    return st;
}

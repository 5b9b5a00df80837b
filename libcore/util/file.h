/*
 * file.h - read-only maps, whole-file reads, and files that are written
 * aside, synced and renamed, so that nobody ever sees half a file.
 */
#ifndef UTIL_FILE_H
#define UTIL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/buf.h"
#include "util/error.h"
#include "util/file_place.h"

/* What stat says, for freshness checks; times in ns since the epoch. */
struct file_id {
    uint64_t dev, ino, size_bytes;
    int64_t mtime_ns, ctime_ns;
};

struct stat;
void file_id_of(struct file_id *id, const struct stat *s);
/* Device, inode, size and both times. */
bool file_id_same(const struct file_id *a, const struct file_id *b);

struct file_map {
    const uint8_t *data; /* NULL when the file is empty */
    size_t size;
    struct file_id id;
    unsigned owner, mode; /* for trust_check */
    char *path;           /* owned copy */
};

/*
 * Map a regular file read-only (MAP_SHARED).  Errors: CAG_E_MISSING when it
 * does not exist, cannot be opened, or is not a regular file (the message
 * says which).  file_unmap accepts a zeroed struct.
 */
cag_status file_map(struct file_map *m, const char *path, cag_error *err);
void file_unmap(struct file_map *m);

/* Append a whole file to b; "-" reads fd 0.  CAG_E_LIMIT above max_bytes. */
cag_status file_read(const char *path, size_t max_bytes, struct buf *b,
                     cag_error *err);
/* The same of a file that belongs to others, as a model's do: what is no
 * regular file is CAG_E_MISSING and never waited for, and "-" is a name. */
cag_status file_read_regular(const char *path, size_t max_bytes, struct buf *b,
                             cag_error *err);
/* Append all that is left in fd to b; name is used in messages. */
cag_status file_read_fd(int fd, const char *name, size_t max_bytes,
                        struct buf *b, cag_error *err);
cag_status file_stat(const char *path, struct file_id *id, cag_error *err);
/* CAG_E_CREATE when fd is a regular file that holds no text (a NUL byte near
 * its begin): a model or a cache that text is about to replace. */
cag_status file_check_text(int fd, const char *name, cag_error *err);
bool file_exists(const char *path);
bool file_is_dir(const char *path);

/* Path helpers; results are heap strings (mem_free), NULL when out of memory.
 */
char *file_dirname(const char *path); /* "a/b" -> "a", "b" -> "." */
char *file_join(const char *dir, const char *name); /* absolute name wins */
/* Absolute, without "." and ".." and doubled slashes; touches no disk but
 * the current directory. */
char *file_absolute(const char *path);
/* The directory a file really lies in, links followed, whether the file is
 * there or not: what paths recorded in a cache are relative to. */
char *file_real_dir(const char *path);
/* path as seen from directory dir, both made absolute first */
char *file_relative(const char *path, const char *dir);
/* The name a write to path reaches: symbolic links in the last part are
 * followed, also to a target that does not exist yet. */
char *file_follow(const char *path);
/* N, where path leads to /proc/self/fd/N as /dev/stdout does; else -1. */
int file_named_fd(const char *path);

/*
 * A file being written.  The temporary lies in the target's directory, which
 * is held open from here on; links on the way are followed if file_place_find
 * follows them.  The mode is mode if that
 * is not -1, else an existing target's, else 0600 & ~umask; an existing
 * target's group and ACL are kept (trust_inherit: or it becomes narrower; from
 * another user's target nothing is taken).  A target that is no regular file is
 * refused. After a failed write the struct must still be aborted.
 * file_out_commit = fsync, rename, fsync of the directory; on error it has
 * aborted itself. Temporaries are named ".<name>.cag-XXXXXX.tmp"; file_out_open
 * removes those of dead runs for the same target (they are locked while alive).
 */
struct file_out {
    int fd;
    struct file_place at;
    char *tmp;    /* a name beside it, owned */
    uint64_t off; /* bytes written so far by file_out_write */
};
cag_status file_out_open(struct file_out *o, const char *path, int mode,
                         cag_error *err);
/* at is copied. */
cag_status file_out_open_at(struct file_out *o, const struct file_place *at,
                            int mode, cag_error *err);
cag_status file_out_write(struct file_out *o, const void *data, size_t n,
                          cag_error *err);
cag_status file_out_pwrite(struct file_out *o, const void *data, size_t n,
                           uint64_t off, cag_error *err);
/* What is written so far, mapped; file_unmap it before commit or abort. */
cag_status file_out_map(const struct file_out *o, struct file_map *m,
                        cag_error *err);
/* All n bytes at off of an open file; path is used in messages.  CAG_E_IO. */
cag_status file_pwrite(int fd, const char *path, const void *data, size_t n,
                       uint64_t off, cag_error *err);
/* fsync of fd, which is open as from in to's directory; from becomes to; fsync
 * of the directory.  CAG_E_IO, CAG_E_CREATE. */
cag_status file_replace(int fd, const char *from, const struct file_place *to,
                        cag_error *err);
cag_status file_out_commit(struct file_out *o, cag_error *err);
void file_out_abort(struct file_out *o);
/* Could path be written?  CAG_E_CREATE if its directory is missing or may not
 * be written, or if it exists and is no regular file.  Creates nothing. */
cag_status file_can_create(const char *path, cag_error *err);
/* Remove what dead runs left for this target; best effort. */
void file_out_clean(const struct file_place *at);
/* Bytes free to this user on the file system of path's directory. */
cag_status file_space(const char *path, uint64_t *free_bytes, cag_error *err);
/* Test hook: fail the nth write-side system call from now with errno sys
 * (0 = short write of half); nth 0 turns it off.  file_fault_left: calls
 * that are still to come before it, 0 once it has happened. */
void file_fault(int64_t nth, int sys);
int64_t file_fault_left(void);

#endif

/*
 * ask_history.c - questions typed earlier, one a line.
 *
 * A line break in a question is \n there, a backslash \\.  Each question is
 * appended by one write, so that two programs never mix theirs.  The file is
 * used only if it is the user's own and nobody else may write to it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/ask/ask_read.h"
#include "cmd/cli/places.h"
#include "cmd/cli/ui.h"

enum { MAX_BYTES = 1 << 20 };

static int history_fd = -1;

static int open_own(const char *path, int flags)
{
    int fd =
        open(path, flags | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    struct stat st;

    if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode) ||
                    st.st_uid != geteuid() || st.st_mode & 022)) {
        close(fd);
        errno = EPERM;
        return -1;
    }
    return fd;
}

/* In place. */
static void unescape(char *s)
{
    char *to = s;

    for (; *s; s++)
        if (*s == '\\' && s[1])
            *to++ = *++s == 'n' ? '\n' : *s;
        else
            *to++ = *s;
    *to = 0;
}

/* The end of the file that is kept, heap; whole says that it is all of it. */
static char *read_end(int fd, bool *whole)
{
    off_t size = lseek(fd, 0, SEEK_END);
    off_t from = size > MAX_BYTES ? size - MAX_BYTES / 2 : 0;
    char *text = size > 0 ? calloc(1, (size_t)(size - from) + 1) : NULL;

    *whole = from == 0;
    if (!text || pread(fd, text, (size_t)(size - from), from) < 0) {
        free(text);
        return NULL;
    }
    if (from) { /* the first line was cut */
        char *line = strchr(text, '\n');

        memmove(text, line ? line + 1 : "", line ? strlen(line) : 1);
    }
    return text;
}

/* A file that became long is replaced by its newer half. */
static void shorten(const char *path, const char *text)
{
    char aside[4200];
    size_t n = strlen(text);
    int fd;

    snprintf(aside, sizeof aside, "%s.new", path);
    fd = open_own(aside, O_WRONLY | O_TRUNC);
    if (fd < 0)
        return;
    if (write(fd, text, n) == (ssize_t)n && rename(aside, path) == 0) {
        close(history_fd);
        history_fd = open_own(path, O_RDWR | O_APPEND);
    } else {
        unlink(aside);
    }
    close(fd);
}

void ask_history_open(bool keep)
{
    const char *path = keep ? places_history() : NULL;
    char *text, *save = NULL;
    bool whole;

    if (!path)
        return;
    history_fd = open_own(path, O_RDWR | O_APPEND);
    if (history_fd < 0) {
        ui_verbose(1, "%s: questions are not kept: %s", ui_clean(path),
                   strerror(errno));
        return;
    }
    text = read_end(history_fd, &whole);
    if (text && !whole)
        shorten(path, text);
    for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line;
         line = strtok_r(NULL, "\n", &save)) {
        unescape(line);
        ask_read_recall(line);
    }
    free(text);
}

void ask_history_add(const char *question)
{
    char *line, *to;

    ask_read_recall(question);
    if (history_fd < 0 || !(line = malloc(2 * strlen(question) + 2)))
        return;
    to = line;
    for (const char *s = question; *s; s++) {
        if (*s == '\\' || *s == '\n')
            *to++ = '\\';
        *to++ = *s == '\n' ? 'n' : *s;
    }
    *to++ = '\n';
    if (write(history_fd, line, (size_t)(to - line)) < 0)
        ui_verbose(1, "cannot keep the question: %s", strerror(errno));
    free(line);
}

/*
 * page.h - the chat page, page.html, in the program.
 */
#ifndef CMD_SERVE_PAGE_H
#define CMD_SERVE_PAGE_H

#include <stddef.h>

extern const unsigned char serve_page[];
extern const size_t serve_page_size;

#endif

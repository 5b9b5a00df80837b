/*
 * loss_text.h - the receipt of a lossy codec, in words and as JSON.
 */
#ifndef CMD_LOSS_TEXT_H
#define CMD_LOSS_TEXT_H

#include <cag/kvc.h>

#include "cmd/cli/ui.h"

enum { LOSS_TEXT = 192 };

/* "KL mean 2.5e-05, p99 about 1.8e-04, max 6.8e-04 nats" */
const char *loss_kl(char out[LOSS_TEXT], const cag_kvc_receipt *r);
/* "best token the same in 255 of 256, 0 clear flips; perplexity +0.01 %" */
const char *loss_top(char out[LOSS_TEXT], const cag_kvc_receipt *r);
/* An object "receipt"; with its layers where loss is not NULL (n_layer of
 * them). */
void loss_json(struct ui_json *j, const cag_kvc_receipt *r, int n_layer);
/* For people, on standard output, as cag-inspect's lines. */
void loss_print(const cag_kvc_receipt *r, int n_layer);

#endif

/*
 * opt_internal.h - shared by the opt*.c files.
 */
#ifndef CMD_CLI_OPT_INTERNAL_H
#define CMD_CLI_OPT_INTERNAL_H

#include "cmd/cli/opt.h"
#include "cmd/cli/ui_internal.h"

void opt_print_help(const opt_usage *u, bool all);
void opt_print_version(const opt_usage *u);
void opt_print_completion(const opt_usage *u, int shell); /* of opt_shells */
bool opt_takes_value(const opt_spec *s);
/* The names a CHOICE or COMPLETION may have, i from 0; NULL at the end. */
const char *opt_choice(const opt_spec *s, int i);
bool opt_has_choices(const opt_spec *s);

#endif

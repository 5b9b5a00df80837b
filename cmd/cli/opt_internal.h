/*
 * opt_internal.h - shared by opt.c and opt_help.c.
 */
#ifndef CMD_CLI_OPT_INTERNAL_H
#define CMD_CLI_OPT_INTERNAL_H

#include "cmd/cli/opt.h"
#include "cmd/cli/ui_internal.h"

void opt_print_help(const opt_usage *u);
void opt_print_version(const opt_usage *u);
void opt_print_completion(const opt_usage *u, int shell); /* of opt_shells */
bool opt_takes_value(const opt_spec *s);

#endif

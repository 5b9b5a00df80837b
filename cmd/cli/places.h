/*
 * places.h - what the environment says: where models are, where hashes are
 * remembered.  The only code of the programs that reads it, beside opt.c.
 */
#ifndef CMD_CLI_PLACES_H
#define CMD_CLI_PLACES_H

#include <cag/base.h>

/* Filled once; the strings live as long as the program. */
const cag_places *places_get(void);
/* CAG_CUDA_PLUGIN: the CUDA plugin to use, or NULL: where it is installed. */
const char *places_plugin(void);
/* The file of questions typed earlier, in a directory that is made on first
 * use; NULL where there can be none. */
const char *places_history(void);
/* Sockets that systemd opened for this process (LISTEN_FDS, LISTEN_PID): their
 * number, in a row from *first; the variables are removed. */
int places_listen_fds(int *first);
/* SOURCE_DATE_EPOCH if set (else -1), and the clock. */
int64_t places_epoch(void);
int64_t places_now(void);
/* Memory a program may still take: what the machine has available, or what
 * the control group leaves; 0 = unknown. */
uint64_t places_free_memory(void);
/* The callbacks of a job: warnings, notes and progress go to ui. */
cag_hooks places_hooks(void);

#endif

/*
 * shim_control.h - what a test can tell the host shim; plain C.
 */
#ifndef SHIM_CONTROL_H
#define SHIM_CONTROL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Order of everything that has no order: threads of a block, streams, late
 * copies.  The same seed, the same order. */
void shim_seed(uint64_t seed);
/* Devices that exist (default 1), and the memory of each (default 1 GiB). */
void shim_devices(int n);
void shim_memory(uint64_t total_bytes);
void shim_sm(int sm); /* compute capability, default 89 */
void shim_versions(int driver, int runtime);
/* Live device and host allocations, streams, events and graphs. */
int shim_live(void);
/* Most bytes of device memory allocated at once since the last call. */
uint64_t shim_peak(void);
/* The n-th next call of the runtime that can fail (1: the next) gives code;
 * 0: none does.  After 700 and 719 all later ones do, as on a device, until
 * this is called again. */
void shim_fail(int n, int code);
/* The same, of calls of one function or kernel. */
void shim_fail_in(const char *name, int n, int code);
/* Calls of the runtime so far. */
uint64_t shim_calls(void);
/* What was done so far.  graphs: made; replays: launched; launches: kernels
 * that were queued or recorded, not those of a replay. */
struct shim_count {
    uint64_t allocs, frees, syncs, launches, graphs, replays, bytes_back;
};
struct shim_count shim_counts(void);

#ifdef __cplusplus
}
#endif

#endif

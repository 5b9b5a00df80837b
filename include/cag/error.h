/*
 * error.h - how every fallible function of cag reports failure.
 *
 * An error is data: it is filled where it is noticed, travels up unchanged,
 * and is printed only by the programs in cmd/.  A function that can fail
 * returns a cag_status and takes a cag_error as its last argument; the
 * caller owns the cag_error and may pass NULL when it wants no details.
 */
#ifndef CAG_ERROR_H
#define CAG_ERROR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CAG_API __attribute__((visibility("default")))
#else
#define CAG_API
#endif

typedef enum cag_status {
    CAG_OK = 0,
    CAG_E_USAGE,       /* the caller broke the contract                   */
    CAG_E_NOMEM,       /* out of memory                                   */
    CAG_E_IO,          /* the system refused; sys is errno                */
    CAG_E_FORMAT,      /* bytes contradict their format                   */
    CAG_E_UNSUPPORTED, /* valid, but not handled by this program          */
    CAG_E_CORRUPT,     /* a digest differs: the bytes are damaged         */
    CAG_E_MISMATCH,    /* both sides are valid, not made for each other   */
    CAG_E_LIMIT,       /* a stated capacity is exhausted                  */
    CAG_E_BACKEND,     /* a device failed; sys is the device's code       */
    CAG_E_MISSING,     /* an input does not exist or cannot be read       */
    CAG_E_CREATE,      /* an output cannot be created; sys is errno       */
    CAG_E_LOCKED,      /* another run holds the lock                      */
    CAG_E_STALE,       /* the cache no longer fits its sources            */
    CAG_E_CHANGED,     /* an input changed while it was read              */
    CAG_E_LOSS,        /* a lossy codec lost more than is allowed         */
    CAG_E_CONFIG,      /* a manifest is wrong                             */
    CAG_E_CANCELLED,   /* the caller's callback asked to stop             */
    CAG_E_INTERNAL,    /* a bug in cag                                    */
    CAG_N_STATUS
} cag_status;

typedef struct cag_error {
    cag_status status;
    int sys;        /* errno or device code, 0 if none               */
    int64_t offset; /* byte in file, -1 if none                      */
    int line;       /* 1-based line in file, 0 if none               */
    int column;     /* 1-based column, 0 if none                     */
    char file[512]; /* "" if none; a longer path keeps its tail      */
    char msg[1024]; /* what was found, what was expected, what to do */
} cag_error;

#define CAG_ERROR_INIT              \
    {                               \
        CAG_OK, 0, -1, 0, 0, "", "" \
    }

/* The enumerator's name without prefix, in lower case: "format".  Static. */
CAG_API const char *cag_status_name(cag_status status);

/*
 * Unlink the temporaries of all files being written.  Async-signal-safe: a
 * program calls it in a signal handler before it dies (the library installs
 * none).  What is not removed, the next run for the same target removes.
 */
CAG_API void cag_emergency_cleanup(void);

#ifdef __cplusplus
}
#endif
#endif

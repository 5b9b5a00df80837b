/*
 * engine_note.h - which device computes, said to the user.
 */
#ifndef ENGINE_ENGINE_NOTE_H
#define ENGINE_ENGINE_NOTE_H

#include <cag/base.h>
#include <cag/session.h>

/* Which device and why: a warning when a GPU could not be used, or when the
 * CPU has no faster arithmetic although that was asked for. */
void engine_note(const cag_hooks *h, const cag_engine *e, cag_precision asked);

#endif

/*
 * engine_options.h - options of an engine, kept and compared.
 *
 * What a caller gives is borrowed for the call; who keeps an engine for the
 * next one keeps its options too, to know whether that one wants the same.
 */
#ifndef ENGINE_ENGINE_OPTIONS_H
#define ENGINE_ENGINE_OPTIONS_H

#include <cag/session.h>

/* to owns its strings; after an error it is to be released, too. */
cag_status engine_options_copy(cag_engine_opts *to, const cag_engine_opts *o,
                               cag_error *err);
/* Of a copy, or of zeros. */
void engine_options_release(cag_engine_opts *o);
/* Equal in all but room_tok, of which each caller has a rule of his own. */
bool engine_options_same(const cag_engine_opts *a, const cag_engine_opts *b);

#endif

/*
 * cag.h - cache-augmented generation: read a text once, answer any number
 * of questions about it later.
 *
 *   A model is immutable; a session is one timeline of tokens; a cache is a
 *   timeline's K and V rows on disk, bound to the sources, model, tokenizer,
 *   template and options they came from.
 *
 * The library never prints, exits, installs signal handlers or reads the
 * environment (but CAG_KERNELS).  See libcag(3).
 */
#ifndef CAG_H
#define CAG_H

#define CAG_VERSION "0.1.0"

#include <cag/ask.h>
#include <cag/backend.h>
#include <cag/base.h>
#include <cag/batch.h>
#include <cag/build.h>
#include <cag/error.h>
#include <cag/kvc.h>
#include <cag/manifest.h>
#include <cag/model.h>
#include <cag/session.h>
#include <cag/show.h>
#include <cag/tokenizer.h>

#endif

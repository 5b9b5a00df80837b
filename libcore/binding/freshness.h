/*
 * freshness.h - cag_check without the model, for who opens the model anyway
 * and accepts no other than the recorded one.
 */
#ifndef BINDING_FRESHNESS_H
#define BINDING_FRESHNESS_H

#include <cag/build.h>

cag_status freshness_of_sources(const cag_kvc *k, const cag_places *places,
                                const cag_hooks *hooks, bool verify_full,
                                cag_check_report *r, cag_error *err);

#endif

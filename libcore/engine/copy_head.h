/*
 * copy_head.h - a head of attention by its place in the model.
 *
 * Some heads look where an answer's next word stands in the text: which they
 * are is a property of the model; what they look at is measured for requests.
 */
#ifndef ENGINE_COPY_HEAD_H
#define ENGINE_COPY_HEAD_H

struct copy_head {
    int layer, head; /* head counts query heads */
};

#endif

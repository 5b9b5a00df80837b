/*
 * shim_block.cc - one thread block at a time, its threads as fibers.
 *
 * A fiber runs until it comes to a barrier or a warp operation, or ends; then
 * a random other one that can go on does.  So a missing barrier shows as
 * reading what was not written yet (NaN: shared memory is poisoned) or what
 * was overwritten, after few seeds.  When nobody can go on and not all have
 * ended, the program is aborted with what each warp waits for.
 *
 * A quarter of the time of sanitized tests was this file's; it touches no memory
 * of the device, so it alone is built without sanitizers.  What does is in
 * shim_warp.cc.
 */
#include "tests/cuda/cuda_shim.h"

#include <stdio.h>
#include <stdlib.h>
#ifndef __x86_64__
#include <ucontext.h>
#endif

#include <memory>
#include <vector>

#include "tests/cuda/shim.h"

#ifdef SHIM_ASAN /* the kernels are built with it */
#include <sanitizer/common_interface_defs.h>
#define SWITCH_START(save, bottom, size) \
    __sanitizer_start_switch_fiber(save, bottom, size)
#define SWITCH_END(save, bottom, size) \
    __sanitizer_finish_switch_fiber(save, bottom, size)
#else
#define SWITCH_START(save, bottom, size) ((void)(save))
#define SWITCH_END(save, bottom, size) ((void)(save))
#endif

/*
 * From one stack to another.  swapcontext does the same with two system calls
 * for signal masks, which took most of the time of these tests; it remains
 * for other processors.
 */
#ifdef __x86_64__
extern "C" void shim_switch(void **save, void *to);
asm(".text\n"
    ".globl shim_switch\n"
    ".type shim_switch, @function\n"
    "shim_switch:\n"
    "    push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15\n"
    "    mov %rsp, (%rdi)\n"
    "    mov %rsi, %rsp\n"
    "    pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp\n"
    "    ret\n"
    ".size shim_switch, .-shim_switch\n"
    ".section .note.GNU-stack,\"\",@progbits\n.text\n");

struct context {
    void *sp;
    void begin(char *stack, size_t size, void (*fn)(void))
    {
        /* as if fn had been called: 8 below a multiple of 16 */
        void **top = (void **)((uintptr_t)(stack + size) & ~(uintptr_t)15);
        top[-1] = nullptr;
        top[-2] = (void *)fn;
        for (int i = 3; i <= 8; i++)
            top[-i] = nullptr;
        sp = top - 8;
    }
    void to(context &other) { shim_switch(&sp, other.sp); }
};
#else
struct context {
    ucontext_t c;
    void begin(char *stack, size_t size, void (*fn)(void))
    {
        getcontext(&c);
        c.uc_stack.ss_sp = stack;
        c.uc_stack.ss_size = size;
        c.uc_link = nullptr;
        makecontext(&c, fn, 0);
    }
    void to(context &other) { swapcontext(&c, &other.c); }
};
#endif

namespace {

const size_t STACK = 128 * 1024;

enum state { READY, AT_BARRIER, AT_WARP, ENDED };

struct fiber {
    context                ctx;
    std::unique_ptr<char[]> stack{ new char[STACK] };
    void                  *fake = nullptr;
    shim_place             place;
    state                  at = READY;
    int                    line = 0;
    shim_warp_fn          *fn = nullptr;
    void                  *operand = nullptr;
    shim_copies            copies;
};

struct block_run {
    std::vector<std::unique_ptr<fiber>> f;
    std::vector<int>       ready;
    int                    n = 0, current = -1, n_barrier = 0, n_ended = 0;
    std::vector<int>       warp_count;
    context                main;
    void                  *main_fake = nullptr;
    const void            *main_bottom = nullptr;
    size_t                 main_size = 0;
    uint8_t               *smem = nullptr;
    const char            *name = "";
    const std::function<void()> *body = nullptr;
} run;

}  // namespace

[[noreturn]] void shim_stop(const char *what)
{
    fprintf(stderr, "# shim: kernel %s: %s\n", run.name, what);
    for (int i = 0; i < run.n; i += 32)
        for (int j = i; j < i + 32 && j < run.n; j++)
            if (j == i || run.f[j]->at != run.f[j - 1]->at ||
                run.f[j]->line != run.f[j - 1]->line)
                fprintf(stderr, "#   thread %d: %s line %d\n", j,
                        run.f[j]->at == AT_BARRIER ? "at a barrier,"
                        : run.f[j]->at == AT_WARP  ? "in a warp operation,"
                        : run.f[j]->at == ENDED    ? "ended, last at"
                                                   : "ready,",
                        run.f[j]->line);
    abort();
}

namespace {

void finish_warp(int w)
{
    void *operand[32];
    fiber *first = run.f[32 * w].get();

    for (int i = 0; i < 32; i++) {
        fiber *f = run.f[32 * w + i].get();
        if (f->fn != first->fn || f->line != first->line)
            shim_stop("lanes of a warp are at different operations");
        operand[i] = f->operand;
    }
    first->fn(operand);
    run.warp_count[w] = 0;
    for (int i = 0; i < 32; i++) {
        run.f[32 * w + i]->at = READY;
        run.ready.push_back(32 * w + i);
    }
}

void finish_barrier(void)
{
    run.n_barrier = 0;
    for (int i = 0; i < run.n; i++) {
        if (run.f[i]->line != run.f[0]->line)
            shim_stop("threads are at different barriers");
        run.f[i]->at = READY;
        run.ready.push_back(i);
    }
}

/* One of those that can go on, at random. */
int draw(void)
{
    size_t k = shim_random() % run.ready.size();
    int i = run.ready[k];

    run.ready[k] = run.ready.back();
    run.ready.pop_back();
    return i;
}

/* The one that goes on after i came to where it is; -1: all have ended. */
int choose(int i)
{
    if (run.f[i]->at == AT_BARRIER && ++run.n_barrier == run.n)
        finish_barrier();
    else if (run.f[i]->at == AT_WARP && ++run.warp_count[i / 32] == 32)
        finish_warp(i / 32);
    if (run.n_ended == run.n)
        return -1;
    if (run.ready.empty())
        shim_stop("threads wait for others that never come");
    return draw();
}

void fiber_main(void)
{
    const void *bottom = nullptr;
    size_t size = 0;

    SWITCH_END(nullptr, &bottom, &size);
    if (!run.main_bottom) { /* the block's first */
        run.main_bottom = bottom;
        run.main_size = size;
    }
    fiber *f = run.f[run.current].get();
    (*run.body)();
    f->at = ENDED;
    run.n_ended++;
    int next = choose(run.current);
    if (next < 0) {
        SWITCH_START(nullptr, run.main_bottom, run.main_size);
        f->ctx.to(run.main);
    }
    run.current = next;
    SWITCH_START(nullptr, run.f[next]->stack.get(), STACK);
    f->ctx.to(run.f[next]->ctx);
}

/* From a fiber to the next one, until it is chosen again. */
void yield(void)
{
    fiber *f = run.f[run.current].get();
    int next = choose(run.current);

    if (next == run.current)
        return;
    run.current = next;
    SWITCH_START(&f->fake, run.f[next]->stack.get(), STACK);
    f->ctx.to(run.f[next]->ctx);
    SWITCH_END(f->fake, nullptr, nullptr);
}

void run_block(const shim_place &where)
{
    const dim3 &bd = where.block_dim;

    run.ready.clear();
    run.n_barrier = run.n_ended = 0;
    run.warp_count.assign((size_t)(run.n + 31) / 32, 0);
    for (int i = 0; i < run.n; i++) {
        fiber *f = run.f[i].get();
        f->place = where;
        f->place.thread = dim3((unsigned)i % bd.x, (unsigned)i / bd.x % bd.y,
                               (unsigned)i / bd.x / bd.y);
        f->at = READY;
        f->line = 0;
        f->copies.late.clear();
        f->copies.group = 0;
        f->ctx.begin(f->stack.get(), STACK, fiber_main);
        run.ready.push_back(i);
    }
    run.current = draw();
    run.main_bottom = nullptr;
    fiber *f = run.f[run.current].get();
    SWITCH_START(&run.main_fake, f->stack.get(), STACK);
    run.main.to(f->ctx);
    SWITCH_END(run.main_fake, nullptr, nullptr);
}

}  // namespace

void shim_run_kernel(const char *name, dim3 grid, dim3 block, size_t smem,
                     const std::function<void()> &body)
{
    unsigned n_block = grid.x * grid.y * grid.z, first = shim_random();

    run.name = name;
    run.body = &body;
    run.n = (int)(block.x * block.y * block.z);
    while ((int)run.f.size() < run.n)
        run.f.emplace_back(new fiber);
    for (unsigned j = 0; j < n_block; j++) {
        unsigned b = (j + first) % n_block;    /* blocks have no order */
        shim_place where;
        where.block = dim3(b % grid.x, b / grid.x % grid.y,
                           b / grid.x / grid.y);
        where.block_dim = block;
        where.grid_dim = grid;
        size_t room = (smem + 127) / 128 * 128;
        run.smem = smem ? (uint8_t *)aligned_alloc(128, room) : nullptr;
        if (run.smem)
            memset(run.smem, 0xff, room);
        run_block(where);
        free(run.smem);
        run.smem = nullptr;
    }
}

/* ------------------------------------------------- what kernels see of it */

const shim_place &shim_here(void)
{
    return run.f[run.current]->place;
}

uint8_t *shim_smem(void)
{
    return run.smem;
}

void shim_barrier(int line)
{
    fiber *f = run.f[run.current].get();

    f->at = AT_BARRIER;
    f->line = line;
    yield();
}

void shim_warp(shim_warp_fn *fn, int line, void *operand)
{
    fiber *f = run.f[run.current].get();

    if (run.n % 32 != 0)
        shim_stop("a warp operation in a block of broken warps");
    f->at = AT_WARP;
    f->line = line;
    f->fn = fn;
    f->operand = operand;
    yield();
}

shim_copies *shim_copies_here(void)
{
    return &run.f[run.current]->copies;
}

/*
 * kernels_fast.c - which families of less precise products exist, which of
 * them this CPU runs, which one is used.
 *
 * The tile registers of AMX are not a process's by default: beside CPUID and
 * XGETBV the system is asked for them, which it may refuse.  It is asked only
 * where such a family is wanted.
 *
 * Not every instruction that exists is fast: a Sapphire Rapids does 1.7
 * vdpbf16ps of 512 bits in the time of 6.8 fmas, so that its f32 product is
 * twice as fast as one in bf16 without tiles.  A Zen 4 does it at 1.9 times
 * the rate of f32.  Which is which is asked of the vendor's name, not of a
 * clock: the same machine shall compute the same every time.
 */
#include "kernels/gemm_fast.h"

#include <pthread.h>
#include <string.h>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CPUID_AVX_VNNI (1u << 4)  /* leaf 7.1, eax; clang 14 has no names */
#define CPUID_AMX_BF16 (1u << 22) /* leaf 7, edx */
#define CPUID_AMX_TILE (1u << 24)
#define REQ_XCOMP_PERM 0x1023 /* arch_prctl of Linux 5.16 */
#define XFEATURE_TILES 18

static bool has_set(const char *name)
{
    bool usable = false;
    const struct kernels *k;

    for (int i = 0; (k = kernels_at(i, &usable)) != NULL; i++)
        if (strcmp(k->name, name) == 0)
            return usable;
    return false;
}

static bool has_avx2(void)
{
    return has_set("avx2");
}

static bool has_avx512_bf16(void)
{
    uint32_t a, b, c, d;

    return has_set("avx512") && __get_cpuid_count(7, 1, &a, &b, &c, &d) &&
           (a & bit_AVX512BF16);
}

static bool has_avx512_vnni(void)
{
    uint32_t a, b, c, d;

    return has_set("avx512") && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
           (c & bit_AVX512VNNI);
}

static bool has_avx_vnni(void)
{
    uint32_t a, b, c, d;

    return has_set("avx2") && __get_cpuid_count(7, 1, &a, &b, &c, &d) &&
           (a & CPUID_AVX_VNNI);
}

static bool is_intel(void)
{
    uint32_t a = 0, b = 0, c = 0, d = 0;

    return __get_cpuid(0, &a, &b, &c, &d) && b == signature_INTEL_ebx &&
           c == signature_INTEL_ecx && d == signature_INTEL_edx;
}

static bool has_amx(void)
{
    const uint32_t need = CPUID_AMX_BF16 | CPUID_AMX_TILE;
    uint32_t a, b, c, d, lo, hi;

    if (!has_avx512_bf16() || !__get_cpuid_count(7, 0, &a, &b, &c, &d) ||
        (d & need) != need)
        return false;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (lo >> 17 & 3) == 3 &&
           syscall(SYS_arch_prctl, REQ_XCOMP_PERM, XFEATURE_TILES) == 0;
}
#define HAVE_FAST_FAMILIES 1
#endif

static bool any_type(int type)
{
    return kt_block_weights(type) != 0;
}

static bool four_bits(int type)
{
    return type == KT_Q4_0 || type == KT_Q4_1 || type == KT_Q4_K;
}

static const struct kernels_fast u4_scalar = {
    .name = "u4s8, scalar",
    .numerics = "f32-lanes.1+u4s8.1",
    .takes = four_bits,
    .gemm_mr = 1,
    .gemm_pack_size = gemm_u4_scalar_pack_size,
    .gemm_pack = gemm_u4_scalar_pack,
    .gemm = gemm_u4_scalar,
};

static const struct kernels_fast u4_u8_scalar = {
    .name = "u4s8 and u8s8, scalar",
    .numerics = "f32-lanes.1+u8s8.1+u4s8.1",
    .takes = four_bits,
    .gemm_mr = 1,
    .gemm_pack_size = gemm_u4_scalar_pack_size,
    .gemm_pack = gemm_u4_scalar_pack,
    .gemm = gemm_u4_scalar,
    .attn = attention_u8s8_scalar,
    .attn_mass = attention_u8s8_scalar_mass,
};

static const struct kernels_fast tiles_scalar = {
    .name = "bf16-tiles, scalar",
    .numerics = "f32-lanes.1+bf16-tiles.3",
    .takes = any_type,
    .gemm_mr = 1,
    .gemm_pack_size = gemm_ref_pack_size,
    .gemm_pack = gemm_bf16_scalar_pack,
    .gemm = gemm_tiles_scalar,
    .attn = attention_tiles_scalar,
    .attn_mass = attention_tiles_scalar_mass,
};

static const struct kernels_fast pairs_scalar = {
    .name = "bf16-pairs, scalar",
    .numerics = "f32-lanes.1+bf16-pairs.2",
    .takes = any_type,
    .gemm_mr = 1,
    .gemm_pack_size = gemm_ref_pack_size,
    .gemm_pack = gemm_bf16_scalar_pack,
    .gemm = gemm_pairs_scalar,
    .attn = attention_pairs_scalar,
    .attn_mass = attention_pairs_scalar_mass,
};

#ifdef HAVE_FAST_FAMILIES
static const struct kernels_fast amx = {
    .name = "amx",
    .numerics = "f32-lanes.1+bf16-tiles.3",
    .takes = any_type,
    .gemm_mr = 16,
    .gemm_pack_size = gemm_amx_pack_size,
    .gemm_pack = gemm_amx_pack,
    .gemm = gemm_amx,
    .attn = attention_amx,
    .attn_mass = attention_amx_mass,
};

static const struct kernels_fast avx512bf16 = {
    .name = "avx512bf16",
    .numerics = "f32-lanes.1+bf16-pairs.2",
    .takes = any_type,
    .gemm_mr = 32,
    .gemm_pack_size = gemm_avx512bf16_pack_size,
    .gemm_pack = gemm_avx512bf16_pack,
    .gemm = gemm_avx512bf16,
    .attn = attention_avx512bf16,
    .attn_mass = attention_avx512bf16_mass,
};

static const struct kernels_fast u4_avx512vnni = {
    .name = "u4s8 avx512vnni",
    .numerics = "f32-lanes.1+u8s8.1+u4s8.1",
    .takes = four_bits,
    .gemm_mr = 16,
    .gemm_pack_size = gemm_u4_avx512vnni_pack_size,
    .gemm_pack = gemm_u4_avx512vnni_pack,
    .gemm = gemm_u4_avx512vnni,
    .attn = attention_avx512vnni,
    .attn_mass = attention_avx512vnni_mass,
};

static const struct kernels_fast u4_avxvnni = {
    .name = "u4s8 avxvnni",
    .numerics = "f32-lanes.1+u4s8.1",
    .takes = four_bits,
    .gemm_mr = 16,
    .gemm_pack_size = gemm_u4_avxvnni_pack_size,
    .gemm_pack = gemm_u4_avxvnni_pack,
    .gemm = gemm_u4_avxvnni,
};

static const struct kernels_fast u4_avx2 = {
    .name = "u4s8 avx2",
    .numerics = "f32-lanes.1+u4s8.1",
    .takes = four_bits,
    .gemm_mr = 16,
    .gemm_pack_size = gemm_u4_avx2_pack_size,
    .gemm_pack = gemm_u4_avx2_pack,
    .gemm = gemm_u4_avx2,
};
#endif

/* In order of preference */
static const struct {
    const struct kernels_fast *f;
    const char *set[2]; /* beside which it is used */
    bool (*usable)(void);
    bool (*slow)(void); /* usable, but slower than the set's gemm */
    /* A family in bf16 whose products take longer than this one's of 8 bits,
     * which are less exact: wanted by --precision fast8 */
    const struct kernels_fast *beats;
} families[] = {
#ifdef HAVE_FAST_FAMILIES
    { &amx, { "avx512", NULL }, has_amx, NULL, NULL },
    { &avx512bf16, { "avx512", NULL }, has_avx512_bf16, is_intel, NULL },
    { &u4_avx512vnni, { "avx512", NULL }, has_avx512_vnni, NULL, &avx512bf16 },
    { &u4_avxvnni, { "avx2", NULL }, has_avx_vnni, NULL, NULL },
    { &u4_avx2, { "avx512", "avx2" }, has_avx2, NULL, NULL },
#endif
    { &tiles_scalar, { NULL, NULL }, NULL, NULL, NULL },
    { &pairs_scalar, { NULL, NULL }, NULL, NULL, NULL },
    { &u4_scalar, { NULL, NULL }, NULL, NULL, NULL },
    { &u4_u8_scalar, { NULL, NULL }, NULL, NULL, NULL },
};
enum { N_FAMILY = sizeof families / sizeof families[0] };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool usable_here[N_FAMILY];

static void look(void)
{
    for (int i = 0; i < N_FAMILY; i++)
        usable_here[i] = !families[i].usable || families[i].usable();
}

const struct kernels_fast *kernels_fast_at(int i, bool *usable)
{
    if (i < 0 || i >= N_FAMILY)
        return NULL;
    pthread_once(&once, look);
    *usable = usable_here[i];
    return families[i].f;
}

/* Does family i go with the set, and has it the instructions wanted? */
static bool fits(int i, const struct kernels *set, const char *wanted)
{
    const char *name = families[i].f->name, *space = strrchr(name, ' ');
    bool with = false;

    for (int j = 0; j < 2; j++)
        with = with || (families[i].set[j] &&
                        strcmp(families[i].set[j], set->name) == 0);
    if (!with || !usable_here[i])
        return false;
    if (wanted)
        return strcmp(space ? space + 1 : name, wanted) == 0;
    return !families[i].slow || !families[i].slow();
}

static bool takes_one(const struct kernels_fast *f, const int *type, int n)
{
    bool one = false;

    for (int i = 0; i < n; i++)
        one = one || f->takes(type[i]);
    return one;
}

const struct kernels_fast *kernels_fast_get(const struct kernels *set,
                                            const int *type, int n,
                                            const char **why)
{
    const char *wanted = kernels_family();
    bool found = false;

    pthread_once(&once, look);
    *why = NULL;
    for (int i = 0; i < N_FAMILY; i++) {
        if (!fits(i, set, wanted))
            continue;
        found = true;
        if (takes_one(families[i].f, type, n))
            return families[i].f;
    }
    if (wanted && !found)
        *why = "CAG_KERNELS names no family of fast products that this CPU "
               "has beside the set; known are amx, avx512bf16, avx512vnni, "
               "avxvnni, avx2";
    return NULL;
}

const struct kernels_fast *kernels_fast8_get(const struct kernels *set,
                                             const struct kernels_fast *fast,
                                             const int *type, int n)
{
    for (int i = 0; fast && i < N_FAMILY; i++)
        if (families[i].beats == fast && fits(i, set, NULL) &&
            takes_one(families[i].f, type, n))
            return families[i].f;
    return NULL;
}

/*
 * gguf_types.c - the types of a GGUF's tensors and values.
 */
#include "format/gguf.h"

static const struct {
    const char *name;
    int elems, bytes; /* elems 0: cag does not read it */
} types[] = {
    [GGUF_F32] = { "F32", 1, 4 },
    [GGUF_F16] = { "F16", 1, 2 },
    [GGUF_Q4_0] = { "Q4_0", 32, 18 },
    [GGUF_Q4_1] = { "Q4_1", 32, 20 },
    [4] = { "Q4_2", 0, 0 },
    [5] = { "Q4_3", 0, 0 },
    [GGUF_Q5_0] = { "Q5_0", 32, 22 },
    [GGUF_Q5_1] = { "Q5_1", 32, 24 },
    [GGUF_Q8_0] = { "Q8_0", 32, 34 },
    [9] = { "Q8_1", 0, 0 },
    [10] = { "Q2_K", 0, 0 },
    [11] = { "Q3_K", 0, 0 },
    [GGUF_Q4_K] = { "Q4_K", 256, 144 },
    [GGUF_Q5_K] = { "Q5_K", 256, 176 },
    [GGUF_Q6_K] = { "Q6_K", 256, 210 },
    [15] = { "Q8_K", 0, 0 },
    [16] = { "IQ2_XXS", 0, 0 },
    [17] = { "IQ2_XS", 0, 0 },
    [18] = { "IQ3_XXS", 0, 0 },
    [19] = { "IQ1_S", 0, 0 },
    [20] = { "IQ4_NL", 0, 0 },
    [21] = { "IQ3_S", 0, 0 },
    [22] = { "IQ2_S", 0, 0 },
    [23] = { "IQ4_XS", 0, 0 },
    [24] = { "I8", 0, 0 },
    [25] = { "I16", 0, 0 },
    [26] = { "I32", 0, 0 },
    [27] = { "I64", 0, 0 },
    [28] = { "F64", 0, 0 },
    [29] = { "IQ1_M", 0, 0 },
    [GGUF_BF16] = { "BF16", 1, 2 },
    [34] = { "TQ1_0", 0, 0 },
    [35] = { "TQ2_0", 0, 0 },
    [39] = { "MXFP4", 0, 0 },
    [40] = { "NVFP4", 0, 0 },
};
#define N_TYPE ((int)(sizeof types / sizeof *types))

const char *gguf_type_name(int type)
{
    if (type < 0 || type >= N_TYPE || !types[type].name)
        return "unknown";
    return types[type].name;
}

bool gguf_type_block(int type, int *block_elems, int *block_bytes)
{
    if (type < 0 || type >= N_TYPE || !types[type].elems)
        return false;
    *block_elems = types[type].elems;
    *block_bytes = types[type].bytes;
    return true;
}

/* Bytes of one value; 0: they vary. */
static const struct {
    const char *name;
    size_t size;
} values[] = {
    [GGUF_V_U8] = { "u8", 1 },      [GGUF_V_I8] = { "i8", 1 },
    [GGUF_V_U16] = { "u16", 2 },    [GGUF_V_I16] = { "i16", 2 },
    [GGUF_V_U32] = { "u32", 4 },    [GGUF_V_I32] = { "i32", 4 },
    [GGUF_V_F32] = { "f32", 4 },    [GGUF_V_BOOL] = { "bool", 1 },
    [GGUF_V_STR] = { "string", 0 }, [GGUF_V_ARRAY] = { "array", 0 },
    [GGUF_V_U64] = { "u64", 8 },    [GGUF_V_I64] = { "i64", 8 },
    [GGUF_V_F64] = { "f64", 8 },
};
#define N_VALUE ((int)(sizeof values / sizeof *values))

const char *gguf_value_name(int type)
{
    return type >= 0 && type < N_VALUE ? values[type].name : "unknown";
}

size_t gguf_value_size(int type)
{
    return type >= 0 && type < N_VALUE ? values[type].size : 0;
}

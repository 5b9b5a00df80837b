#!/usr/bin/env python3
"""Record rows of every GGUF weight type and their values.

Writes tests/golden/quant/<type>.bin, little-endian:

    u32 GGUF type number, u32 weights, u32 bytes
    the stored bytes
    the weights as f32, as the public `gguf` package (gguf-py) expands them

The bytes are random (seeded), except that the f16 scales are kept finite and
of ordinary size.  Usage: make_quant_golden.py OUTDIR   (needs numpy, gguf)
"""
import os
import struct
import sys

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import quants

# type, weights and bytes of a block, offsets of its f16 fields
TYPES = [
    (T.F32, 32, 128, []),
    (T.F16, 32, 64, range(0, 64, 2)),
    (T.BF16, 32, 64, []),
    (T.Q4_0, 32, 18, [0]),
    (T.Q4_1, 32, 20, [0, 2]),
    (T.Q5_0, 32, 22, [0]),
    (T.Q5_1, 32, 24, [0, 2]),
    (T.Q8_0, 32, 34, [0]),
    (T.Q4_K, 256, 144, [0, 2]),
    (T.Q5_K, 256, 176, [0, 2]),
    (T.Q6_K, 256, 210, [208]),
]
WEIGHTS = 768


def main(out):
    rng = np.random.default_rng(20240229)
    for typ, weights, size, scales in TYPES:
        n = WEIGHTS // weights
        raw = rng.integers(0, 256, (n, size), dtype=np.uint8)
        for off in scales:
            f = rng.normal(0, 0.05, n).astype("<f2")
            raw[:, off:off + 2] = f.view(np.uint8).reshape(n, 2)
        if typ == T.F32:
            f = rng.normal(0, 1, (n, 32)).astype("<f4")
            raw = f.view(np.uint8)
        if typ == T.BF16:
            f = rng.normal(0, 1, (n, 32)).astype("<f4").view("<u4") >> 16
            raw = f.astype("<u2").view(np.uint8)
        val = quants.dequantize(raw.reshape(1, -1), typ).astype("<f4")
        assert val.size == WEIGHTS and np.isfinite(val).all()
        with open(os.path.join(out, typ.name.lower() + ".bin"), "wb") as f:
            f.write(struct.pack("<III", int(typ), WEIGHTS, raw.size))
            f.write(raw.tobytes())
            f.write(val.tobytes())


if __name__ == "__main__":
    main(sys.argv[1])

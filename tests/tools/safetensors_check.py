#!/usr/bin/env python3
"""Is F.safetensors a well-formed file with exactly the keys and values of KB.kvc?

    safetensors_check.py F.safetensors KB.kvc

The file is read by what the format says (a u64, JSON, tensors without holes, each
of its shape's size), the cache by the second reader, kvc_reader.py.  Values of
f16 and f32 must have the same bits; those of q8h, which both decode, must be
equal to a few units in the last place of the largest of the row.  Python's
standard library only.
"""
import functools
import json
import struct
import sys

from kvc_reader import Kvc, need

SIZES = {"F16": ("e", 2), "F32": ("f", 4)}


def unique(pairs):
    need(len(pairs) == len({k for k, _ in pairs}), "a name stands twice")
    return dict(pairs)


def read(path):
    with open(path, "rb") as f:
        data = f.read()
    n = struct.unpack("<Q", data[:8])[0]
    need(8 + n <= len(data) and n % 8 == 0 and data[8:9] == b"{", "header size")
    header = json.loads(data[8:8 + n], object_pairs_hook=unique)
    meta = header.pop("__metadata__")
    need(all(isinstance(v, str) for v in meta.values()), "metadata are strings")
    end, tensors = 0, {}
    for name, t in header.items():
        begin, size = t["data_offsets"][0], SIZES[t["dtype"]][1]
        need(set(t) == {"dtype", "shape", "data_offsets"}, f"{name}: members")
        need(begin == end, f"{name}: a hole")
        end = t["data_offsets"][1]
        for d in t["shape"]:
            size *= d
        need(end - begin == size, f"{name}: size and shape differ")
        tensors[name] = (t["dtype"], t["shape"], data[8 + n + begin:8 + n + end])
    need(8 + n + end == len(data), "bytes behind the last tensor")
    return meta, tensors


def same(a, b, exact):
    if exact:
        return a == b
    return all(abs(x - y) <= 1e-6 * max(map(abs, b)) for x, y in zip(a, b))


def main():
    meta, tensors = read(sys.argv[1])
    with open(sys.argv[2], "rb") as f:
        kvc = Kvc(f.read())
    kvc.load_chunk = functools.lru_cache(2)(kvc.load_chunk)
    kv = kvc.kv
    need(json.loads(meta["ids"]) == list(kvc.ids), "ids differ")
    need(meta["content_id"] == kvc.meta["content_id"], "content ids differ")
    need(list(tensors) == [f"layer.{i}.{x}" for i in range(kv["n_layer"]) for x in "kv"],
         "names of tensors")
    dtype = "F16" if kv["codec"] in ("f16", "f16z") else "F32"
    form, size = SIZES[dtype]
    d = kv["d_head"]
    for name, (is_type, shape, data) in tensors.items():
        need(is_type == dtype and shape == [1, kv["n_kv_head"], kv["n_tok"], d],
             f"{name}: type or shape")
        for head in range(shape[1]):
            for token in range(shape[2]):
                at = (head * shape[2] + token) * d * size
                row = struct.unpack(f"<{d}{form}", data[at:at + d * size])
                want = kvc.value(name[-1] == "v", int(name.split(".")[1]), head, token)
                need(same(row, tuple(want), kv["codec"] != "q8h"),
                     f"{name}: head {head}, token {token} differ")
    print(f"{len(tensors)} tensors, {dtype}, {shape[2]} tokens")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A second reader of .kvc files, written from man/kvc.5 and from nothing else.

    kvc_reader.py [--quiet] [--sections] [--row K|V LAYER HEAD TOKEN]...
                  [--value K|V LAYER HEAD TOKEN]... FILE...

For each file: checks everything the page asks for (a full verification) and prints META as
one line, then with --sections one line a section, then for every --row the
elements of one token's row as hex digits of their bits, by channel (in class
q8h its scale follows), and for every --value what they stand for.  Exit 0; 1 and one line on stderr for each file that does not fulfil the page.

Needs python3 and the zstd command.  It shares no code with cag, so that a
mistake in one of the two, or in the page, shows.
"""
import argparse
import hashlib
import json
import re
import struct
import subprocess
import sys

PAGE = 4096
MAGIC = bytes.fromhex("894B56430D0A1A0A")
CORE = ("META", "SRCS", "TEXT", "TOKS", "PRMT", "TKNZ", "CHNK", "KV")
LOSSY = ("q8h",)
CODECS = {"f16": ("f16", 2), "f32": ("f32", 4), "f16z": ("f16", 2),
          "q8h": ("q8h", 1)}


class Bad(Exception):
    pass


def need(ok, message):
    if not ok:
        raise Bad(message)


def up(n):
    return (n + PAGE - 1) // PAGE * PAGE


def u32(data, at):
    return struct.unpack_from("<I", data, at)[0]


def u64(data, at):
    return struct.unpack_from("<Q", data, at)[0]


# ---------------------------------------------------------------- XXH3-64
# From the xxHash specification (seed 0, default secret).

M64 = (1 << 64) - 1
P32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
P64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9,
       0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
MX1, MX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25
SECRET = bytes.fromhex("""
b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f
cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c
3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8
a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364
eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e
2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e
""")


def fold(a, b):
    p = a * b
    return (p & M64) ^ (p >> 64)


def avalanche(h):
    h = (h ^ (h >> 37)) * MX1 & M64
    return h ^ (h >> 32)


def avalanche64(h):
    h = (h ^ (h >> 33)) * P64[1] & M64
    h = (h ^ (h >> 29)) * P64[2] & M64
    return h ^ (h >> 32)


def rotl(x, r):
    return (x << r | x >> (64 - r)) & M64


def mix16(data, at, secret):
    return fold(u64(data, at) ^ u64(SECRET, secret),
                u64(data, at + 8) ^ u64(SECRET, secret + 8))


def xxh3_short(data):
    n = len(data)
    if n == 0:
        return avalanche64(u64(SECRET, 56) ^ u64(SECRET, 64))
    if n <= 3:
        word = (data[0] << 16 | data[n >> 1] << 24 | data[n - 1] | n << 8)
        return avalanche64(word ^ u32(SECRET, 0) ^ u32(SECRET, 4))
    if n <= 8:
        h = (u32(data, n - 4) + (u32(data, 0) << 32)) ^ (
            u64(SECRET, 8) ^ u64(SECRET, 16))
        h ^= rotl(h, 49) ^ rotl(h, 24)
        h = h * MX2 & M64
        h ^= (h >> 35) + n
        h = h * MX2 & M64
        return h ^ (h >> 28)
    lo = u64(data, 0) ^ u64(SECRET, 24) ^ u64(SECRET, 32)
    hi = u64(data, n - 8) ^ u64(SECRET, 40) ^ u64(SECRET, 48)
    swapped = int.from_bytes(lo.to_bytes(8, "little"), "big")
    return avalanche((n + swapped + hi + fold(lo, hi)) & M64)


def xxh3_middle(data):
    n = len(data)
    acc = n * P64[0]
    if n <= 128:
        for i in range((n - 1) // 32, -1, -1):
            acc += mix16(data, 16 * i, 32 * i)
            acc += mix16(data, n - 16 * (i + 1), 32 * i + 16)
        return avalanche(acc & M64)
    for i in range(8):
        acc += mix16(data, 16 * i, 16 * i)
    acc = avalanche(acc & M64)
    for i in range(8, n // 16):
        acc += mix16(data, 16 * i, 16 * (i - 8) + 3)
    acc += mix16(data, n - 16, 136 - 17)
    return avalanche(acc & M64)


def xxh3_64(data):
    n = len(data)
    if n <= 16:
        return xxh3_short(data)
    if n <= 240:
        return xxh3_middle(data)
    acc = [P32[2], P64[0], P64[1], P64[2], P64[3], P32[1], P64[4], P32[0]]
    keys = [struct.unpack_from("<8Q", SECRET, 8 * i) for i in range(16)]

    def stripe(at, key):
        lanes = struct.unpack_from("<8Q", data, at)
        for i in range(8):
            word = lanes[i] ^ key[i]
            acc[i ^ 1] += lanes[i]
            acc[i] = acc[i] + (word & 0xFFFFFFFF) * (word >> 32) & M64

    blocks = (n - 1) // 1024
    end_key = struct.unpack_from("<8Q", SECRET, 128)
    for block in range(blocks):
        for i in range(16):
            stripe(1024 * block + 64 * i, keys[i])
        for i in range(8):
            a = acc[i] & M64
            acc[i] = ((a ^ (a >> 47)) ^ end_key[i]) * P32[0] & M64
    for i in range((n - 1 - 1024 * blocks) // 64):
        stripe(1024 * blocks + 64 * i, keys[i])
    stripe(n - 64, struct.unpack_from("<8Q", SECRET, 121))
    result = n * P64[0]
    for i in range(4):
        result += fold(acc[2 * i] & M64 ^ u64(SECRET, 11 + 16 * i),
                       acc[2 * i + 1] & M64 ^ u64(SECRET, 19 + 16 * i))
    return avalanche(result & M64)


# ------------------------------------------------------------------- zstd

def frame_size(frame):
    """The content size a frame states, and its length (RFC 8878, 3.1.1)."""
    need(len(frame) >= 6 and u32(frame, 0) == 0xFD2FB528, "not a zstd frame")
    desc = frame[4]
    need(desc & 8 == 0, "a reserved bit of a zstd frame is set")
    need(desc & 3 == 0, "a zstd frame uses a dictionary")
    single = desc >> 5 & 1
    width = (1 if single else 0, 2, 4, 8)[desc >> 6]
    need(width, "a zstd frame does not state its content size")
    at = 5 + (0 if single else 1)
    size = int.from_bytes(frame[at:at + width], "little")
    if width == 2:
        size += 256
    at += width
    last = False
    while not last:
        need(at + 3 <= len(frame), "a zstd frame is cut")
        head = int.from_bytes(frame[at:at + 3], "little")
        last = bool(head & 1)
        at += 3 + (1 if head >> 1 & 3 == 1 else head >> 3)
    return size, at + (4 if desc & 4 else 0)


def expand(frame, size, what):
    stated, length = frame_size(frame)
    need(stated == size, f"{what}: a frame of {stated} bytes, not {size}")
    need(length == len(frame), f"{what}: something follows the frame")
    run = subprocess.run(["zstd", "-d", "-c", "-q"], input=frame,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         check=False)
    need(run.returncode == 0 and len(run.stdout) == size,
         f"{what}: zstd cannot expand it")
    return run.stdout


# ------------------------------------------------------------------- JSON

def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"),
                      ensure_ascii=False).encode()


def no_reals(text):
    raise Bad(f"a real number in JSON: {text}")


def load_json(data, name):
    need(len(data) <= 64 << 20, f"{name} is larger than 64 MiB")
    try:
        value = json.loads(data.decode("utf-8"), parse_float=no_reals,
                           parse_constant=no_reals)
    except ValueError as e:
        raise Bad(f"{name} is not JSON: {e}") from e
    need(canonical(value) == data, f"{name} is not canonical JSON")
    return value


def is_string(v):
    return isinstance(v, str) and "\0" not in v


def is_string_or_null(v):
    return v is None or is_string(v)


def is_digest(v):
    return isinstance(v, str) and re.fullmatch("[0-9a-f]{64}", v)


def is_bool(v):
    return isinstance(v, bool)


def between(low, high):
    return lambda v: (isinstance(v, int) and not isinstance(v, bool) and
                      low <= v <= high)


def members(value, where, **rules):
    need(isinstance(value, dict), f"{where} is not an object")
    for key, rule in rules.items():
        need(key in value, f"{where}: {key} is missing")
        need(rule(value[key]), f"{where}: {key} is wrong: {value[key]!r}")


COUNT = between(0, 1 << 53)


def check_meta(meta):
    is_object = lambda v: isinstance(v, dict)
    members(meta, "META", binding=is_object, build=is_object, kv=is_object,
            model=is_object, prompt=is_object, provenance=is_object,
            text=is_object, binding_sha256=is_digest, content_id=is_digest)
    members(meta["binding"], "META binding", config_sha256=is_digest,
            template_sha256=is_digest, weights_sha256=is_digest,
            tokenizer_sha256=is_digest, rope=is_string, kv_class=is_string,
            prompt=is_object, sources=lambda v: isinstance(v, list))
    members(meta["build"], "META build", n_ctx=COUNT, reserve=COUNT)
    members(meta["model"], "META model", arch=is_string, name=is_string,
            hub=is_string_or_null, path=is_string_or_null,
            n_vocab=between(1, (1 << 31) - 1))
    members(meta["prompt"], "META prompt", label=is_string, refusal=is_string,
            system=is_string)
    members(meta["provenance"], "META provenance", device=is_string,
            numerics=is_string, precision=is_string, tool=is_string)
    members(meta["kv"], "META kv", codec=lambda v: v in CODECS,
            layout=between(1, 1), n_layer=between(1, 1024),
            n_kv_head=between(1, 1024),
            d_head=lambda v: between(8, 1024)(v) and v % 8 == 0,
            n_tok=between(1, 1 << 24),
            chunk_tok=lambda v: between(64, 1 << 24)(v) and v & (v - 1) == 0)
    kv = meta["kv"]
    need(kv.get("class") == CODECS[kv["codec"]][0],
         "META kv: class is not the codec's")
    members(meta["text"], "META text", sha256=is_digest,
            size_bytes=between(0, min(1 << 30, 4096 * kv["n_tok"])))


def check_srcs(srcs, n_text, n_tok):
    need(isinstance(srcs, list), "SRCS is not an array")
    text_end = tok_end = 0
    for i, s in enumerate(srcs):
        members(s, f"SRCS {i}", filter=is_string_or_null,
                group=is_string_or_null, name=is_string,
                path=is_string_or_null, sha256_raw=is_digest,
                sha256_text=is_digest, size_bytes=COUNT,
                text_off=between(text_end, n_text), text_bytes=COUNT,
                tok_begin=between(tok_end, n_tok), tok_end=COUNT)
        text_end = s["text_off"] + s["text_bytes"]
        need(text_end <= n_text, f"SRCS {i}: ends behind the text")
        tok_end = s["tok_end"]
        need(s["tok_begin"] <= tok_end <= n_tok, f"SRCS {i}: tok_end is wrong")


def check_prmt(prmt, n_vocab):
    is_day = lambda v: v is None or (
        isinstance(v, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", v, re.A))
    is_id = between(0, n_vocab - 1)
    members(prmt, "PRMT", date=is_day, knows_thinking=is_bool,
            trims_question=is_bool, mid=is_string, suffix=is_string,
            suffix_think=is_string,
            stop_ids=lambda v: isinstance(v, list) and all(map(is_id, v)))


def is_f32(low, high):
    """8 hex digits of a binary32 in a range; NaN is in none."""
    def rule(v):
        if not (isinstance(v, str) and re.fullmatch("[0-9a-f]{8}", v)):
            return False
        return low <= f32(v) <= high
    return rule


def f32(digits):
    return struct.unpack(">f", bytes.fromhex(digits))[0]


F32_MAX = struct.unpack(">f", bytes.fromhex("7f7fffff"))[0]


def check_rcpt(rcpt, kv):
    is_object = lambda v: isinstance(v, dict)
    n_tok, n_value = kv["n_tok"], kv["n_tok"] * kv["n_kv_head"] * kv["d_head"]
    members(rcpt, "RCPT", codec=lambda v: v == kv["codec"], kl=is_object,
            layers=lambda v: isinstance(v, list) and len(v) == kv["n_layer"],
            ppl_change=is_f32(-1, F32_MAX), probe=is_object, top1=is_object,
            version=between(1, (1 << 31) - 1))
    members(rcpt["kl"], "RCPT kl", max=is_f32(0, F32_MAX))
    most = f32(rcpt["kl"]["max"])
    members(rcpt["kl"], "RCPT kl", mean=is_f32(0, most), p99=is_f32(0, most))
    probe = rcpt["probe"]
    members(probe, "RCPT probe", begin=between(1, n_tok - 1), end=COUNT)
    need(probe["begin"] < probe["end"] <= n_tok, "RCPT probe: end is wrong")
    n = probe["end"] - probe["begin"]
    members(rcpt["top1"], "RCPT top1", same=between(0, n), clear_flips=COUNT)
    need(rcpt["top1"]["clear_flips"] <= n - rcpt["top1"]["same"],
         "RCPT top1: clear_flips is wrong")
    for i, layer in enumerate(rcpt["layers"]):
        members(layer, f"RCPT layer {i}", k=is_object, v=is_object)
        for name in "kv":
            members(layer[name], f"RCPT layer {i} {name}",
                    max=is_f32(0, F32_MAX), rel_rms=is_f32(0, F32_MAX),
                    overflow=between(0, n_value),
                    subnormal=between(0, n_value))


def check_attn(attn, kv):
    is_object = lambda v: isinstance(v, dict)
    n_tok, most, seen = kv["n_tok"], 1, set()
    members(attn, "ATTN", quotes=is_object, version=between(1, (1 << 31) - 1),
            heads=lambda v: isinstance(v, list) and 1 <= len(v) <= 32)
    for i, head in enumerate(attn["heads"]):
        members(head, f"ATTN heads {i}", head=between(0, 1023),
                layer=between(0, kv["n_layer"] - 1), mass=is_f32(0, most))
        most = f32(head["mass"])
        seen.add((head["layer"], head["head"]))
    need(len(seen) == len(attn["heads"]), "ATTN: a head twice")
    members(attn["quotes"], "ATTN quotes", lines=between(1, n_tok),
            rows=between(1, n_tok), tokens=between(1, n_tok))
    if "null" in attn:
        need(is_object(attn["null"]), "ATTN null")
        members(attn["null"], "ATTN null", quantile=between(1, 100),
                questions=between(1, (1 << 31) - 1), sha256=is_digest,
                value=is_f32(0, 1))
    if "looks" in attn:
        need("null" in attn, "ATTN looks without null")
        need(is_object(attn["looks"]), "ATTN looks")
        members(attn["looks"], "ATTN looks",
                answerable=between(1, attn["null"]["questions"]))
        most = attn["looks"]["answerable"]
        members(attn["looks"], "ATTN looks", mask=between(0, most),
                reread=between(0, most), whole=between(0, most))


# ------------------------------------------------------------------- file

class Kvc:
    def __init__(self, data):
        self.data = data
        self.read_header()
        self.meta = load_json(self.bytes("META"), "META")
        check_meta(self.meta)
        self.kv = self.meta["kv"]
        srcs = load_json(self.bytes("SRCS"), "SRCS")
        check_srcs(srcs, self.meta["text"]["size_bytes"], self.kv["n_tok"])
        prmt = load_json(self.bytes("PRMT"), "PRMT")
        check_prmt(prmt, self.meta["model"]["n_vocab"])
        self.srcs = srcs
        self.read_chunk_table()
        self.read_text()
        self.read_toks()
        self.check_ids()
        lossy = self.kv["codec"] in LOSSY
        need(lossy == ("RCPT" in self.sections),
             "RCPT is missing" if lossy else "RCPT of an exact codec")
        if lossy:
            check_rcpt(load_json(self.bytes("RCPT"), "RCPT"), self.kv)
        if "ATTN" in self.sections:
            check_attn(load_json(self.bytes("ATTN"), "ATTN"), self.kv)

    def read_header(self):
        data = self.data
        need(data[:8] == MAGIC, "not a .kvc file")
        need(len(data) >= 12, "the header is cut")
        major = struct.unpack_from("<H", data, 8)[0]
        need(major == 1, f"format version {major}, this reader knows 1")
        need(len(data) >= PAGE, "the header is cut")
        page = bytearray(data[:PAGE])
        page[32:64] = bytes(32)
        need(hashlib.sha256(page).digest() == data[32:64],
             "the header's SHA-256 differs")
        need(u64(data, 16) == len(data),
             f"{len(data)} bytes, the header says {u64(data, 16)}")
        n = u32(data, 12)
        need(1 <= n <= 40, f"{n} sections")
        need(u32(data, 24) == 1, f"tile layout {u32(data, 24)}")
        need(not any(data[28:32]) and not any(data[64:128]) and
             not any(data[128 + 64 * n:PAGE]), "a reserved byte is not zero")
        self.sections, self.order = {}, []
        end = PAGE
        for i in range(n):
            end = self.read_entry(data[128 + 64 * i:192 + 64 * i], end)
        need(end == len(data), "the sections do not fill the file")
        for name in CORE:
            need(name in self.sections, f"section {name} is missing")
            need(self.sections[name][2], f"section {name} is not required")
        for name in self.order:
            off, size, _, digest = self.sections[name]
            if name != "KV":
                need(hashlib.sha256(self.bytes(name)).digest() == digest,
                     f"section {name}: SHA-256 differs")
                need(not any(data[off + size:up(off + size)]),
                     f"section {name}: padding is not zero")

    def read_entry(self, entry, end):
        match = re.fullmatch(rb"([A-Z0-9]{1,4})\0*", entry[:4])
        need(match, f"section name {entry[:4]!r}")
        name = match.group(1).decode()
        flags, off, size = struct.unpack_from("<IQQ", entry, 4)
        need(flags in (0, 1), f"section {name}: flags {flags}")
        need(name not in self.sections, f"section {name} appears twice")
        need(name in CORE or not flags, f"section {name} is required, unknown")
        need(off == end, f"section {name}: offset {off}, not {end}")
        need(1 <= size <= len(self.data) - off, f"section {name}: size {size}")
        need(not any(entry[56:]), f"section {name}: reserved bytes")
        self.sections[name] = (off, size, bool(flags), entry[24:56])
        self.order.append(name)
        return up(off + size)

    def bytes(self, name):
        off, size = self.sections[name][:2]
        return self.data[off:off + size]

    def read_text(self):
        body = self.bytes("TEXT")
        size = self.meta["text"]["size_bytes"]
        need(len(body) >= 16 and u64(body, 0) == size and
             u32(body, 8) in (0, 1) and u32(body, 12) == 0, "TEXT: head")
        text = body[16:]
        if u32(body, 8) == 1:
            text = expand(text, size, "TEXT")
        need(len(text) == size, "TEXT: size")
        try:
            text.decode("utf-8")
        except UnicodeDecodeError as e:
            raise Bad("TEXT is not UTF-8") from e
        need(hashlib.sha256(text).hexdigest() == self.meta["text"]["sha256"],
             "TEXT: SHA-256 is not META's")
        self.text = text

    def read_toks(self):
        body, n = self.bytes("TOKS"), self.kv["n_tok"]
        need(len(body) == 16 + 8 * n and u64(body, 0) == n and
             u64(body, 8) == 0, "TOKS: head or size")
        self.ids = struct.unpack_from(f"<{n}i", body, 16)
        need(all(0 <= i < self.meta["model"]["n_vocab"] for i in self.ids),
             "TOKS: an id is not in the vocabulary")
        offs = struct.unpack_from(f"<{n}I", body, 16 + 4 * n)
        need(all(a <= b for a, b in zip(offs, offs[1:])) and
             offs[-1] <= len(self.text), "TOKS: offsets")

    def tiles(self, chunk):
        total = (self.kv["n_tok"] + 63) // 64
        per_chunk = self.kv["chunk_tok"] // 64
        return min(per_chunk, total - chunk * per_chunk)

    def raw_size(self, tiles):
        n = 2 * self.kv["n_kv_head"] * tiles * self.tile
        if self.kv["codec"] == "q8h":
            n += self.kv["n_kv_head"] * (4 * tiles * 64 +
                                         4 * self.kv["d_head"])
        return n

    def read_chunk_table(self):
        kv, table = self.kv, self.bytes("CHNK")
        self.elem = CODECS[kv["codec"]][1]
        self.tile = 64 * kv["d_head"] * self.elem
        need(kv["chunk_tok"] == 64 or self.raw_size(kv["chunk_tok"] // 64) <=
             1 << 20, "META kv: chunk_tok")
        tiles = (kv["n_tok"] + 63) // 64
        self.per_layer = -(-64 * tiles // kv["chunk_tok"])
        n = kv["n_layer"] * self.per_layer
        need(len(table) == 64 * n, f"CHNK: {len(table)} bytes, {n} chunks")
        self.chunks, off, end = [], 0, 0
        for i in range(n):
            at, stored, raw, xxh = struct.unpack_from("<4Q", table, 64 * i)
            want = self.raw_size(self.tiles(i % self.per_layer))
            need(raw == want, f"CHNK {i}: raw size")
            need(at == off, f"CHNK {i}: offset")
            if kv["codec"] == "f16z":
                need(1 <= stored <= raw + 16, f"CHNK {i}: stored size")
            else:
                need(stored == raw, f"CHNK {i}: stored size")
            digest = table[64 * i + 32:64 * i + 64]
            self.chunks.append((at, stored, raw, xxh, digest))
            end = at + stored
            off = up(end)
        need(end == self.sections["KV"][1], "CHNK does not fill KV")

    def check_ids(self):
        digests = b"".join(c[4] for c in self.chunks)
        need(hashlib.sha256(digests).digest() == self.sections["KV"][3],
             "KV: the digest is not that of the chunk digests")
        bind, meta = self.meta["binding"], self.meta
        need(bind["kv_class"] == self.kv["class"], "binding: kv_class")
        need(bind["tokenizer_sha256"] == self.sections["TKNZ"][3].hex(),
             "binding: tokenizer_sha256")
        need(bind["sources"] == [s["sha256_text"] for s in self.srcs],
             "binding: sources")
        need(bind["prompt"] == {
            k: hashlib.sha256(v.encode()).hexdigest()
            for k, v in meta["prompt"].items() if isinstance(v, str)},
            "binding: prompt")
        digest = hashlib.sha256(canonical(bind)).digest()
        need(digest.hex() == meta["binding_sha256"], "binding_sha256")
        ids = struct.pack(f"<{len(self.ids)}I", *self.ids)
        need(hashlib.sha256(digest + ids + digests).hexdigest() ==
             meta["content_id"], "content_id")

    def load_chunk(self, layer, chunk):
        index = layer * self.per_layer + chunk
        at, stored, size, xxh, digest = self.chunks[index]
        what = f"KV layer {layer} chunk {chunk}"
        start = self.sections["KV"][0] + at
        body = self.data[start:start + stored]
        need(xxh3_64(body) == xxh, f"{what}: XXH3 differs")
        raw = body
        if self.kv["codec"] == "f16z":
            raw = self.join_planes(body, size, what)
        need(hashlib.sha256(raw).digest() == digest, f"{what}: SHA-256 differs")
        end = start + stored
        need(not any(self.data[end:up(end)]), f"{what}: padding is not zero")
        return raw

    @staticmethod
    def join_planes(body, size, what):
        need(len(body) >= 16, f"{what}: cut")
        sizes, p = struct.unpack_from("<4I", body, 0), size // 4
        need(16 + sum(sizes) == len(body) and
             all(0 < s <= p for s in sizes), f"{what}: plane sizes {sizes}")
        raw, at = bytearray(size), 16
        for i, s in enumerate(sizes):
            plane = body[at:at + s]
            if s < p:
                plane = expand(plane, p, f"{what} plane {i}")
            half = i // 2 * 2 * p
            raw[half + i % 2:half + 2 * p:2] = plane
            at += s
        return bytes(raw)

    def element(self, raw, chunk, is_v, head, token, channel):
        """Bytes of one element; token counts from the chunk's first."""
        d, t = self.kv["d_head"], token % 64
        tile = head * self.tiles(chunk) + token // 64
        if is_v:
            group = channel // 32
            width = min(32, d - group * 32)
            at = group * 64 * 32 + t * width + channel % 32
        else:
            at = (t // 16 * d + channel) * 16 + t % 16
        half = self.kv["n_kv_head"] * self.tiles(chunk) * self.tile
        at = (half if is_v else 0) + tile * self.tile + at * self.elem
        return raw[at:at + self.elem]

    def scale(self, raw, chunk, is_v, head, token):
        """Two bytes of class q8h; token counts from the chunk's first."""
        tiles, heads = self.tiles(chunk), self.kv["n_kv_head"]
        at = 2 * heads * tiles * self.tile
        at += 2 * ((is_v * heads + head) * tiles * 64 + token)
        return raw[at:at + 2]

    def factors(self, raw):
        n = self.kv["n_kv_head"] * self.kv["d_head"]
        return raw[len(raw) - 4 * n:]

    def check_q8h(self, layer, chunk, raw):
        what = f"KV layer {layer} chunk {chunk}"
        if chunk == 0:
            self.first_factors = self.factors(raw)
        n = len(self.first_factors) // 4
        need(self.factors(raw) == self.first_factors,
             f"{what}: factors differ")
        need(all(2 ** -126 <= f < float("inf") for f in
                 struct.unpack(f"<{n}f", self.first_factors)),
             f"{what}: a factor is not a positive number")
        for is_v in (False, True):
            for head in range(self.kv["n_kv_head"]):
                for token in range(self.tiles(chunk) * 64):
                    s = self.scale(raw, chunk, is_v, head, token)
                    need(struct.unpack("<H", s)[0] < 0x7c00,
                         f"{what}: a scale is not a number")
                    need(chunk * self.kv["chunk_tok"] + token <
                         self.kv["n_tok"] or s == b"\0\0",
                         f"{what}: a scale behind the last token")

    def verify_chunks(self):
        kv = self.kv
        for layer in range(kv["n_layer"]):
            for chunk in range(self.per_layer):
                raw = self.load_chunk(layer, chunk)
                if kv["codec"] == "q8h":
                    self.check_q8h(layer, chunk, raw)
                first = kv["n_tok"] - chunk * kv["chunk_tok"]
                for token in range(first, self.tiles(chunk) * 64):
                    for is_v in (False, True):
                        for head in range(kv["n_kv_head"]):
                            for c in range(kv["d_head"]):
                                need(not any(self.element(
                                    raw, chunk, is_v, head, token, c)),
                                    f"KV layer {layer}: a position behind "
                                    "the last token is not zero")

    def row_bytes(self, is_v, layer, head, token):
        kv = self.kv
        need(0 <= layer < kv["n_layer"] and 0 <= head < kv["n_kv_head"] and
             0 <= token < kv["n_tok"], "there is no such row")
        chunk = token // kv["chunk_tok"]
        raw, token = self.load_chunk(layer, chunk), token % kv["chunk_tok"]
        elements = [self.element(raw, chunk, is_v, head, token, c)
                    for c in range(kv["d_head"])]
        if kv["codec"] == "q8h":
            elements.append(self.scale(raw, chunk, is_v, head, token))
        return raw, elements

    def row(self, *where):
        return [e[::-1].hex() for e in self.row_bytes(*where)[1]]

    def value(self, is_v, layer, head, token):
        raw, elements = self.row_bytes(is_v, layer, head, token)
        if self.kv["codec"] != "q8h":
            form = "<e" if self.elem == 2 else "<f"
            return [struct.unpack(form, e)[0] for e in elements]
        d = self.kv["d_head"]
        n = 1
        while d % (2 * n) == 0:
            n *= 2
        r = 2 ** ((n.bit_length() - 1) // 2)
        s = struct.unpack("<e", elements.pop())[0]
        u = [struct.unpack("<b", e)[0] * s for e in elements]
        out = []
        for i in range(d):
            b = i // n * n
            out.append(sum(x * (-1) ** bin((i - b) & j).count("1")
                           for j, x in enumerate(u[b:b + n])) * r / n)
        if not is_v:
            f = struct.unpack(f"<{d}f", self.factors(raw)[4 * d * head:]
                              [:4 * d])
            out = [x * y for x, y in zip(out, f)]
        return out


def show(path, o):
    with open(path, "rb") as f:
        kvc = Kvc(f.read())
    kvc.verify_chunks()
    out = sys.stdout.buffer
    if not o.quiet:
        out.write(kvc.bytes("META") + b"\n")
    for name in kvc.order if o.sections else []:
        off, size, required, digest = kvc.sections[name]
        out.write(f"{name} {off} {size} {int(required)} "
                  f"{digest.hex()}\n".encode())
    for kind, *where in o.row:
        need(kind in ("K", "V"), f"{kind} is neither K nor V")
        row = kvc.row(kind == "V", *map(int, where))
        out.write((" ".join(row) + "\n").encode())
    for kind, *where in o.value:
        need(kind in ("K", "V"), f"{kind} is neither K nor V")
        row = kvc.value(kind == "V", *map(int, where))
        out.write((" ".join(map(repr, row)) + "\n").encode())
    out.flush()


def main():
    p = argparse.ArgumentParser(description="a second reader of .kvc files")
    p.add_argument("file", nargs="+")
    p.add_argument("--quiet", action="store_true", help="do not print META")
    p.add_argument("--sections", action="store_true",
                   help="print name, offset, size, required, SHA-256")
    p.add_argument("--row", nargs=4, action="append", default=[],
                   metavar=("K|V", "LAYER", "HEAD", "TOKEN"))
    p.add_argument("--value", nargs=4, action="append", default=[],
                   metavar=("K|V", "LAYER", "HEAD", "TOKEN"))
    o = p.parse_args()
    status = 0
    for path in o.file:
        try:
            show(path, o)
        except (Bad, OSError, RecursionError) as e:
            print(f"kvc_reader: {path}: {e}", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env bats
# cag-inspect --export: keys and values as a safetensors file.

bats_require_minimum_version 1.5.0
load ask_helper

setup_file() {
    ask_setup_file
    export golden="$BATS_TEST_DIRNAME/../golden/kvc" tools="$BATS_TEST_DIRNAME/../tools"
}
setup() {
    cd "$work"
    rm -rf x* victim
}

@test "every codec: a well-formed file whose numbers are the cache's" {
    for c in f16 f16z f32 q8h; do
        expect 0 cag-inspect --export x.safetensors "$golden/v1.0-$c.kvc"
        [ ! -s "$out" ] && [ ! -s "$err" ]
        python3 "$tools/safetensors_check.py" x.safetensors "$golden/v1.0-$c.kvc" >x.said
        case $c in f16*) grep -q F16 x.said ;; *) grep -q F32 x.said ;; esac
    done
    # the same cache in two containers, and twice: the same numbers
    cag-inspect --export x1 "$golden/v1.0-f16.kvc"
    cag-inspect --export x2 "$golden/v1.0-f16z.kvc"
    cmp <(tail -c 20000 x1) <(tail -c 20000 x2)
    cp x1 x3
    cag-inspect --export x1 "$golden/v1.0-f16.kvc"
    cmp x1 x3
    [ "$(stat -c %a x1)" = 600 ]
}

@test "metadata: the cache's ids and digests" {
    cag-inspect --export x qwen.kvc
    python3 "$tools/safetensors_check.py" x qwen.kvc
    python3 - <<'END' >meta
import json, struct
f = open("x", "rb")
print(json.dumps(json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))["__metadata__"]))
END
    [ "$(jq -r .content_id meta)" = "$(cag-inspect --digest qwen.kvc)" ]
    [ "$(jq -c '.ids | fromjson' meta)" = "$(cag-inspect --tokens --json qwen.kvc | jq -c .)" ]
    cag-inspect --json qwen.kvc >x.json
    for key in codec binding; do
        [ "$(jq -r .$key meta)" = "$(jq -r .$key x.json)" ]
    done
    jq -e '.model == "qwen3" and .arch == "qwen3" and (.weights_sha256 | length) == 64 and
        (.tokenizer_sha256 | length) == 64 and .layers == "2"' meta
}

@test "written aside, renamed, and no other file is harmed" {
    echo precious >victim
    ln -s victim x.link
    ln -s nowhere x.dangling
    for f in victim x.link x.dangling qwen.kvc "$MODELS/qwen3/model.safetensors"; do
        [ -e "$f" ] || [ -L "$f" ] || continue
        sum=$(sha256sum <"$f" 2>/dev/null || true)
        expect 73 cag-inspect --export "$f" llama.kvc
        [ "$(wc -l <"$err")" = 1 ]
        [ "$(sha256sum <"$f" 2>/dev/null || true)" = "$sum" ]
    done
    [ -L x.link ] && [ ! -e nowhere ]
    expect 73 cag-inspect --export none/x llama.kvc
    mkdir x.dir
    expect 73 cag-inspect --export x.dir llama.kvc
    # an export is replaced, and keeps its mode
    cag-inspect --export x.st llama.kvc
    chmod 640 x.st
    cag-inspect --export x.st qwen.kvc
    [ "$(stat -c %a x.st)" = 640 ]
    python3 "$tools/safetensors_check.py" x.st qwen.kvc
    # the disk is full, a signal comes, the cache is damaged: the old one stays
    cp x.st x.before
    (
        ulimit -f 8
        expect 74 cag-inspect --export x.st llama.kvc
        grep -q 'File too large' "$err"
    )
    cmp x.st x.before
    cp qwen.kvc x.kvc
    size=$(stat -c %s x.kvc)
    printf 'XXXX' | dd of=x.kvc bs=1 seek=$((size - 30000)) conv=notrunc status=none
    expect 65 cag-inspect --export x.st x.kvc
    cmp x.st x.before
    [ "$(ls -A | grep -c '\.tmp$')" = 0 ]
}

@test "wrong uses of --export" {
    expect 64 cag-inspect --export x qwen.kvc llama.kvc
    expect 64 cag-inspect --export x -t qwen.kvc
    expect 64 cag-inspect --export x
    expect 66 cag-inspect --export x nothing.kvc
    expect 65 cag-inspect --export x kb.md
    [ ! -e x ]
}

@test "examples/transformers/load_cache.py reads what is written" {
    f="$BATS_TEST_DIRNAME/../../examples/transformers/load_cache.py"
    # fifteen lines below the text of what it does, and valid Python
    PYTHONPYCACHEPREFIX="$work/x.pyc" python3 -m py_compile "$f"
    [ "$(wc -l <"$f")" -le 18 ]
    cag-inspect --export x qwen.kvc
    # with the two modules in its place: safetensors by hand, a cache of lists
    mkdir x.lib
    cat >x.lib/safetensors.py <<'END'
import json, struct
class safe_open:
    def __init__(self, path, framework, device): self.data = open(path, "rb").read()
    def __enter__(self):
        n = struct.unpack("<Q", self.data[:8])[0]
        self.header = json.loads(self.data[8:8 + n])
        return self
    def __exit__(self, *a): pass
    def metadata(self): return self.header["__metadata__"]
    def get_tensor(self, name): return Tensor(self.header[name])
class Tensor:
    def __init__(self, t): self.dtype, self.shape = t["dtype"], t["shape"]
    def to(self, dtype): return self
END
    cat >x.lib/transformers.py <<'END'
class DynamicCache:
    def __init__(self): self.layers = []
    def update(self, k, v, layer):
        assert layer == len(self.layers)
        self.layers.append((k, v))
END
    PYTHONPATH="x.lib:$(dirname "$f")" PYTHONDONTWRITEBYTECODE=1 python3 - <<'END'
from load_cache import load
cache, ids = load("x")
assert len(cache.layers) == 2
assert all(t.shape == [1, 3, len(ids), 128] for layer in cache.layers for t in layer)
END
}

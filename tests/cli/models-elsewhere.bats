#!/usr/bin/env bats
# Models and caches that move, and what is believed on the way.

load build_helper

setup() {
    begin
    export HF_HUB_CACHE="$PWD/hub"
    printf 'The Sparrow-7 flies 47 minutes.\n' >a.md
}

# in_hub ORG NAME FILE: FILE as the only file of a snapshot
in_hub() {
    local repo="hub/models--$1--$2" commit=0123456789abcdef0123456789abcdef01234567
    mkdir -p "$repo/refs" "$repo/snapshots/$commit"
    printf %s $commit >"$repo/refs/main"
    cp "$3" "$repo/snapshots/$commit/"
}

model_of() { cag-inspect --json "$1" | jq -r '.meta.model.hub // .meta.model.path'; }

@test "a recorded hub id is looked up in the hub's cache, never in the current directory" {
    in_hub Org Tiny "$model"
    ok cag-build -m Org/Tiny -o hub.kvc a.md
    [ "$(model_of hub.kvc)" = Org/Tiny ]
    cp hub.kvc old.kvc
    # somebody's directory of that name
    mkdir -p shared/Org && cp -r "$models/llama" shared/Org/Tiny
    cd shared
    ok cag-build -v --refresh ../hub.kvc
    cmp ../hub.kvc ../old.kvc
    ok cag-build -q -B --refresh ../hub.kvc
    [ "$(model_of ../hub.kvc)" = Org/Tiny ]
    [ "$(cag-inspect --json ../hub.kvc | jq -c .meta.model.files)" = "$(cag-inspect --json ../old.kvc | jq -c .meta.model.files)" ]
    ok cag-ask -n 4 ../hub.kvc hi
    # without the hub nothing is taken in its place
    mv ../hub ../gone
    fails 66 "was not found" cag-build --refresh ../hub.kvc
    fails 66 "was not found" cag-ask ../hub.kvc hi
    mv ../gone ../hub
    # a new revision there is used, and said
    cp "$models/llama.F16.gguf" ../hub/models--Org--Tiny/snapshots/*/"${model##*/}"
    ok cag-build --refresh ../hub.kvc
    says "is another model than the cache was made with (SHA-256 "
    [ "$(model_of ../hub.kvc)" = Org/Tiny ]
}

@test "another model at the recorded place is named by a refresh" {
    cp "$model" m.gguf
    ok cag-build -m m.gguf -o kb.kvc a.md
    ok cag-build -B --refresh kb.kvc
    case "$stderr" in *"another model"*) show ;; esac
    cp "$models/llama.F16.gguf" m.gguf
    ok cag-build --refresh kb.kvc
    says "m.gguf is another model than the cache was made with (SHA-256 "
}

@test "what is no model is refused without reading all of it" {
    truncate -s 300G big.gguf
    fails 65 "big.gguf" timeout 20 cag-build -m big.gguf -o kb.kvc a.md
    ok cag-build -m "$model" -o kb.kvc a.md
    fails 65 "another model than the cache's" timeout 20 cag-ask -m big.gguf kb.kvc hi
    says "it has 322122547200 bytes"
    mkdir dir && truncate -s 300G dir/model.safetensors
    fails 66 "no config.json" timeout 20 cag-build -m dir -o new.kvc a.md
    # an architecture that cag does not run is known as early
    perl -pe 's/qwen3/qwen9/g' "$model" >other.gguf
    truncate -s 300G other.gguf
    fails 69 'general.architecture is "qwen9"' timeout 20 cag-build -m other.gguf -o new.kvc a.md
}

@test "a directory of models: by name, after a path, CAG_MODELS and the hub" {
    local own="$PWD/share" name
    mkdir -p own-name "$own/cag/models" more
    export XDG_DATA_HOME="$own"
    cp "$model" "$own/cag/models/tiny.gguf"
    cp -r "$models/llama" "$own/cag/models/dir-model"
    for name in tiny tiny.gguf dir-model; do
        ok cag-build -m $name -o k.kvc a.md
        ok cag-ask -n 4 k.kvc hi
    done
    # moved with nothing that leads there: the directory of models is asked
    ok cag-build -m tiny -o k.kvc a.md
    mkdir -p far/away && mv k.kvc far/away/
    rm -rf "$CAG_CACHE_DIR"
    ok cag-ask -q --stale ignore -n 4 far/away/k.kvc hi
    # CAG_MODELS comes first, a path before that
    cp "$models/llama.F16.gguf" more/tiny.gguf
    CAG_MODELS="$PWD/more" ok cag-build -m tiny -o l.kvc a.md
    [ "$(cag-inspect --json l.kvc | jq -r .meta.model.arch)" = llama ]
    cp "$models/qwen2.F16.gguf" tiny
    CAG_MODELS="$PWD/more" ok cag-build -m tiny -o p.kvc a.md
    [ "$(cag-inspect --json p.kvc | jq -r .meta.model.arch)" = qwen2 ]
    rm tiny
    # without XDG_DATA_HOME it is below the home directory
    mkdir -p home/.local/share/cag && mv "$own/cag/models" home/.local/share/cag/
    unset XDG_DATA_HOME
    HOME="$PWD/home" ok cag-build -m tiny -o h.kvc a.md
    fails 66 "share/cag/models/nosuch (no such file)" env HOME="$PWD/home" cag-build -m nosuch -o h.kvc a.md
}

@test "a cache that was carried away finds its model by digest" {
    export CAG_CACHE_DIR="$PWD/cache"
    mkdir -p one/two lib
    cp "$model" lib/m.gguf
    cp -r "$models/llama" lib/l
    ok cag-build -m lib/m.gguf -o k.kvc a.md
    ok cag-build -m lib/l -o l.kvc a.md
    ok cag-ask -q -n 4 k.kvc hi
    local want=$output
    mv k.kvc l.kvc one/two/
    ok cag-ask -q --stale ignore -n 4 one/two/k.kvc hi
    [ "$output" = "$want" ]
    ok cag-ask -q --stale ignore -n 4 one/two/l.kvc hi
    # what is there is hashed: another model in its place is none
    cp "$models/llama.F16.gguf" lib/m.gguf
    fails 65 "another model than the cache's" cag-ask -q --stale ignore -n 4 one/two/k.kvc hi
    rm lib/m.gguf
    fails 66 "was not found; tried" cag-ask -q --stale ignore -n 4 one/two/k.kvc hi
    # a memory that others can write is not believed, nor one that is broken
    chmod 666 cache/model-places
    fails 66 "was not found" cag-ask -q --stale ignore -n 4 one/two/l.kvc hi
    chmod 600 cache/model-places
    ok cag-ask -q --stale ignore -n 4 one/two/l.kvc hi
    head -c 5000 /dev/urandom >cache/model-places
    fails 66 "was not found" cag-ask -q --stale ignore -n 4 one/two/l.kvc hi
}

@test "a part of a model that is no JSON object is an error, not as if it were absent" {
    local name text
    cp -r "$models/qwen3" m
    for name in config.json tokenizer.json tokenizer_config.json special_tokens_map.json \
        generation_config.json added_tokens.json model.safetensors.index.json; do
        for text in '[]' 1 '"x"' null true; do
            rm -rf n && cp -r m n
            [ $name != model.safetensors.index.json ] || rm n/model.safetensors
            printf '%s' "$text" >"n/$name"
            fails 65 "cag-build: n/$name: holds " cag-build -q -m n -o kb.kvc a.md
            says "expected a JSON object"
        done
    done
}

@test "a part of a model that is a FIFO, a device or a directory is an error, and nobody waits for it" {
    local name kind
    cp -r "$models/qwen3" m
    for name in config.json tokenizer.json tokenizer_config.json special_tokens_map.json \
        generation_config.json added_tokens.json chat_template.jinja model.safetensors \
        model.safetensors.index.json; do
        for kind in fifo device dir; do
            rm -rf n && cp -r m n && rm -f "n/$name"
            case $kind in
            fifo) mkfifo "n/$name" ;;
            device) ln -s /dev/zero "n/$name" ;;
            dir) mkdir "n/$name" ;;
            esac
            fails 66 "cag-build: n/$name: " timeout 20 cag-build -q -m n -o kb.kvc a.md
        done
    done
    # and where a directory of models is looked through
    mkdir -p data/cag/models
    cp -r m data/cag/models/
    rm m/config.json && mkfifo m/config.json && mv m data/cag/models/n
    XDG_DATA_HOME="$PWD/data" run --separate-stderr timeout 20 cag-inspect --models
    [ "$status" -ne 124 ] || show
    prints "n: is not a regular file"
}

@test "a link or a FIFO where something is remembered is neither followed nor replaced" {
    local name
    cp "$model" m.gguf
    truncate -s +17M m.gguf # as large as what is remembered
    for name in fingerprints model-places; do
        mkdir -p -m 700 memory
        echo kept >target
        ln -sf ../target "memory/$name"
        CAG_CACHE_DIR="$PWD/memory" ok cag-build -q -m m.gguf -o kb.kvc a.md
        CAG_CACHE_DIR="$PWD/memory" ok cag-ask -n 2 kb.kvc hi
        [ "$(cat target)" = kept ]
        [ -L "memory/$name" ]
        rm "memory/$name" kb.kvc
        mkfifo "memory/$name"
        CAG_CACHE_DIR="$PWD/memory" ok timeout 20 cag-build -q -m m.gguf -o kb.kvc a.md
        [ -p "memory/$name" ]
        rm -r memory kb.kvc
    done
}

#!/usr/bin/env bats
# Several caches refreshed in one run: what they share is opened once.

load build_helper

setup() { begin; }

# caches K...: stale caches of the model $m, each with another codec and text
caches() {
    local name n=0 codecs=(f16z q8h f32 f16)
    for name; do
        mkdir -p "${name%/*}"
        facts $((9 + n)) >"$name.md"
        cag-build -q -m "$m" --codec "${codecs[n++ % 4]}" --max-loss 0.1 -o "$name.kvc" "$name.md"
        echo 'One more line: the harbour opens at five.' >>"$name.md"
    done
}

# how often a model was opened, and taken over, in the last run
opened() { grep -c ': opened$' <<<"$stderr"; }
taken() { grep -c ': open already$' <<<"$stderr"; }

@test "one model is opened once, and every byte is that of a refresh alone" {
    for m in "$model" "$models/qwen3"; do
        rm -rf d e
        caches d/a d/b e/c e/d
        cp -rp d alone_d && cp -rp e alone_e
        for k in alone_d/a alone_d/b alone_e/c alone_e/d; do
            ok cag-build -q --refresh $k.kvc
        done
        ok cag-build -v --refresh d/a.kvc d/b.kvc e/c.kvc e/d.kvc
        [ "$(opened)" = 1 ] && [ "$(taken)" = 3 ] || show
        cmp d/a.kvc alone_d/a.kvc
        cmp d/b.kvc alone_d/b.kvc
        cmp e/c.kvc alone_e/c.kvc
        cmp e/d.kvc alone_e/d.kvc
        # fresh ones share it too, and so does a checked build
        ok cag-build -v --refresh d/a.kvc d/b.kvc
        [ "$(opened)" = 1 ] && [ "$(taken)" = 1 ] || show
        rm -rf alone_d alone_e
    done
    # one cache alone keeps nothing and says nothing
    ok cag-build -v --refresh d/a.kvc
    [ "$(opened)" = 0 ] && [ "$(taken)" = 0 ] || show
}

@test "another model, a failed build and one that needs the tokenizer come between" {
    m=$model
    caches d/a d/c d/d d/f
    m=$models/llama.F16.gguf
    caches d/b
    # c fails: its source is no text any more
    printf '\xff' >>d/c.md
    # d is a stranger's: its tokenizer is not believed, the model's is read
    chmod 666 d/d.kvc
    run --separate-stderr cag-build -v --force --refresh d/a.kvc d/b.kvc d/c.kvc d/d.kvc d/f.kvc
    [ "$status" -eq 65 ] || show
    says "d/c.md: "
    [ "$(grep -c 'llama.F16.gguf: opened$' <<<"$stderr")" = 1 ] || show
    for k in a b d f; do
        ok cag-build -q --check d/$k.kvc
        cag-ask -q -n 4 d/$k.kvc hi >/dev/null 2>&1
    done
}

#!/usr/bin/env bats
# Codec q8h from the command line: built, rebuilt, shown, checked, asked.

load build_helper

setup() {
    begin
    facts 24 >a.md
}

json() { cag-inspect --json "$1" | jq -r "$2"; }

@test "half of f16; shown, verified, fresh" {
    cag-build -q -m "$model" --codec f16 -o f16.kvc a.md
    ok cag-build -m "$model" --codec q8h -o kb.kvc a.md
    says "(q8h)"
    # 128 channels: 130 bytes for 256, factors and whole tiles on top
    [ $(($(json kb.kvc .kv_bytes) * 100 / $(json f16.kvc .kv_bytes))) -le 55 ]
    [ "$(json kb.kvc .codec)" = q8h ]
    [ "$(json kb.kvc .meta.binding.kv_class)" = q8h ]
    [ "$(json kb.kvc .content_id)" != "$(json f16.kvc .content_id)" ]
    ok cag-inspect kb.kvc
    prints "q8h: "
    ok cag-inspect -t kb.kvc
    ok cag-inspect --tensors kb.kvc
    prints "q8h"
    ok cag-build --check kb.kvc
    ok cag-build --json -m "$model" --codec q8h -o kb.kvc a.md
    jq -e .fresh <<<"$output"
    ok cag-build -n -m "$model" --codec q8h a.md
    prints "(q8h)"
}

@test "no byte depends on threads, passes or kernels" {
    cag-build -q -m "$model" --codec q8h -o kb.kvc a.md
    for k in scalar avx2 avx512; do
        CAG_KERNELS=$k cag-build -q -t 3 -b 33 -m "$model" --codec q8h -o k.kvc a.md || continue
        cmp k.kvc kb.kvc
        rm k.kvc
    done
    cag-build -q -t 1 -b 7 -m "$model" --codec q8h -o k.kvc a.md
    cmp k.kvc kb.kvc
}

@test "the answer is the same for threads, kernels, neighbours and guesses" {
    cag-build -q -m "$model" --codec q8h -o kb.kvc a.md
    for q in "Where is box 7?" x; do
        want=$(cag-ask -q -n 30 kb.kvc "$q" | od -c)
        [ "$(cag-ask -q -n 30 -t 3 kb.kvc "$q" | od -c)" = "$want" ]
        [ "$(cag-ask -q -n 30 --no-lookup kb.kvc "$q" | od -c)" = "$want" ]
        [ "$(CAG_KERNELS=scalar cag-ask -q -n 30 kb.kvc "$q" | od -c)" = "$want" ]
        [ "$(printf '%s\nother\nmore of it\n' "$q" | jq -Rc '{question: .}' |
            cag-ask -q -n 30 -j 3 --batch - kb.kvc | head -n 1 |
            jq -r .answer | od -c)" = "$want" ]
    done
}

@test "rebuilt whole, and says so; an exact cache is a beginning" {
    cag-build -q -m "$model" --codec q8h -o kb.kvc a.md
    cp kb.kvc old.kvc
    facts 25 >a.md
    ok cag-build --json -m "$model" --codec q8h -o kb.kvc a.md
    says "kb.kvc: codec q8h is rebuilt whole"
    [ "$(jq .tokens_kept <<<"$output")" -eq 0 ]
    [ "$(cag-inspect --diff --json old.kvc kb.kvc | jq .tokens_kept)" -eq 0 ]
    cp kb.kvc full.kvc
    facts 26 >a.md
    ok cag-build --refresh kb.kvc
    says "rebuilt whole"
    [ "$(json kb.kvc .codec)" = q8h ]
    # all but the last 256 tokens of an exact one
    facts 25 >a.md
    for c in f16 f16z; do
        rm kb.kvc
        cag-build -q -m "$model" --codec $c -o kb.kvc a.md
        ok cag-build --json -m "$model" --codec q8h -o kb.kvc a.md
        [ "$(jq '.tokens - .tokens_kept' <<<"$output")" -eq 256 ]
        cmp kb.kvc full.kvc
    done
    # but codes are none for an exact one
    ok cag-build --json -m "$model" --codec f16 -o kb.kvc a.md
    [ "$(jq .tokens_kept <<<"$output")" -eq 0 ]
}

@test "from a manifest; another size of head; what cannot be" {
    printf 'model: %s\ncodec: q8h\nmax-loss: 1e-2\nsources: [a.md]\n' "$models/llama3.F16.gguf" >m.yaml
    ok cag-build --manifest m.yaml
    [ "$(json m.kvc .codec)" = q8h ]
    ok cag-ask -q -n 3 m.kvc hello
    cag-build -q -m "$model" --codec q8h -o kb.kvc a.md
    cag-build -q -m "$model" --codec f16 -o f16.kvc a.md
    fails 64 "codec q8h needs its queries: build with --codec q8h" cag-build --recode q8h f16.kvc -o x.kvc
    fails 69 "cannot recode q8h to f16: only f16z to f16 and back is exact; q8h" \
        cag-build --recode f16 kb.kvc -o x.kvc
    [ ! -e x.kvc ]
}

@test "a flipped bit is found before it is used" {
    cag-build -q -m "$model" --codec q8h -o kb.kvc a.md
    size=$(stat -c %s kb.kvc)
    printf '\377' | dd of=kb.kvc bs=1 seek=$((size - 9000)) conv=notrunc status=none
    fails 65 "section KV" cag-inspect -t kb.kvc
    fails 65 "section KV is damaged" cag-ask --stale ignore kb.kvc hello
}

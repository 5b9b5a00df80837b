#!/usr/bin/env bats
# Partial rebuilds are full builds, byte for byte; codecs convert exactly.

load build_helper
setup() {
    begin
    facts 12 >a.md
    facts 30 | tail -12 >b.md
    facts 44 | tail -10 >c.md
}

# CODEC EDIT: build, edit, build over it, compare with a build from nothing
one() {
    local codec=$1 list="a.md b.md c.md"
    rm -f kb.kvc full.kvc
    facts 12 >a.md
    cag-build -q -m "$model" --codec "$codec" -o kb.kvc $list
    case $2 in
    append) echo "one more line" >>c.md ;;
    delete) sed -i 7d a.md ;;
    insert) sed -i '3i an inserted line' a.md ;;
    edit) sed -i '10s/weighs/holds/' a.md ;;
    shorten) list="a.md b.md" ;;
    lengthen) echo extra >d.md && list="a.md b.md c.md d.md" ;;
    reorder) list="a.md c.md b.md" ;;
    esac
    ok cag-build -m "$model" --codec "$codec" -o kb.kvc $list
    says "tokens kept from the old cache"
    cag-build -q -m "$model" --codec "$codec" -o full.kvc $list
    cmp kb.kvc full.kvc
    cag-inspect -t kb.kvc
}

@test "f16z: append, delete, insert, edit, shorten, lengthen, reorder" {
    for e in append delete insert edit shorten lengthen reorder; do one f16z $e; done
}

@test "f16 and f32: insert, edit, reorder" {
    for c in f16 f32; do
        for e in insert edit reorder; do one $c $e; done
    done
}

@test "the summary says what was kept, computed and saved; JSON too" {
    cag-build -q -m "$model" -o kb.kvc a.md b.md c.md
    sed -i '10s/weighs/holds/' a.md
    run --separate-stderr cag-build --json -m "$model" -o kb.kvc a.md b.md c.md </dev/null
    [[ "$stderr" =~ ([0-9]+)" tokens kept from the old cache, "([0-9]+)" computed; about "[0-9.]+" "m?s" saved" ]]
    local kept=${BASH_REMATCH[1]} computed=${BASH_REMATCH[2]}
    [ "$kept" -gt 400 ]
    [ "$(jq .tokens <<<"$output")" -eq $((kept + computed)) ]
    [ "$(jq .tokens_kept <<<"$output")" -eq "$kept" ]
    jq -e '.seconds_saved >= 0 and .fresh == false and .schema == 1' <<<"$output"
    run --separate-stderr cag-build --json -m "$model" -o kb.kvc a.md b.md c.md </dev/null
    jq -e '.fresh and .tokens == .tokens_kept' <<<"$output"
    [ -z "$stderr" ]
}

@test "K and V of another model, or of a damaged file, are not kept" {
    cag-build -q -m "$model" -o kb.kvc a.md
    cp kb.kvc whole.kvc
    ok cag-build -m "$models/llama.F16.gguf" -o kb.kvc a.md
    [[ "$stderr" != *kept* ]] || show
    cp whole.kvc kb.kvc
    # a byte in the middle of the keys
    local at
    at=$(cag-inspect --json kb.kvc | jq '.sections[] | select(.name == "KV").off + 5000')
    printf '\x55' | dd of=kb.kvc bs=1 seek="$at" conv=notrunc status=none
    echo more >>a.md
    ok cag-build -m "$model" -o kb.kvc a.md
    says "kb.kvc: is damaged"
    cag-build -q -m "$model" -o full.kvc a.md
    cmp kb.kvc full.kvc
    # a cache that is beyond use is replaced, and -v says so
    head -c 5000 full.kvc >kb.kvc
    ok cag-build -v -m "$model" -o kb.kvc a.md
    says "kb.kvc: replaced, it is no usable cache"
    cmp kb.kvc full.kvc
}

@test "--recode is the direct build, with the same content id" {
    for c in f16z f16; do cag-build -q -m "$model" --codec $c -o $c.kvc a.md b.md; done
    ok cag-build --recode f16 f16z.kvc -o x.kvc
    says "x.kvc: f16, "
    cmp x.kvc f16.kvc
    ok cag-build -q --recode f16z f16.kvc -o y.kvc
    cmp y.kvc f16z.kvc
    [ "$(cag-inspect --digest x.kvc y.kvc | uniq | wc -l)" -eq 1 ]
    # in place, and into another directory: recorded paths follow
    ok cag-build -q --recode f16 y.kvc -o y.kvc
    cmp y.kvc f16.kvc
    mkdir sub
    ok cag-build -q --mode 0640 --recode f16 f16z.kvc -o sub/z.kvc
    [ "$(stat -c %a sub/z.kvc)" = 640 ]
    ok cag-build --check sub/z.kvc
    run --separate-stderr cag-build --json --recode f16z f16.kvc -o j.kvc </dev/null
    [ "$(jq -r .content_id <<<"$output")" = "$(cag-inspect --digest f16.kvc)" ]
}

@test "--recode refuses what is not exact, and what is not there" {
    cag-build -q -m "$model" --codec f32 -o f32.kvc a.md
    fails 69 "cannot recode f32 to f16" cag-build --recode f16 f32.kvc -o x.kvc
    fails 64 "not to 'f32'" cag-build --recode f32 f32.kvc -o x.kvc
    fails 64 "did you mean 'f16z'?" cag-build --recode f16x f32.kvc -o x.kvc
    fails 64 "--recode takes one cache and -o" cag-build --recode f16 f32.kvc
    fails 66 "no.kvc: cannot open" cag-build --recode f16 no.kvc -o x.kvc
    fails 65 "GGUF model" cag-build --recode f16 "$model" -o x.kvc
    [ ! -e x.kvc ]
}

@test "payload is tokens x bytes per token, for every codec and head count" {
    echo hi >s.md
    for m in qwen3.F16 llama.F16 mistral.F16; do
        for c in f16z f16 f32 q8h; do
            ok cag-build -q -m "$models/$m.gguf" --codec $c --max-loss 1 -o k.kvc s.md
            cag-inspect --json k.kvc >k.json
            jq -e '.codec == "f32" or .bytes < 1048576' k.json
            ok cag-inspect --tensors --json k.kvc
            # K and V of all layers; tiles of 64 tokens are stored whole
            jq -e --argjson t "$(jq .tokens k.json)" --argjson kv "$(jq .kv_bytes k.json)" '
                ([.tensors[].bytes] | add) as $n |
                (.tensors[0].shape[1] == $t) and $n <= $kv and $kv < $n + $n * 64 / $t' <<<"$output"
            ok cag-ask -n 2 k.kvc hello
        done
    done
}

#!/usr/bin/env bats
# --precision: what is recorded, what a question then gets, and that a cached
# answer is the uncached one with each.

load build_helper

setup() {
    begin
    export HOME="$PWD"
    printf 'The Sparrow-7 flies 47 minutes.\nMaya Sen leads Project Atish.\n' >kb.md
    facts 8 >>kb.md
    model="$models/llama.Q4_1.gguf"
}

provenance() {
    cag-inspect --json "$1" | jq -r ".meta.provenance.$2"
}

@test "each precision is recorded, and asked with again" {
    for p in default exact fast fast8; do
        ok cag-build -q --precision $p -m "$model" -o $p.kvc kb.md
        [ "$(provenance $p.kvc precision)" = $p ]
        for n in 1 30; do
            cached=$(cag-ask -q -n $n $p.kvc "How long does it fly?")
            cold=$(cag-ask -q -n $n --no-cache $p.kvc "How long does it fly?")
            explicit=$(cag-ask -q -n $n --precision $p $p.kvc "How long does it fly?")
            [ "$cached" = "$cold" ]
            [ "$cached" = "$explicit" ]
        done
    done
    [ "$(provenance default.kvc numerics)" = "$(provenance exact.kvc numerics)" ]
    [ "$(cag-inspect --json default.kvc | jq -r .content_id)" = "$(cag-inspect --json exact.kvc | jq -r .content_id)" ]
    # a cache made with fewer bits says so wherever these were used
    ok cag-build -v --force --precision fast -m "$model" -o fast.kvc kb.md
    case "$(provenance fast.kvc numerics)" in
    f32-lanes.1) says "nothing is faster for this model on this CPU" ;;
    f32-lanes.1+*) says "--precision fast: prompts by" ;;
    *) false ;;
    esac
}

@test "fast8 is fast, or takes 8 bits beside it and says so" {
    ok cag-build -v --precision fast -m "$model" -o fast.kvc kb.md
    fast=$(grep -o 'prompts by .*' <<<"$stderr") || fast=
    ok cag-build -v --precision fast8 -t 1 -b 7 -m "$model" -o fast8.kvc kb.md
    case "$(provenance fast8.kvc numerics)" in
    *bf16*u4s8*) says "--precision fast8: prompts by avx512bf16, u4s8 avx512vnni (f32-lanes.1+bf16-pairs.2+u4s8.1)" ;;
    *) [ "$(grep -o 'prompts by .*' <<<"$stderr")" = "$fast" ]
       [ "$(cag-inspect --json fast.kvc | jq -r .content_id)" = "$(cag-inspect --json fast8.kvc | jq -r .content_id)" ] ;;
    esac
    ok cag-build -q --precision fast8 -m "$model" -o again.kvc kb.md
    cmp fast8.kvc again.kvc
    ok cag-bench build -q -r 1 --warmup 0 -o json fast8.kvc
    prints '"precision":"fast8"'
}

@test "fast does not depend on threads or passes, nor on what was kept" {
    ok cag-build -q --precision fast -m "$model" -o a.kvc kb.md
    ok cag-build -q --precision fast -t 1 -b 7 -m "$model" -o b.kvc kb.md
    cmp a.kvc b.kvc
    facts 11 | tail -3 >>kb.md
    ok cag-build --precision fast -m "$model" -o a.kvc kb.md
    says " kept"
    ok cag-build -q --precision fast -m "$model" -o c.kvc kb.md
    cmp a.kvc c.kvc
    # of another precision nothing is kept
    echo more >>kb.md
    ok cag-build -m "$model" -o a.kvc kb.md
    [[ "$stderr" != *" kept"* ]]
    [ "$(provenance a.kvc precision)" = default ]
    ok cag-build --precision exact -m "$model" -o d.kvc kb.md
    [ "$(cag-inspect --json a.kvc | jq -r .content_id)" = "$(cag-inspect --json d.kvc | jq -r .content_id)" ]
}

@test "a refresh keeps the precision, a change of it alone makes nothing stale" {
    ok cag-build -q --precision fast -m "$model" -o a.kvc kb.md
    ok cag-build -m "$model" -o a.kvc kb.md
    says "warning: a.kvc: fresh, and stays as made with --precision fast, not default"
    [ "$(provenance a.kvc precision)" = fast ]
    ok cag-build --precision fast -m "$model" -o a.kvc kb.md
    [[ "$stderr" != *warning* ]]
    ok cag-build --check a.kvc
    echo more >>kb.md
    ok cag-build -q --refresh a.kvc
    [ "$(provenance a.kvc precision)" = fast ]
    printf 'model: %s\noutput: m.kvc\nprecision: fast\nsources:\n  - path: kb.md\n' "$model" >m.yaml
    ok cag-build -q --manifest m.yaml
    [ "$(provenance m.kvc precision)" = fast ]
}

@test "a set of kernels without anything faster says so and gives the default" {
    ok cag-build -q -m "$model" -o a.kvc kb.md
    CAG_KERNELS=scalar ok cag-build --precision fast -m "$model" -o b.kvc kb.md
    says "warning: --precision fast: nothing is faster"
    [ "$(provenance b.kvc numerics)" = f32-lanes.1 ]
    [ "$(cag-inspect --json a.kvc | jq -r .content_id)" = "$(cag-inspect --json b.kvc | jq -r .content_id)" ]
    CAG_KERNELS=scalar ok cag-ask -n 2 b.kvc "How long?"
    says "nothing is faster"
    CAG_KERNELS=scalar ok cag-ask -n 2 --precision default b.kvc "How long?"
    [[ "$stderr" != *"nothing is faster"* ]]
}

@test "cag-bench: figures of a precision, the cache's where none is named" {
    ok cag-build -q --precision fast -m "$model" -o a.kvc kb.md
    ok cag-bench build -q -r 1 --warmup 0 -o json a.kvc
    prints '"precision":"fast"'
    case "$(provenance a.kvc numerics)" in
    f32-lanes.1) run ! grep -q loss_ <<<"$output" ;;
    *) jq -e '[.figures[] | select(.name == "loss_kl" or .name == "loss_same") | .median]
              | length == 2 and .[0] > 0 and .[0] < 0.1 and .[1] > 50' <<<"$output"
       jq -e '[.figures[] | select(.name == "limit_fast")] | length == 1' <<<"$output"
       jq -e '.notes[] | select(startswith("--precision fast ("))' <<<"$output" ;;
    esac
    ok cag-bench build -q -r 1 --warmup 0 --precision default -o json a.kvc
    prints '"precision":"default"'
    prints '"numerics":"f32-lanes.1"'
    run ! grep -q "loss_\|limit_fast" <<<"$output"
}

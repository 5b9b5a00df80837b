#!/usr/bin/env bats
# CAG_KERNELS: a set that is unknown is an error with its reason, in every
# tool that computes; who computes nothing does not care.

load build_helper

setup() {
    begin
    export HOME="$PWD"
    printf 'The Sparrow-7 flies 47 minutes.\nMaya Sen leads Project Atish.\n' >kb.md
}

# One line, whatever is on stdout by then.
refuses() {
    CAG_KERNELS=bogus run --separate-stderr "$@" </dev/null
    [ "$status" -eq 69 ] || show
    says "CAG_KERNELS is 'bogus', which is no set; known are ref, scalar, avx2, avx512"
    [ "$(wc -l <<<"$stderr")" -eq 1 ] || show
}

@test "an unknown set is refused by whatever computes" {
    ok cag-build -q -m "$model" -o f16.kvc kb.md
    ok cag-build -q --codec q8h --max-loss 1 -m "$model" -o q8h.kvc kb.md
    before=$(sha256sum f16.kvc)
    for codec in f16 f16z q8h; do
        refuses cag-build --codec $codec -m "$model" -o new.kvc kb.md
        refuses cag-build -n --codec $codec -m "$model" kb.md
        [ ! -e new.kvc ]
    done
    # a build has a model ready to compute with, also where nothing is to do
    refuses cag-build -m "$model" -o f16.kvc kb.md
    echo more >>kb.md
    refuses cag-build --force -m "$model" -o f16.kvc kb.md
    [ "$(sha256sum f16.kvc)" = "$before" ]
    for kb in f16 q8h; do
        refuses cag-ask --stale ignore $kb.kvc "How long?"
        refuses cag-ask -q --no-cache --stale ignore $kb.kvc "How long?"
        refuses cag-ask -q --stale ignore --batch kb.md $kb.kvc
        refuses cag-build -q --refresh $kb.kvc
        refuses cag-bench -q $kb.kvc
    done
    echo '[[1, 2, 3]]' >ids.json
    refuses cag-bench probe -q -m "$model" --ids ids.json
}

@test "an unknown family is refused where fast is asked for" {
    CAG_KERNELS=scalar+amx run --separate-stderr cag-build --precision fast -m "$model" -o new.kvc kb.md
    [ "$status" -eq 69 ] || show
    says "CAG_KERNELS names no family"
    [ ! -e new.kvc ]
    CAG_KERNELS=scalar+amx ok cag-build -q -m "$model" -o new.kvc kb.md
}

@test "what computes nothing works with an unknown set" {
    ok cag-build -q --codec q8h --max-loss 1 -m "$model" -o q8h.kvc kb.md
    export CAG_KERNELS=bogus
    ok cag-inspect q8h.kvc
    ok cag-build --check q8h.kvc
    ok cag-inspect --json q8h.kvc
    ok cag-build --version
}

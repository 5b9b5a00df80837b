#!/usr/bin/env bats
# A GGUF in several files, as gguf-split writes it.

load build_helper

setup() {
    begin
    printf 'The Sparrow-7 flies 47 minutes.\n' >a.md
    split "$model" m 3
}

split() { perl "$BATS_TEST_DIRNAME/../tools/split_gguf.pl" "$@"; }

@test "the model of three files is the model of one, by any of them" {
    local part
    ok cag-build -m "$model" -o one.kvc a.md
    for part in 1 2 3; do
        ok cag-build -m m-0000$part-of-00003.gguf -o s$part.kvc a.md
        cag-inspect --tokens s$part.kvc | cmp - <(cag-inspect --tokens one.kvc)
        [ "$(cag-ask -q -n 12 s$part.kvc hi 2>&1)" = "$(cag-ask -q -n 12 one.kvc hi 2>&1)" ]
        ok cag-build --check s$part.kvc
        ok cag-build -v --refresh s$part.kvc
        says "fresh"
    done
    # tensors may begin with the second file
    split "$model" e 3 0 empty
    ok cag-build -m e-00001-of-00003.gguf -o e.kvc a.md
    [ "$(cag-ask -q -n 12 e.kvc hi 2>&1)" = "$(cag-ask -q -n 12 one.kvc hi 2>&1)" ]
}

@test "all files are the model: recorded with digests, checked, and never written" {
    local i
    ok cag-build -m m-00001-of-00003.gguf -o kb.kvc a.md
    for i in 1 2 3; do
        cag-inspect --json kb.kvc | jq -e --arg n m-0000$i-of-00003.gguf \
            --arg h "$(sha256sum <m-0000$i-of-00003.gguf | cut -d ' ' -f 1)" \
            ".meta.model.files[$i - 1] | .name == \$n and .sha256 == \$h"
    done
    fails 64 "the output is what the build reads" cag-build -B -m m-00001-of-00003.gguf -o m-00003-of-00003.gguf a.md
    fails 64 "the depfile is another file" cag-build -m m-00001-of-00003.gguf --depfile m-00002-of-00003.gguf -o x.kvc a.md
    ok cag-build -n -m m-00001-of-00003.gguf -o kb.kvc a.md
    prints "kb.kvc is there: nothing to compute"
    # renamed it is the same, moved it is found where it was last hashed
    for i in 1 2 3; do mv m-0000$i-of-00003.gguf other-0000$i-of-00003.gguf; done
    ok cag-ask -q -n 2 -m other-00002-of-00003.gguf kb.kvc hi
    touch -d '1 hour ago' other-*
    mkdir far && cp kb.kvc far
    ok cag-ask -q -n 2 -m "$PWD/other-00001-of-00003.gguf" far/kb.kvc hi
    ok cag-ask -q -n 2 far/kb.kvc hi
    # one byte of a later file
    printf '\x01' | dd of=other-00003-of-00003.gguf bs=1 seek=100000 conv=notrunc status=none
    fails 65 "another model than the cache's" cag-ask -m other-00001-of-00003.gguf kb.kvc hi
    says "other-00003-of-00003.gguf"
}

@test "a part that is missing, foreign, renamed or a lie is named" {
    mv m-00003-of-00003.gguf kept
    fails 66 "m-00003-of-00003.gguf: part 3 of 3 of the model is not there" cag-build -m m-00001-of-00003.gguf -o kb.kvc a.md
    cp m-00002-of-00003.gguf m-00003-of-00003.gguf
    fails 65 "m-00003-of-00003.gguf: is a part of another model: it is part 2 of 3" cag-build -m m-00001-of-00003.gguf -o kb.kvc a.md
    split "$models/llama.F16.gguf" l 3
    cp l-00003-of-00003.gguf m-00003-of-00003.gguf
    fails 65 "m-00003-of-00003.gguf: is a part of another model" cag-build -m m-00002-of-00003.gguf -o kb.kvc a.md
    split "$models/qwen3.F16.gguf" four 4
    cp four-00003-of-00004.gguf m-00003-of-00003.gguf
    fails 65 "it is part 3 of 4" cag-build -m m-00001-of-00003.gguf -o kb.kvc a.md
    cp "$model" m-00003-of-00003.gguf
    fails 65 "it is part 1 of 1" cag-build -m m-00001-of-00003.gguf -o kb.kvc a.md
    cp m-00001-of-00003.gguf alone.gguf
    fails 65 "is part 1 of 3 of a model, so its name must end in -00001-of-00003.gguf" cag-build -m alone.gguf -o kb.kvc a.md
    cp m-00001-of-00003.gguf m-00002-of-00003.gguf
    fails 65 "is part 1 of 3" cag-build -m m-00002-of-00003.gguf -o kb.kvc a.md
    split "$model" c 3 40
    fails 65 "its 3 parts hold 25 tensors, split.tensors.count is 40" cag-build -m c-00001-of-00003.gguf -o kb.kvc a.md
    # the same tensors twice, and the number right
    split "$model" e 3 29
    split "$model" f 3 29 empty
    cp f-00002-of-00003.gguf e-00002-of-00003.gguf
    fails 65 "occurs in two parts" cag-build -m e-00001-of-00003.gguf -o kb.kvc a.md
    [ ! -e kb.kvc ]
    # a whole model may be called like a part
    cp "$model" whole-00002-of-00003.gguf
    ok cag-build -m whole-00002-of-00003.gguf -o kb.kvc a.md
}

@test "the only model of a hub's snapshot may be in several files" {
    local repo=hub/models--Org--Tiny commit=0123456789abcdef0123456789abcdef01234567
    export HF_HUB_CACHE="$PWD/hub"
    mkdir -p $repo/refs $repo/snapshots/$commit
    printf %s $commit >$repo/refs/main
    cp m-*.gguf $repo/snapshots/$commit
    ok cag-build -m Org/Tiny -o kb.kvc a.md
    ok cag-ask -q -n 2 kb.kvc hi
    cp "$model" $repo/snapshots/$commit
    fails 66 "several GGUF files, give the path of one" cag-build -m Org/Tiny -o k2.kvc a.md
}

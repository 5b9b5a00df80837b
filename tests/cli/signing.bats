#!/usr/bin/env bats
# examples/signing: a signature stands for every byte of a cache.

setup() {
    command -v ssh-keygen >/dev/null || skip "no ssh-keygen"
    export PATH="${CAG_BIN:-$BATS_TEST_DIRNAME/../../build/release}:$PATH"
    unset CAG_MODEL CAG_MODELS
    cag_sign="$BATS_TEST_DIRNAME/../../examples/signing/cag-sign"
    model="$BATS_TEST_DIRNAME/../golden/models/qwen3"
    cd "$BATS_TEST_TMPDIR" || return 1
    echo 'The Sparrow-7 flies 47 minutes.' >a.md
    cag-build -q -m "$model" -o kb.kvc a.md
    ssh-keygen -q -t ed25519 -N '' -f key
    printf 'ops@example.org %s\n' "$(cut -d' ' -f1,2 key.pub)" >signers
    "$cag_sign" sign key kb.kvc
}

@test "a signed cache verifies, also as a copy" {
    "$cag_sign" verify signers ops@example.org kb.kvc
    cp kb.kvc copy.kvc
    cp kb.kvc.sig copy.kvc.sig
    "$cag_sign" verify signers ops@example.org copy.kvc kb.kvc
    [ "$(ls -A | grep -c '\.sig')" -eq 2 ]
}

@test "another signer, no signature, another cache: refused" {
    run "$cag_sign" verify signers eve@example.org kb.kvc
    [ "$status" -eq 1 ]
    ssh-keygen -q -t ed25519 -N '' -f other
    printf 'ops@example.org %s\n' "$(cut -d' ' -f1,2 other.pub)" >others
    run "$cag_sign" verify others ops@example.org kb.kvc
    [ "$status" -eq 1 ]
    [[ "$output" == *"not signed by"* ]]
    mv kb.kvc.sig kept
    run "$cag_sign" verify signers ops@example.org kb.kvc
    [ "$status" -eq 1 ]
    [[ "$output" == *"no signature"* ]]
    mv kept kb.kvc.sig
    echo 'The Sparrow-7 flies 48 minutes.' >a.md
    cag-build -q -m "$model" -o kb.kvc a.md
    run "$cag_sign" verify signers ops@example.org kb.kvc
    [ "$status" -eq 1 ]
}

@test "a forged prompt with all its digests made right is refused" {
    # what comes after a question is not part of the content id: the header is
    perl -e '
        use Digest::SHA "sha256";
        open F, "+<", "kb.kvc" or die; binmode F; local $/; my $d = <F>;
        my $at = index($d, "PRMT"); my ($off, $n) = unpack "Q<Q<", substr $d, $at + 8, 16;
        my $s = substr $d, $off, $n; $s =~ s/"suffix":"<\|im_end\|>/"suffix":"<|im_eNd|>/ or die "no suffix";
        substr $d, $off, $n, $s; substr $d, $at + 24, 32, sha256($s);
        my $h = substr $d, 0, 4096; my $p = $ARGV[0]; substr $h, $p, 32, "\0" x 32;
        substr $h, $p, 32, sha256($h); substr $d, 0, 4096, $h; seek F, 0, 0; print F $d;
    ' 32      # where the header's own digest is: kvc(5)
    cag-inspect -t kb.kvc
    run "$cag_sign" verify signers ops@example.org kb.kvc
    [ "$status" -eq 1 ]
}

@test "what is signed lies under no name, and no link is written through" {
    mkdir bin
    printf '#!/bin/sh\nls -A "%s" | grep "[.]in$" && exit 1\nexec "%s" "$@"\n' \
        "$PWD" "$(command -v ssh-keygen)" >bin/ssh-keygen
    chmod +x bin/ssh-keygen
    rm kb.kvc.sig
    umask 077
    PATH=$PWD/bin:$PATH "$cag_sign" sign key kb.kvc
    [ "$(stat -c %a kb.kvc.sig)" = 644 ]
    [ "$(ls -A | grep -c '[.]sig')" -eq 1 ]
    # a link in the signature's place is replaced, not followed
    echo precious >victim
    ln -sf victim kb.kvc.sig
    "$cag_sign" sign key kb.kvc
    [ ! -L kb.kvc.sig ]
    [ "$(cat victim)" = precious ]
    "$cag_sign" verify signers ops@example.org kb.kvc
}

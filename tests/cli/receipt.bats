#!/usr/bin/env bats
# The receipt of a lossy codec and --max-loss.  The models are tiny and random:
# their losses say nothing, so limits are set around what is measured.

load build_helper

setup() {
    begin
    facts 24 >a.md
}

lossy() { cag-build -m "$model" --codec q8h -o kb.kvc "$@"; }
kl() { cag-inspect --json "$1" | jq .receipt.kl_mean; }
json() { cag-inspect --json "$1" | jq -r "$2"; }

@test "measured, printed, stored, shown" {
    ok lossy a.md
    says "KL mean "
    says " over the last 256 tokens; best token the same in "
    [ "$(grep -c "KL mean" <<<"$stderr")" -eq 1 ]
    ok lossy -q -B a.md
    [ -z "$stderr" ]
    jq -en "$(kl kb.kvc) > 0 and $(kl kb.kvc) < 3e-4"
    ok cag-inspect kb.kvc
    prints "receipt      KL mean "
    prints "best token the same in"
    prints "K up to"
    cag-inspect --json kb.kvc >kb.json
    jq -e '.tokens == .receipt.end and .receipt.end - .receipt.begin == 256 and .receipt.kl_mean <= .receipt.kl_max and
        .receipt.kl_p99 <= .receipt.kl_max and .receipt.top1_same <= 256 and
        (.receipt.layers | length) == 2 and (.receipt.layers | all(.k.rel_rms > 0 and .v.rel_rms < 0.02 and .k.max > 0 and
        .k.overflow == 0)) and ([.sections[].name] | last) == "RCPT"' kb.json
    # the reports of a build, of one that finds it fresh, and the file agree
    ok lossy --json -B a.md
    [ "$(jq .receipt.kl_mean <<<"$output")" = "$(kl kb.kvc)" ]
    jq -e '.receipt_seconds > 0' <<<"$output"
    ok lossy --json a.md
    jq -e .fresh <<<"$output"
    [ "$(jq .receipt.kl_mean <<<"$output")" = "$(kl kb.kvc)" ]
    # a codec that loses nothing has none
    cag-build -q -m "$model" -o z.kvc a.md
    [ "$(json z.kvc .receipt)" = null ]
    ok cag-build --json -m "$model" -o z.kvc a.md
    [ "$(jq .receipt <<<"$output")" = null ]
    run --separate-stderr cag-inspect --diff z.kvc kb.kvc
    [ "$status" -eq 1 ]
    prints "loss, mean KL: 0 / "
}

@test "above --max-loss: 1, what was measured, the limit, what to do; the old file stays" {
    fails 1 "codec q8h loses too much here: a mean KL of " lossy --max-loss 0 a.md
    says "over the last 256 tokens, --max-loss is 0; nothing is written.  Use --codec f16z"
    [ ! -e kb.kvc ]
    [ -z "$(ls -A | grep tmp)" ]
    lossy -q a.md
    cp kb.kvc old.kvc
    limit=$(jq -n "$(kl kb.kvc) * 0.999")
    fails 1 "nothing is written" lossy --max-loss "$limit" a.md
    cmp kb.kvc old.kvc
    run --separate-stderr cag-build --json -m "$model" --codec q8h -o new.kvc --max-loss "$limit" a.md
    [ "$status" -eq 1 ]
    # the number in the advice is enough
    advice=$(sed -n 's/.*allow it with --max-loss //p' <<<"$stderr")
    ok lossy --max-loss "$advice" a.md
    ok lossy --max-loss "$(jq -n "$(kl old.kvc) * 1.001")" a.md
    # a limit is no part of the binding, and a codec without loss passes any
    [ "$(json kb.kvc .binding)" = "$(json old.kvc .binding)" ]
    [ "$(json kb.kvc .content_id)" = "$(json old.kvc .content_id)" ]
    ok cag-build -q -m "$model" -o z.kvc --max-loss 0 a.md
    cmp <(json z.kvc .meta.build) <(cag-build -q -m "$model" -o y.kvc a.md && json y.kvc .meta.build)
    for bad in -1 nan x 0x1 1e7; do
        fails 64 "max-loss" lossy "--max-loss=$bad" a.md
    done
    fails 64 "--max-loss does not go with --check" cag-build --check --max-loss 1 kb.kvc
}

@test "--refresh keeps the limit, or takes another" {
    lossy -q --max-loss 0.25 a.md
    [ "$(json kb.kvc .meta.build.max_loss)" = 3e800000 ]
    facts 26 >a.md
    ok cag-build --refresh kb.kvc
    [ "$(json kb.kvc .meta.build.max_loss)" = 3e800000 ]
    ok lossy --max-loss 0.25 a.md
    [ -z "$stderr" ]
    facts 25 >a.md
    cp kb.kvc old.kvc
    fails 1 "--max-loss is 1e-09" cag-build --refresh --max-loss 1e-9 kb.kvc
    cmp kb.kvc old.kvc
    ok cag-build --refresh --max-loss 0.5 kb.kvc
    [ "$(json kb.kvc .meta.build.max_loss)" = 3f000000 ]
    # another limit is a reason to build, like every recorded option
    ok lossy a.md
    says "KL mean"
    [ "$(json kb.kvc .meta.build.max_loss)" = 399d4952 ]
}

@test "short texts: half of the prefix is read again" {
    echo "One line." >s.md
    ok lossy --max-loss 1 s.md
    n=$(json kb.kvc .tokens)
    [ "$(json kb.kvc '.receipt.end - .receipt.begin')" -eq $((n / 2)) ]
    says "over the last $((n / 2)) tokens"
}

@test "the same bytes after an interruption, and from an exact cache; progress of its own" {
    facts 40 >a.md
    lossy -q a.md
    cp kb.kvc one.kvc
    rm kb.kvc
    cag-build -q -m "$model" --codec f16 -o kb.kvc a.md
    ok lossy --json a.md
    [ "$(jq '.tokens_kept > 0' <<<"$output")" = true ]
    cmp kb.kvc one.kvc
    ok lossy -B --progress always a.md
    says "receipt"
    says "256/256 tokens"
}

@test "who changes a receipt is found; a cache without one is refused" {
    lossy -q a.md
    reader="$BATS_TEST_DIRNAME/../tools/kvc_reader.py"
    ok python3 "$reader" --quiet kb.kvc
    at=$(grep -abo '"kl":{"max":"' kb.kvc | cut -d: -f1)
    cp kb.kvc bad.kvc
    printf 0 | dd of=bad.kvc bs=1 seek=$((at + 15)) conv=notrunc status=none
    fails 65 "section RCPT is damaged (SHA-256 differs)" cag-inspect bad.kvc
    fails 65 "section RCPT is damaged" cag-ask --stale ignore bad.kvc x
    run python3 "$reader" --quiet bad.kvc
    [ "$status" -eq 1 ]
}

@test "cag-bench names the loss" {
    lossy -q a.md
    ok cag-bench load -r 1 --warmup 0 -o json kb.kvc
    [[ "$(jq -r .facts.loss <<<"$output")" == "mean KL "*" nats over 256 tokens" ]]
}

#!/usr/bin/env bats
# Copy heads: when they are looked for, what is stored of them, and that
# nothing else changes.  The models are tiny and random: which heads are found
# says nothing.

load build_helper

setup() {
    begin
    facts 12 >a.md
}

build() { cag-build -q -m "$model" -o kb.kvc "$@"; }
json() { cag-inspect --json kb.kvc | jq -r "$1"; }

@test "asked for: stored, shown, the same bytes on any number of threads" {
    ok build --calibrate heads --threads 1 a.md
    mv kb.kvc one.kvc
    for n in 2 8; do
        ok build --calibrate heads --threads $n a.md
        cmp kb.kvc one.kvc
        rm kb.kvc
    done
    mv one.kvc kb.kvc
    json .copy_heads >h.json
    jq -e '(.heads | length) == 6 and (.heads | unique_by([.layer, .head]) | length) == 6 and
        .quote_mass == .heads[0].mass and .heads[0].mass >= .heads[5].mass and .heads[5].mass >= 0 and
        .lines == 12 and .rows == 96 and .tokens <= 512 and .used == (.quote_mass >= 0.2)' h.json
    [ "$(json '.sections[-1].name')" = ATTN ]
    ok cag-inspect kb.kvc
    prints "copy heads   $(jq -r '[.heads[] | "\(.layer).\(.head)"] | join(" ")' h.json); quote mass 0."
    ok cag-inspect -t kb.kvc
}

@test "identity, tokens, keys and values are those without" {
    ok build --calibrate off a.md
    cp kb.kvc off.kvc
    ok build --calibrate heads a.md
    [ "$(cag-inspect --digest kb.kvc)" = "$(cag-inspect --digest off.kvc)" ]
    [ "$(cag-ask -m "$model" off.kvc -n 5 'Which box?')" = "$(cag-ask -m "$model" kb.kvc -n 5 'Which box?')" ]
}

@test "a small text has none unless asked, a long one unless refused" {
    ok build a.md
    [ "$(json .copy_heads)" = null ]
    facts 70 >b.md
    ok build b.md
    [ "$(json '.tokens >= 2560')" = true ]
    [ "$(json .copy_heads.lines)" = 12 ]
    ok build --calibrate off b.md
    [ "$(json .copy_heads)" = null ]
    # a cache without them stays fresh: the default was not another one
    ok build a.md
    ok cag-build --json -m "$model" -o kb.kvc a.md
    jq -e .fresh <<<"$output"
}

@test "what was asked for is recorded: --refresh, and whether a cache is fresh" {
    ok build --calibrate heads a.md
    ok cag-build --json -m "$model" --calibrate heads -o kb.kvc a.md
    jq -e .fresh <<<"$output"
    cp kb.kvc was.kvc
    echo "Fact 99: box number 4 is empty." >>a.md
    ok cag-build -q --refresh kb.kvc
    [ "$(json .meta.build.calibrate)" = heads ]
    # the first tokens are the same, and so is what is found in them
    [ "$(json .copy_heads.heads)" = "$(cag-inspect --json was.kvc | jq -r .copy_heads.heads)" ]
    cp kb.kvc kept.kvc
    ok build --calibrate heads --force a.md
    cmp kb.kvc kept.kvc
    ok build --calibrate off a.md
    [ "$(json .copy_heads)" = null ]
    ok cag-build -q --refresh --force kb.kvc
    [ "$(json .copy_heads)" = null ]
    fails 64 "--calibrate does not go with --refresh: the cache records it" cag-build --refresh --calibrate off kb.kvc
}

@test "every codec; --recode keeps them; a text without lines; texts of a few words" {
    for c in f16 f32 q8h; do
        ok build --calibrate heads --codec $c a.md
        [ "$(json .copy_heads.rows)" = 96 ]
        ok cag-inspect -t kb.kvc
    done
    ok build --calibrate heads a.md
    ok cag-build --recode f16 kb.kvc -o p.kvc
    [ "$(cag-inspect --json p.kvc | jq -r .copy_heads)" = "$(json .copy_heads)" ]
    ok cag-build -q --calibrate heads --codec f16 -m "$model" -o q.kvc a.md
    cmp p.kvc q.kvc
    tr '\n' ' ' <a.md >flat.md
    ok build --calibrate heads flat.md
    [ "$(json '.copy_heads.rows >= 8')" = true ]
    echo hi >hi.md
    ok build --calibrate heads hi.md
    ok cag-inspect kb.kvc
}

@test "damage in them is found and named" {
    ok build --calibrate heads a.md
    at=$(json '.sections[-1].off')
    printf X | dd of=kb.kvc bs=1 seek=$((at + 20)) conv=notrunc status=none
    fails 65 "section ATTN is damaged (SHA-256 differs)" cag-inspect kb.kvc
    fails 65 "section ATTN is damaged" cag-ask --stale ignore kb.kvc x
}

@test "a manifest says both, relative to itself" {
    mkdir d
    mv a.md d
    printf 'model: %s\ncalibrate: heads\nsources: [a.md]\n' "$model" >d/kb.yaml
    ok cag-build -q --manifest d/kb.yaml
    [ "$(cag-inspect --json d/kb.kvc | jq .copy_heads.rows)" = 96 ]
    ok cag-build -q --calibrate off --manifest d/kb.yaml
    [ "$(cag-inspect --json d/kb.kvc | jq .copy_heads)" = null ]
    printf 'model: %s\nquestions: q.txt\nsources: [a.md]\n' "$model" >d/kb.yaml
    rm d/kb.kvc
    fails 66 "d/q.txt" cag-build -q --manifest d/kb.yaml
    [ ! -e d/kb.kvc ] # said before the build
    seq -f 'Which box holds %g?' 12 >d/q.txt
    fails 69 "they are not used" cag-build -q --manifest d/kb.yaml
    sed -i '1i calibrate: off' d/kb.yaml
    fails 78 "d/kb.yaml:3:12: --questions needs the copy heads that --calibrate off does without" \
        cag-build -q --manifest d/kb.yaml
    fails 64 "--questions needs the copy heads" cag-build -q --questions d/q.txt --manifest d/kb.yaml
    sed -i '1s/off/some/' d/kb.yaml
    fails 78 "d/kb.yaml:1:12: calibrate is 'some', expected one of " cag-build -q --manifest d/kb.yaml
}

@test "--questions: what it needs, and what it says" {
    fails 64 "--questions needs the copy heads that --calibrate off does without" cag-build -m "$model" --calibrate off --questions q.txt -o kb.kvc a.md
    fails 64 "--questions does not go with --refresh" cag-build --refresh --questions q.txt kb.kvc
    for i in $(seq 12); do echo "Where does box $i stand?"; done >q.txt
    # the tiny model has no heads that are worth it: the cache is built, the null is not
    fails 69 "copy heads have a quote mass of 0.00, below 0.20: they are not used" build --questions q.txt a.md
    ok cag-inspect -t kb.kvc
    [ "$(json .copy_heads.null)" = null ]
    # weak is judged by quotes then, and that is said
    run --separate-stderr cag-ask -m "$model" -n 5 --require-evidence weak kb.kvc 'Which box?' </dev/null
    [ "$status" -eq 3 ]
    says "the cache was built without questions, so weak support is that of quotes alone"
    run --separate-stderr cag-ask -m "$model" -n 5 --json --evidence kb.kvc 'Which box?' </dev/null
    jq -e '.evidence_by == "words"' <<<"$output"
}

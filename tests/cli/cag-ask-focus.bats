#!/usr/bin/env bats
# cag-ask --focus: a second look at the passages alone.

bats_require_minimum_version 1.5.0
load ask_helper

setup_file() {
    ask_setup_file
    mkdir -p docs
    {
        printf -- '---\ntitle: x\n---\n'
        for i in $(seq 40); do printf 'Hall %d holds %d chairs and a piano.\n' "$i" $((i * 7)); done
        printf 'Bram repaired the copper clock.\nHe was paid in apples.\n'
        for i in $(seq 41 60); do printf 'Hall %d holds %d chairs and a piano.\n' "$i" $((i * 7)); done
    } >docs/a.md
    for i in $(seq 30); do printf 'Boat %d sails on day %d.\n' "$i" $((i * 3)); done >docs/b.md
    cag-build -q -m "$MODELS/qwen3" -o docs.kvc docs
    cag-build -q -m "$MODELS/qwen3" --codec q8h --max-loss 1 -o q8h.kvc docs
    export LITERAL="$BATS_TEST_DIRNAME/../tools/evidence_literal.py"
    for f in off mask reread auto; do
        for q in "Who repaired the copper clock?" "When does boat 12 sail?" "How many chairs has hall 9?" zzz; do
            jq -nc --arg q "$q" --arg f $f '{question:$q,focus:$f,max_tokens:6}'
        done
    done >q.jsonl
}
setup() {
    cd "$work"
    rm -rf o o.part
}

@test "looks, the one that was given, and its passages, byte for byte" {
    for f in mask reread auto; do
        expect 0 cag-ask -q -n 6 --focus $f --json docs.kvc "Who repaired the copper clock?"
        last=$f
        [ $f != auto ] || last=reread # a small model is not masked
        jq -e --arg f $last '(.looks | map(.look)) == ["whole", $f] and
            (.look as $l | .answer == (.looks[] | select(.look == $l) | .answer)) and
            (.looks[0].support_score >= .looks[1].support_score) == (.look == "whole") and
            (.looks | all(has("support") and has("finish_reason"))) and
            (.passages | length) >= 1 and
            (.passages[0] | .source == "a.md" and .path == "docs/a.md" and .state == "same" and
                .line_from <= 44 and .line_to >= 44 and (.text | contains("copper clock")))' "$out"
        # as the evidence: literally in the file at its place
        jq -c '.evidence = .passages' "$out" | python3 "$LITERAL" . >n
        [ "$(cat n)" -ge 1 ]
    done
    expect 0 cag-ask -q -n 6 --focus auto --json docs.kvc zzz
    jq -e '(.looks | length) == 1 and .look == "whole" and .passages == []' "$out"
    expect 0 cag-ask -q -n 6 --json docs.kvc zzz
    jq -e 'has("look") or has("looks") or has("passages") | not' "$out"
    # the whole look is what is answered without
    cag-ask -q -n 6 --json docs.kvc "When does boat 12 sail?" | jq .answer >plain
    cag-ask -q -n 6 --focus mask --json docs.kvc "When does boat 12 sail?" | jq '.looks[0].answer' | cmp - plain
}

@test "tokens are those of all looks" {
    cag-ask -q -n 6 --json docs.kvc "When does boat 12 sail?" >one
    for f in mask reread; do
        cag-ask -q -n 6 --focus $f --json docs.kvc "When does boat 12 sail?" >two
        jq -se '.[0].usage as $a | .[1].usage as $b | $b.cached_tokens == $a.cached_tokens and
            $b.prompt_tokens > $a.prompt_tokens and $b.generated_tokens > $a.generated_tokens' one two
    done
}

@test "the same bytes with 1, 2 and 8 threads, together or alone" {
    for kvc in docs q8h; do
        cag-ask -q -t 1 -j 1 --batch q.jsonl $kvc.kvc | steady >want
        jq -se 'length == 16 and (map(.looks | length) | add) >= 6' want
        for t in 2 8; do
            cag-ask -q -t $t --batch q.jsonl $kvc.kvc | steady | cmp - want
        done
        cag-ask -q --unordered --batch q.jsonl $kvc.kvc | steady | sort | cmp - <(sort want)
        jq -r '[.focus, .question] | @tsv' q.jsonl | while IFS=$'\t' read -r f q; do
            cag-ask -q -n 6 --json --focus "$f" $kvc.kvc "$q"
        done | jq -c '{answer,look,looks,passages}' >alone
        jq -c '{answer,look,looks,passages}' want | cmp - alone
    done
}

@test "a row says how it is looked at, or the option does" {
    echo '{"question":"Who repaired the copper clock?"}' >one.jsonl
    expect 0 cag-ask -q -n 4 --focus mask --batch one.jsonl docs.kvc
    jq -e '.looks[1].look == "mask"' "$out"
    echo '{"question":"Who repaired the copper clock?","focus":"off"}' >one.jsonl
    expect 0 cag-ask -q -n 4 --focus mask --batch one.jsonl docs.kvc
    jq -e 'has("looks") | not' "$out"
    for v in '"fast"' true 3; do
        echo "{\"question\":\"zzz\",\"focus\":$v}" >bad.jsonl
        expect 2 cag-ask -q -n 4 --batch bad.jsonl docs.kvc
        jq -e '.error | endswith("\"focus\" must be \"off\", \"mask\", \"reread\" or \"auto\"")' "$out"
    done
    # rows of text have the answer; fields called as ours make room
    printf 'zzz\nWho repaired the copper clock?\n' | cag-ask -q -n 4 --focus reread --batch - docs.kvc >lines
    [ "$(wc -l <lines)" = 2 ]
    echo '{"question":"Who repaired the copper clock?","looks":1,"tag":2}' >own.jsonl
    expect 0 cag-ask -q -n 4 --batch own.jsonl docs.kvc
    jq -e '.looks == 1 and .tag == 2' "$out"
    expect 0 cag-ask -q -n 4 --focus mask --batch own.jsonl docs.kvc
    jq -e '.input.looks == 1 and .tag == 2 and (.looks | length) == 2' "$out"
}

@test "--resume keeps what was chosen, and judges it again" {
    cag-ask -q --evidence --batch q.jsonl docs.kvc | steady >want
    cag-ask -q --batch q.jsonl -o o docs.kvc
    expect 0 cag-ask --resume --batch q.jsonl -o o docs.kvc
    says "16 from an earlier run"
    expect 0 cag-ask --resume --evidence --batch q.jsonl -o o docs.kvc
    says "16 from an earlier run"
    steady o | cmp - want
    # another way of looking is another answer; looks that are gone are taken again
    jq -c 'select(.focus == "off") | del(.focus)' q.jsonl >plain.jsonl
    cag-ask -q --batch plain.jsonl -o p docs.kvc
    expect 0 cag-ask --resume --focus mask --batch plain.jsonl -o p docs.kvc
    says "4 answered" "0 from an earlier run"
    jq -se 'all(has("looks"))' p
    cag-ask -q --batch q.jsonl docs.kvc | jq -c 'del(.looks)' >o
    expect 0 cag-ask --resume --batch q.jsonl -o o docs.kvc
    says "4 from an earlier run"
    steady o | cmp - <(cag-ask -q --batch q.jsonl docs.kvc | steady)
    # a field of the input is no look
    echo '{"question":"zzz","looks":[{"look":"mask","answer":"no"}],"look":"mask"}' >f.jsonl
    cag-ask -q -n 4 --batch f.jsonl -o f docs.kvc
    expect 0 cag-ask -n 4 --resume --batch f.jsonl -o f docs.kvc
    says "1 from an earlier run"
}

@test "-i and --chat look twice, too" {
    q="Who repaired the copper clock?"
    want=$(cag-ask -q -n 6 --focus mask docs.kvc "$q")
    [ "$(cag-ask -q -n 6 --focus mask -i docs.kvc <<<"$q")" = "$want" ]
    [ "$(cag-ask -q -n 6 --focus mask --chat docs.kvc <<<"$q")" = "$want" ]
    expect 0 cag-ask -q -n 6 --focus reread --chat --log log docs.kvc <<<"$q"$'\nAnd then?'
    tail -n 1 log | jq -e '.passages | any(.text | contains("copper clock"))'
}

@test "--evidence and --require-evidence are of the answer that is given" {
    cag-ask -q -n 6 --focus reread --evidence --json docs.kvc "Who repaired the copper clock?" >row
    jq -e '.look as $l | (.looks[] | select(.look == $l)) as $k | .support == $k.support and
        .support_score == $k.support_score and (.evidence | length) >= 1' row
    expect 3 cag-ask -q -n 6 --focus reread --require-evidence strong --json docs.kvc "Who repaired the copper clock?"
    jq -e '.by == "evidence" and .look as $l | .withheld == (.looks[] | select(.look == $l) | .answer)' "$out"
}

@test "what cannot be masked is refused in one line" {
    expect 69 cag-ask -q --no-cache --focus mask docs.kvc zzz
    refused "--focus mask looks at a part of the cache, which --no-cache does not use; use --focus reread"
    expect 69 cag-ask -q --no-cache --focus mask --batch q.jsonl docs.kvc
    refused "--no-cache does not use"
    # a row that asks for it is a bad one
    expect 2 cag-ask -q --no-cache --batch q.jsonl docs.kvc
    [ "$(jq -s 'map(select(.error)) | length' "$out")" = 4 ]
    # read again, it is the same answer
    q="Who repaired the copper clock?"
    cag-ask -q -n 6 --focus reread docs.kvc "$q" >with
    cag-ask -q -n 6 --no-cache --focus reread docs.kvc "$q" | cmp - with
    expect 64 cag-ask -q --focus some docs.kvc zzz
}

# --------------------------------------------------------------- demo model

# Right answers of the demo model over the FAQ of XZ Utils: half as many again.
@test "the FAQ with the demo model: 1.5 times the right answers of the first look" {
    [ -r "${CAG_DEMO_MODEL:-}" ] || skip "no demo model"
    cp "$BATS_TEST_DIRNAME/../golden/qa/xzfaq.txt" faq.txt
    cag-build -q -m "$CAG_DEMO_MODEL" -o faq.kvc faq.txt
    jq -c 'select(.answerable)' "$BATS_TEST_DIRNAME/../golden/qa/xzfaq.jsonl" >fq.jsonl
    cag-ask -q -n 40 --focus reread --batch fq.jsonl faq.kvc >rows
    jq -se 'def right($r): ascii_downcase as $t | any($r.answers[]; ascii_downcase as $a | $t | contains($a));
        length == 28 and
        (map(select(. as $r | .looks[0].answer | right($r))) | length) as $first |
        (map(select(. as $r | .answer | right($r))) | length) as $given |
        $first >= 5 and 2 * $given >= 3 * $first' rows
    # auto takes the same second look, unless the first is well supported
    head -n 4 fq.jsonl | cag-ask -q -n 40 --focus auto --batch - faq.kvc >auto
    head -n 4 rows | jq -c .looks >want
    jq -c .looks auto | cmp - want
}

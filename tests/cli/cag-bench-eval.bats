#!/usr/bin/env bats
# cag-bench eval: questions with known answers, judged.

bats_require_minimum_version 1.5.0
load ask_helper

setup_file() {
    ask_setup_file
    # the tiny model's own answer is the gold one of its question
    said=$(cag-ask -q -n 5 --json qwen.kvc "Who leads?" 2>/dev/null | jq .answer)
    cat >gold.jsonl <<EOF
{"id":"a","question":"Who leads?","answers":["never", $said],"lines":[2,2]}
{"id":"b","question":"How long does the Sparrow fly?","answers":["47 minutes"],"lines":[1,1],"source":"kb.md"}

{"question":"Who is king?","answerable":false}
EOF
}
setup() { cd "$work"; }

@test "right answers, evidence, refusals, in every arm" {
    expect 0 cag-bench eval -n 5 --questions gold.jsonl --rows rows --json qwen.kvc
    jq -e '.questions == 3 and (.arms | keys) == ["bm25", "cache", "none"] and .read_seconds != 0 and
        (.arms.cache | .answerable == 2 and .unanswerable == 1 and .right == 1 and .gold == 2 and
            .evidence_first == 2 and .right_evidence_first == 1 and .right_gold == 1 and
            .refused_right == 0 and .generated_tokens > 0 and (.thresholds | length) == 6) and
        .arms.none.prompt_tokens > .arms.cache.prompt_tokens and
        .arms.bm25.prompt_tokens > .arms.none.prompt_tokens' "$out"
    [ "$(wc -l <rows)" = 9 ]
    jq -se '.[0] | .arm == "cache" and .id == "a" and .right and .evidence_first' rows
    jq -se '.[2].id == "4" and .[1].right == false' rows
    # as cag-ask answers
    jq -c .answer rows | head -n 1 >judged
    cag-ask -q -n 5 --json qwen.kvc "Who leads?" 2>/dev/null | jq -c .answer | cmp - judged
    expect 0 cag-bench eval -n 5 --arms cache --questions - qwen.kvc <gold.jsonl
    grep -q '^  right           1 of 2 that have an answer$' "$out"
    not grep -q 'beside cache' "$out"
    grep -q '^  gold lines      first piece of evidence: in 1 of 1 right answers, 2 of 2 in all$' "$out"
    head -n 1 "$out" | grep -q "^3 questions: with 'cache' 1 of the 2 that have an answer were answered right; of the 1 that have none 'cache' refused 0\.$"
    not grep -q '^bm25' "$out"
}

@test "each arm beside the cache, question by question" {
    # what the model says with nothing to read is right for another question
    expect 0 cag-bench eval -n 5 --arms none --rows rows --questions gold.jsonl qwen.kvc
    blind=$(jq -c 'select(.id == "b").answer' rows)
    jq -c --argjson a "$blind" 'if .id == "b" then .answers = [$a] else . end' gold.jsonl >pair.jsonl
    expect 0 cag-bench eval -n 5 --arms cache,none,focus-reread --json --rows rows --questions pair.jsonl qwen.kvc
    for arm in none focus-reread; do
        want=$(jq -sc --arg arm $arm 'map(select(.right)) | (map(select(.arm == "cache").id)) as $c |
            (map(select(.arm == $arm).id)) as $o | {gained: ($o - $c | length), lost: ($c - $o | length)}' rows)
        [ "$(jq -c --arg arm $arm '.arms[$arm] | {gained, lost}' "$out")" = "$want" ]
    done
    jq -e '.arms.none.gained == 1 and .arms.cache.gained == 0 and .arms.cache.lost == 0' "$out"
    expect 0 cag-bench eval -n 5 --arms cache,none --questions pair.jsonl qwen.kvc
    grep -q '^  beside cache    1 more right, [01] no longer$' "$out"
}

@test "passages keep the budget, and all of the text is the whole prompt" {
    expect 0 cag-bench eval -n 5 --arms none,bm25 --budget 1 --json --questions gold.jsonl qwen.kvc
    jq -e '.arms.none.prompt_tokens == .arms.bm25.prompt_tokens' "$out"
    expect 0 cag-bench eval -n 5 --arms bm25 --budget 60 --json --questions gold.jsonl qwen.kvc
    jq -e '.arms.bm25.prompt_tokens > 0' "$out"
}

@test "--compare tells what became worse, with status 1" {
    cag-bench eval -n 5 --arms cache --json --questions gold.jsonl qwen.kvc >old.json 2>/dev/null
    expect 0 cag-bench eval -n 5 --compare old.json --questions gold.jsonl qwen.kvc
    jq -c '.arms.cache.right = 2 | .arms.cache.refused_wrong = 1' old.json >better.json
    expect 1 cag-bench eval -n 5 --compare better.json --questions gold.jsonl qwen.kvc
    grep -q 'cache: right 1, was 2: worse$' "$err"
    grep -q 'cache: refused_wrong 0, was 1$' "$err"
    jq -c '.arms.cache.right = 0' old.json >worse.json
    expect 0 cag-bench eval -n 5 --compare worse.json --questions gold.jsonl qwen.kvc
    jq -c '.questions = 9' old.json >other.json
    expect 65 cag-bench eval -n 5 --compare other.json --questions gold.jsonl qwen.kvc
    grep -q 'other.json: it is of 9 questions, these are 3' "$err"
    echo '{}' >none.json
    expect 65 cag-bench eval -n 5 --compare none.json --questions gold.jsonl qwen.kvc
    grep -q 'none.json: this is no output of cag-bench eval --json' "$err"
}

@test "SQuAD 2: lines are found by the context" {
    jq -nc --rawfile t kb.md '{version:"v2.0",data:[{title:"x",paragraphs:[{context:($t | rtrimstr("\n")),qas:[
        {id:"q1",question:"Who leads Project Atish?",is_impossible:false,
         answers:[{text:"Maya Sen",answer_start:($t | index("Maya"))}]},
        {id:"q2",question:"Who is king?",is_impossible:true,answers:[]}]}]}]}' >squad.json
    expect 0 cag-bench eval -n 5 --arms cache --json --rows rows --questions squad.json qwen.kvc
    jq -e '.arms.cache | .answerable == 1 and .unanswerable == 1 and .gold == 1 and .evidence_first == 1' "$out"
    [ "$(jq -r .id rows | tr '\n' ' ')" = "q1 q2 " ]
}

@test "wrong questions are refused with their line" {
    bad() {
        expect 65 cag-bench eval --questions bad.jsonl qwen.kvc
        refused_by_bench "$@"
    }
    refused_by_bench() {
        [ ! -s "$out" ] && [ "$(wc -l <"$err")" = 1 ] && grep -qF -- "bad.jsonl: $1" "$err"
    }
    printf '{"question":"a"}\n{"question":"b","answers":[]}\n' >bad.jsonl
    bad 'question 1 has no "answers": list those that are right, or write [] where the text has none'
    printf '{"question":"a","answerable":false}\n{"question":"b","id":"x"}\n' >bad.jsonl
    bad 'question x has no "answers"'
    echo '{"question":"a","answers":["x"],"answerable":"x"}' >bad.jsonl
    bad 'line 1: "answerable" must be true or false'
    printf '{"question":"a"}\n{"answers":["x"]}\n' >bad.jsonl
    bad 'line 2: no "question"'
    echo 'nonsense' >bad.jsonl
    bad 'line 1: no JSON; expected a row such as {"question": "...", "answers": ["..."]}'
    echo '{"question":"a","answers":"x"}' >bad.jsonl
    bad 'line 1: "answers" must be a list of strings'
    echo '{"question":"a","answers":["x"],"lines":[3,2]}' >bad.jsonl
    bad 'line 1: "lines" must be [first, last], from 1'
    echo '{"question":"a","answerable":true}' >bad.jsonl
    bad 'line 1: answerable, and no answers'
    : >bad.jsonl
    bad 'no questions in it'
    expect 64 cag-bench eval qwen.kvc
    expect 64 cag-bench eval --arms cache,focus --questions gold.jsonl qwen.kvc
    expect 66 cag-bench eval --questions nosuch qwen.kvc
}

@test "generated sets: the same bytes, each answer in its gold lines" {
    tool="$BATS_TEST_DIRNAME/../tools/make_eval_set.py"
    python3 "$tool" --words 600 --seed 7 set
    python3 "$tool" --words 600 --seed 7 again
    diff -r set again
    python3 "$tool" --words 600 --seed 8 other
    not diff -rq set other
    # the same text and gold lines, asked in other words
    python3 "$tool" --words 600 --seed 7 --reworded words
    diff -r --exclude gold.jsonl set words
    jq -se 'map(select(.answerable)) | length > 5 and all(.reworded)' words/gold.jsonl
    cmp <(jq -c '[.id, .answers, .lines]' set/gold.jsonl) <(jq -c '[.id, .answers, .lines]' words/gold.jsonl)
    jq -se 'any(.answerable | not) and any(.reworded == true)' set/gold.jsonl
    jq -r 'select(.answerable) | [.source, .lines[0], .answers[0]] | @tsv' set/gold.jsonl |
        while IFS=$'\t' read -r source line answer; do
            sed -n "${line}p" "set/$source" | tr -d , | grep -qF -- "$answer"
        done
    cag-build -q -m "$MODELS/qwen3" -o set.kvc set/*.md
    expect 0 cag-bench eval -n 1 --arms cache --json --questions set/gold.jsonl set.kvc
    jq -e '.arms.cache | .gold == .answerable and .evidence_three > 0' "$out"
}

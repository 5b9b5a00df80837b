#!/usr/bin/env bats
# Prompt lookup: guesses from the knowledge, which change no answer.

bats_require_minimum_version 1.5.0
load ask_helper

setup_file() { ask_setup_file; }
setup() { cd "$work"; }

# The answer with guesses equals the one without; prints both usages.
same() {
    expect 0 cag-ask -q --json "$@"
    cp "$out" with
    expect 0 cag-ask -q --json --no-lookup "$@"
    jq -e '.usage.drafted == 0 and .usage.accepted == 0' "$out" >/dev/null
    jq -e '.usage.accepted <= .usage.drafted and
        .usage.accepted < .usage.generated_tokens' with >/dev/null
    cmp <(jq 'del(.seconds, .usage.drafted, .usage.accepted)' with) \
        <(jq 'del(.seconds, .usage.drafted, .usage.accepted)' "$out")
}

@test "guesses change nothing, whatever the length" {
    for kb in llama.kvc qwen.kvc; do
        for n in 1 2 3 4 5 8 13 60; do
            same -n $n $kb "How long does the Sparrow-7 fly? 47 47 47 47 47"
            jq -e --arg n $n '.usage.generated_tokens <= ($n | tonumber)' with
        done
    done
    # the last one repeats itself
    jq -e '.usage.accepted > 0' with
    same --stop e -n 40 llama.kvc "How long does the Sparrow-7 fly?"
    same --precision exact -n 40 llama.kvc "How long does the Sparrow-7 fly?"
    same --no-cache -n 40 llama.kvc "How long does the Sparrow-7 fly?"
}

@test "sampled answers take no guesses" {
    expect 0 cag-ask -q --json --temperature 0.5 -n 40 llama.kvc "How long?"
    jq -e '.usage.drafted == 0' "$out"
}

@test "-u tells the guesses, a batch is the same with and without" {
    expect 0 cag-ask -u -n 60 qwen.kvc "How long does the Sparrow-7 fly? 47 47 47 47 47"
    grep -Eq '60 generated \([1-9][0-9]* of [0-9]+ drafts right\)' "$err"
    printf 'How long?\nWho leads?\nSay 47 47 47 47\n' >questions
    for j in 1 2 3; do
        cag-ask -q --batch questions --json -j $j -n 30 llama.kvc | steady >with.$j
        cag-ask -q --batch questions --json -j $j -n 30 --no-lookup llama.kvc | steady >without.$j
        cmp with.$j without.$j
        cmp with.$j with.1
    done
}

@test "the demo model quotes, and says the same" {
    [ -r "${CAG_DEMO_MODEL:-}" ] || skip "no demo model"
    printf 'Rule 4: every badge that was lost must be reported to the front desk before noon, or the door of the east wing stays locked for the whole team until Monday.\n' >rules.md
    cag-build -q -m "$CAG_DEMO_MODEL" -o demo.kvc rules.md
    same -n 60 demo.kvc "What must be done when a badge was lost?"
    jq -e '.usage.accepted > 5' with
}

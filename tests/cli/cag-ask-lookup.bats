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

@test "an answer that only repeats itself ends, unless a length was given" {
    [ -r "${CAG_DEMO_MODEL:-}" ] || skip "no demo model"
    mkdir -p lib
    cat >lib/handbook.md <<'EOF'
# Handbook of the Brightwater Library

The library opens at nine in the morning on weekdays and at ten on Saturdays. It is closed on Sundays and on public holidays.

## Lending

Members may borrow up to twelve items at a time. Books are lent for four weeks, films for one week, and tools from the tool shelf for three days. A loan can be renewed twice unless somebody else has reserved the item.

Late items cost ten cents a day for books and one euro a day for tools. Children under fourteen pay no fees.

## Rooms

The reading room holds forty people and must be kept quiet. The workshop in the basement has a 3D printer, two sewing machines and a laser cutter; a course of two hours is required before anybody may use the laser cutter. Rooms are booked at the front desk or by telephone under 0555 812 34.
EOF
    cat >lib/prices.txt <<'EOF'
Printing: 8 cents a page black and white, 30 cents a page in colour.
3D printing: 4 cents a gram.
Membership: 15 euros a year, free for students and for people under eighteen.
EOF
    mkdir -p lib/team
    cat >lib/team/staff.md <<'EOF'
# Staff

Marta Oliveira leads the library since 2019. Her deputy is Jonas Peck, who also looks after the workshop. The children's corner is run by Aiko Tanaka on Tuesdays and Thursdays.

To report a broken machine write to workshop@brightwater.example and name the machine and the fault.
EOF
    cag-build -q -m "$CAG_DEMO_MODEL" -o lib.kvc lib
    expect 0 cag-ask lib.kvc "How many items may I borrow?"
    grep -Eq '^cag-ask: warning: the answer only repeated itself and was ended after [1-4]?[0-9]?[0-9] tokens; -n lets it go on$' "$err"
    cp "$out" ended
    expect 0 cag-ask --json -q lib.kvc "How many items may I borrow?"
    jq -e '.finish_reason == "length" and .looped and .usage.generated_tokens < 500' "$out"
    # the same over HTTP, byte for byte
    cag-serve -q --listen "unix:$PWD/socket" lib.kvc 3>&- &
    pid=$!
    for i in $(seq 200); do [ -S socket ] && break; sleep 0.05; done
    jq -n '{model: "lib", messages: [{role: "user", content: "How many items may I borrow?"}]}' |
        curl -sf --unix-socket socket -H 'Content-Type: application/json' -d @- http://localhost/v1/chat/completions >http
    kill "$pid"
    wait "$pid"
    jq -e '.choices[0].finish_reason == "length" and .cag.looped' http
    jq -r '.choices[0].message.content' http | cmp - ended
    expect 0 cag-ask -n 400 lib.kvc "How many items may I borrow?"
    grep -q 'was cut after 400 tokens' "$err"
    head -c "$(($(wc -c <ended) - 1))" "$out" | cmp - <(head -c -1 ended)
    printf 'How many items may I borrow?\n' >one
    expect 0 cag-ask --batch one -n 400 --json lib.kvc
    jq -e '.usage.generated_tokens == 400' "$out"
}

#!/usr/bin/env bats
# examples/batch, examples/magic, ask.py and many_threads.c.

bats_require_minimum_version 1.5.0

setup_file() {
    export PATH="${CAG_BIN:-$BATS_TEST_DIRNAME/../../build/release}:$PATH"
    export HOME="$BATS_FILE_TMPDIR" LC_ALL=C.UTF-8
    export examples="$BATS_TEST_DIRNAME/../../examples"
    export models="$BATS_TEST_DIRNAME/../golden/models"
    export demo_model="${CAG_DEMO_MODEL:-}"
    unset "${!CAG_@}" XDG_CACHE_HOME HF_HOME HF_HUB_CACHE
}

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    echo "The Sparrow-7 flies 47 minutes." >kb.md
    cag-build -q -m "$models/qwen3" -o kb.kvc kb.md
}

@test "every recipe of examples/batch/recipes.md works" {
    printf 'How long does it fly?\nWho leads it?\nWhy?\n' >questions.txt
    # each fenced block is one script, in this order
    awk '/^```sh$/ { n++; f = sprintf("block%02d", n); next }
         /^```$/ { f = ""; next } f != "" { print > f }' "$examples/batch/recipes.md"
    [ "$(ls block* | wc -l)" -ge 11 ]
    for f in block*; do
        cat "$f"
        sh -e "./$f" >"$f.out"
    done
    [ "$(jq -r .id questions.jsonl | paste -sd' ')" = "q1 q2 q3" ]
    [ "$(jq -r .question answers.jsonl)" = "$(cat questions.txt)" ]
    [ "$(wc -l <answers.tsv)" = 3 ]
    [ "$(jq -r .id all.jsonl | paste -sd' ')" = "q1 q2 q3" ]
    grep -q '"usage":{.*"generated_tokens":400' longer.jsonl
    # the sum of all rows; one answer to the last question; the source's size
    grep -lq '"rows": 3' block*.out
    grep -lqE '^[0-9]+	kb.md$' block*.out
}

@test "the recipe for stale caches prints a command that helps" {
    echo "It weighs 4 kg." >>kb.md
    recipe=$(grep -F 'select(.state == "stale")' "$examples/batch/recipes.md")
    run --separate-stderr bash -c "$recipe"
    [ "$output" = "cag-build --refresh kb.kvc" ]
    $output
    run --separate-stderr bash -c "$recipe"
    [ "$output" = "" ]
}

@test "ask-all.sh asks every cache, goes on after a failure, and resumes" {
    cp kb.md other.md && cag-build -q -m "$models/llama" -o other.kvc other.md
    printf '{"id": 1, "question": "How long?"}\n{"id": 2, "question": "Why?"}\n' >q.jsonl
    echo changed >kb.md
    run sh "$examples/batch/ask-all.sh" q.jsonl kb.kvc other.kvc
    [ "$status" -eq 1 ]
    [[ $output == *"kb.kvc: stale"* ]]
    [ ! -e kb.answers.jsonl ]
    [ "$(jq -r .id other.answers.jsonl | paste -sd' ')" = "1 2" ]
    cp other.answers.jsonl before
    cag-build -q --refresh kb.kvc
    run sh "$examples/batch/ask-all.sh" q.jsonl kb.kvc other.kvc
    [ "$status" -eq 0 ]
    [ "$output" = "" ]
    [ "$(jq -r .id kb.answers.jsonl | paste -sd' ')" = "1 2" ]
    cmp before other.answers.jsonl
    run sh "$examples/batch/ask-all.sh" q.jsonl
    [ "$status" -eq 64 ]
}

@test "file(1) knows a cache by examples/magic" {
    command -v file >/dev/null || skip "no file(1)"
    size=$(stat -c %s kb.kvc)
    run file -b -m "$examples/magic" kb.kvc
    [[ $output == "cag key-value cache, version 1.0, "*" sections, $size bytes" ]]
    [ "$(file -b --mime-type -m "$examples/magic" kb.kvc)" = application/x-kvc ]
    tail -c +2 kb.kvc >shifted
    run file -b -m "$examples/magic" shifted
    [[ $output != *cag* ]]
}

@test "make demo ends with commands that work as they are printed" {
    [ -r "$demo_model" ] || skip "no demo model"
    bin="$(cd "$(dirname "$(command -v cag-build)")" && pwd)"
    mkdir -p top/examples/docs
    ln -s "$bin" top/build
    cp "$BATS_TEST_DIRNAME"/../../examples/quickstart.sh top/examples
    head -n 40 "$BATS_TEST_DIRNAME/../../examples/docs/time.md" >top/examples/docs/time.md
    cp "$BATS_TEST_DIRNAME/../../examples/knowledge.txt" top/examples
    cd top
    # the tools are not on the user's PATH
    PATH=/usr/bin:/bin CAG_DEMO_DIR=demo sh examples/quickstart.sh "$demo_model" >out 2>&1 </dev/null
    n=0
    while read -r line; do
        PATH=/usr/bin:/bin sh -c "$line" </dev/null
        n=$((n + 1))
    done < <(sed -n '/^== 4/,$s/^    \(.*cag-\)/\1/p' out)
    [ "$n" -eq 4 ]
}

# The library of this build, as an installed program finds it.
built_library() {
    [ "${CAG_MODE:-release}" = release ] || skip "the shared library is of the release build"
    lib=${CAG_BIN:-$BATS_TEST_DIRNAME/../../build/release}
    lib=$(cd "$lib" && pwd)
    export LD_LIBRARY_PATH="$lib"
}

@test "ask.py asks many questions through ctypes" {
    built_library
    [ "$(python3 "$examples/ask.py" kb.kvc 'How long?' 'Why?' | wc -l)" = 2 ]
    python3 "$examples/ask.py" kb.kvc 'How long?' 'Why?' 'How long?' >out
    for q in 'How long?' 'Why?' 'How long?'; do
        cag-ask -q -n 60 kb.kvc "$q" | tr '\n' ' ' | sed 's/ $/\n/'
    done | cmp - out
    run --separate-stderr python3 "$examples/ask.py" kb.kvc ' ' 'Why?'
    [ "$status" -eq 1 ]
    [[ $stderr == "ask.py: "*"(format)" ]]
    [ "$(sed -n 2p out)" = "$output" ]
    run --separate-stderr python3 "$examples/ask.py" missing.kvc 'Why?'
    [ "$status" -eq 1 ]
    [[ $stderr == "ask.py: missing.kvc: "*"(missing)" ]]
}

@test "many_threads.c: as many as wanted, and the answers of one" {
    built_library
    ${CC:-cc} -std=c11 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Werror \
        -I"$BATS_TEST_DIRNAME/../../include" "$examples/many_threads.c" \
        -L"$lib" -l:libcag.so.0 -pthread -o many_threads
    for i in 1 2 3 4 5 6 7; do echo "Question $i?"; done >questions
    ./many_threads kb.kvc 1 <questions | sort >want
    [ "$(wc -l <want)" -ge 7 ]
    ./many_threads kb.kvc 4 <questions | sort | cmp want -
    run ./many_threads missing.kvc 2 <questions
    [ "$status" -eq 1 ]
}

#!/usr/bin/env bats
# examples/make under real GNU make: what is rebuilt, and what is left alone.

bats_require_minimum_version 1.5.0

setup() {
    export PATH="${CAG_BIN:-$BATS_TEST_DIRNAME/../../build/release}:$PATH"
    export HOME="$BATS_TEST_TMPDIR" LC_ALL=C
    unset "${!CAG_@}" "${!MAKE@}" MFLAGS XDG_CACHE_HOME HF_HOME HF_HUB_CACHE
    export CAG_MODEL="$BATS_TEST_DIRNAME/../golden/models/qwen3"
    cp -r "$BATS_TEST_DIRNAME/../../examples/make" "$BATS_TEST_TMPDIR/w"
    cd "$BATS_TEST_TMPDIR/w" || return 1
    umask 022
}

# Every file with inode, size and time: equal when nothing was written.
state() { find . -type f -printf '%p %i %s %T@ %C@\n' | sort; }

# Names of the files that are not as in the earlier state $1.
changed() { state | diff "$1" - | sed -n 's/^> \.\/\([^ ]*\) .*/\1/p'; }

# Ids of the answers in $1, in their order.
ids() { jq -r .id "$1" | paste -sd' '; }

@test "the second make reads nothing and changes no file" {
    make
    [ "$(ids handbook.answers.jsonl)" = "badge cost saturday" ]
    [ "$(ids rules.answers.jsonl)" = "receipts car" ]
    [ "$(stat -c %a rules.d)" = "$(printf %o $((0666 & ~$(umask))))" ]
    state >"$BATS_TEST_TMPDIR/before"
    run make
    [ "$status" -eq 0 ]
    [ -z "$(changed "$BATS_TEST_TMPDIR/before")" ]
    # the one command that runs finds its cache fresh
    [ "${#lines[@]}" -eq 1 ]
    run make CAG_BUILD="cag-build --json"
    [ "$(tail -n 1 <<<"$output" | jq -r .fresh)" = true ]
    [ -z "$(changed "$BATS_TEST_TMPDIR/before")" ]
}

@test "an edit rebuilds its cache and asks its questions, no others" {
    make
    state >"$BATS_TEST_TMPDIR/before"
    cp handbook.answers.jsonl "$BATS_TEST_TMPDIR/old"
    echo "The south door works on Sundays." >>handbook/hours.md
    make
    changed "$BATS_TEST_TMPDIR/before" >"$BATS_TEST_TMPDIR/changed"
    printf '%s\n' handbook.answers.jsonl handbook.kvc handbook/hours.md |
        diff - "$BATS_TEST_TMPDIR/changed"
    [ "$(ids handbook.answers.jsonl)" = "badge cost saturday" ]
    # all three are answers of the new cache
    [ "$(jq -r .content_id handbook.answers.jsonl | sort -u)" = \
        "$(cag-inspect --digest handbook.kvc)" ]
    [ "$(jq -r .content_id "$BATS_TEST_TMPDIR/old" | sort -u)" != \
        "$(cag-inspect --digest handbook.kvc)" ]

    state >"$BATS_TEST_TMPDIR/before"
    sed -i 's/0.30/0.35/' rules/travel.txt
    make
    changed "$BATS_TEST_TMPDIR/before" >"$BATS_TEST_TMPDIR/changed"
    printf '%s\n' rules.answers.jsonl rules.kvc rules/travel.txt |
        diff - "$BATS_TEST_TMPDIR/changed"
    cag-build --check handbook.kvc rules.kvc
}

@test "a new file that a glob matches is noticed, and a deleted one" {
    make
    state >"$BATS_TEST_TMPDIR/before"
    echo "Lunch is served from noon to two." >handbook/lunch.md
    make
    [ "$(changed "$BATS_TEST_TMPDIR/before" | paste -sd' ')" = \
        "handbook.answers.jsonl handbook.kvc handbook/lunch.md" ]
    cag-inspect --text handbook.kvc | grep -q "Lunch is served"
    rm handbook/lunch.md
    make
    [ "$(cag-inspect --text handbook.kvc | grep -c "Lunch is served")" = 0 ]
    state >"$BATS_TEST_TMPDIR/before"
    make
    [ -z "$(changed "$BATS_TEST_TMPDIR/before")" ]
}

@test "--depfile: a source that the manifest drops and loses is no error" {
    make
    sed -i '/expenses/,+1d' rules.yaml
    rm rules/expenses.txt
    make
    [ "$(cag-inspect --text rules.kvc | grep -c Receipts)" = 0 ]
    run make
    [ "$status" -eq 0 ]
    [[ $output != *rules* ]]
}

@test "a touched, equal source asks nothing again (--keep-mtime)" {
    make
    state >"$BATS_TEST_TMPDIR/before"
    touch handbook/badge.md
    make
    [ "$(changed "$BATS_TEST_TMPDIR/before")" = handbook/badge.md ]
    # without the option the cache's time is refreshed, and make settles
    touch rules/travel.txt
    run make
    [[ $output == *"cag-build"*rules.yaml* ]]
    run make
    [[ $output != *rules.yaml* ]]
}

@test "a changed question is asked; the others' answers are kept" {
    make
    sed '1d' rules.answers.jsonl >"$BATS_TEST_TMPDIR/car"
    sed -i 's/Within how many days/By when/' rules.questions.jsonl
    make
    [ "$(jq -r .question rules.answers.jsonl | head -n 1)" = \
        "By when are receipts handed in?" ]
    # the kept row is the old one to the byte, its seconds too
    sed '1d' rules.answers.jsonl | cmp - "$BATS_TEST_TMPDIR/car"
}

@test "a build that is ended leaves the old cache, and the next make finishes" {
    make handbook.kvc
    cp handbook.kvc "$BATS_TEST_TMPDIR/old"
    # the prefill is over in no time: a slow source holds the build open
    printf '#!/bin/sh\n: >started\ncat\n[ -e quick ] || sleep 60\n' >slow
    chmod +x slow
    cat >handbook.yaml <<'END'
sources:
  - handbook/*.md
  - path: rules/travel.txt
    filter: [./slow]
END
    setsid make 3>&- &
    pid=$!
    for _ in $(seq 300); do [ -e started ] && break; sleep 0.02; done
    [ -e started ]
    kill -TERM -- "-$pid"
    run wait "$pid"
    while kill -0 -- "-$pid" 2>/dev/null; do sleep 0.02; done
    cmp handbook.kvc "$BATS_TEST_TMPDIR/old"
    [ -z "$(find . -name '.*.tmp')" ]
    [ ! -e handbook.answers.jsonl ]
    : >quick
    make
    cag-inspect --text handbook.kvc | grep -q "made by train"
    [ "$(ids handbook.answers.jsonl)" = "badge cost saturday" ]
}

@test "answers that are cut off are kept, and the next make gives the rest" {
    for i in $(seq 60); do
        printf '{"id": "%d", "question": "Number %d?"}\n' "$i" "$i"
    done >handbook.questions.jsonl
    make handbook.kvc
    setsid make CAG_ASK="cag-ask -j 1" 3>&- &
    pid=$!
    part=handbook.answers.jsonl.part
    for _ in $(seq 500); do [ -s $part ] && break; sleep 0.01; done
    kill -TERM -- "-$pid"
    run wait "$pid"
    while kill -0 -- "-$pid" 2>/dev/null; do sleep 0.02; done
    [ ! -e handbook.answers.jsonl ]
    n=$(grep -c '}$' $part)
    [ "$n" -ge 1 ] && [ "$n" -lt 60 ]
    head -n "$n" $part >"$BATS_TEST_TMPDIR/first"
    make
    [ "$(ids handbook.answers.jsonl)" = "$(seq -s' ' 60)" ]
    head -n "$n" handbook.answers.jsonl | cmp - "$BATS_TEST_TMPDIR/first"
    [ ! -e $part ]
}

@test "a failure stops make and spoils nothing" {
    make
    cp handbook.kvc "$BATS_TEST_TMPDIR/old"
    printf 'caf\xe9\n' >handbook/latin1.md
    run make
    [ "$status" -eq 2 ]
    [[ $output == *latin1.md* ]]
    cmp handbook.kvc "$BATS_TEST_TMPDIR/old"
    rm handbook/latin1.md
    state >"$BATS_TEST_TMPDIR/before"
    make
    [ -z "$(changed "$BATS_TEST_TMPDIR/before")" ]
}

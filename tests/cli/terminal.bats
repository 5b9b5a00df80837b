#!/usr/bin/env bats
# What people see on a terminal of 40 and of 80 columns: lines are broken
# between words, and hold the same words as in a pipe.

bats_require_minimum_version 1.5.0
load ask_helper

setup_file() {
    ask_setup_file
    mkdir docs
    for i in 1 2 3; do printf 'Line %s of some knowledge.\n' $i >docs/note-$i.md; done
    printf 'caf\xe9\n' >latin.md
    cag-build -q -m "$MODELS/qwen3" -o docs.kvc docs
    cag-build -q -m "$MODELS/qwen3" --codec q8h --max-loss 9 -o q8h.kvc docs
}
setup() {
    cd "$work"
    tty="$BATS_TEST_DIRNAME/../tools/on_tty.py"
    export CAG_MODEL="$MODELS/qwen3"
}

# shown COLUMNS COMMAND: what a terminal that wide shows; its colours and the
# progress, which is rewritten in place, are left out.
shown() {
    TERM=xterm python3 "$tty" sh -c "stty cols $1; $2" </dev/null | tr -d '\r' |
        sed -e 's/\x1b\[[?0-9;]*[a-zA-Z]//g' -e '/^sane$/d' | sed '$d'
}

# Lines wider than COLUMNS are those that cannot be broken: a word and what
# stands before it, or a command to be copied.
no_wider() {
    awk -v most="$1" 'length($0) > most {
        n = split($0, w, " "); wide = 0
        for (i = 1; i <= n; i++) if (length(w[i]) > most - 17) wide = 1
        if (!wide && $0 !~ /^ *(cag-|iconv )/) { print length($0) ": " $0; bad = 1 }
    } END { exit bad }'
}

# A word a line; what is measured is another one in each run.
words() {
    tr -s ' \n' '\n\n' | sed -E -e '/^$/d' -e 's/[0-9.]+/N/g' -e 's/^(ms|s|[KMG]iB)\>/UNIT/'
}

@test "talk and tables: no line is wider than the terminal, no word is lost" {
    local i=0
    while read -r command; do
        sh -c "$command" </dev/null >piped 2>&1 || true
        for columns in 40 80; do
            shown $columns "$command --progress never" >seen || true
            no_wider $columns <seen || { echo "$command"; return 1; }
            diff <(words <seen) <(words <piped) || { echo "$command"; return 1; }
        done
        i=$((i + 1))
    done <<'END'
cag-build --dry-run docs
cag-build --dry-run -o docs.kvc docs
cag-build -o x.kvc latin.md
cag-build docs
cag-build -o none.kvc
cag-inspect docs.kvc
cag-inspect -l
cag-inspect --models
cag-inspect q8h.kvc
cag-inspect --devices
cag-inspect --diff docs.kvc qwen.kvc
cag-ask docs.kvc no/such/file.kvc qwen.kvc
cag-ask -n 4 --no-such-option docs.kvc hi
cag-bench no-such-command docs.kvc and something else
END
    [ $i = 14 ]
}

@test "one answer: words stay whole, with its evidence and its figures" {
    shown 40 "cag-ask --progress never -u --evidence -n 60 docs.kvc 'What is known of lines?'" >seen
    no_wider 40 <seen
    grep -q '^  ' seen
    grep -q '^    knowledge\.$' seen
    tr '\n' ' ' <seen | tr -s ' ' | grep -q 'cag-ask: [0-9]* cached + .*; evidence [0-9.]* ms'
}

@test "--help fits 40 columns; on 80 it is what a pipe gets" {
    for tool in cag-ask cag-build cag-inspect cag-bench "cag-bench run" "cag-bench eval" "cag-bench show" "cag-bench probe"; do
        for all in "" all; do
            $tool --help $all >piped
            shown 80 "$tool --help $all" | cmp - piped || { head -c 300 seen; echo; head -c 300 piped; return 1; }
            shown 40 "$tool --help $all" >seen
            no_wider 40 <seen
            diff <(words <seen) <(words <piped)
        done
    done
}

@test "--check of a fresh cache is a line on a terminal, and none in a pipe" {
    shown 80 "cag-build --check docs.kvc" >seen
    grep -qx 'cag-build: docs.kvc: fresh' seen
    shown 80 "cag-build -q --check docs.kvc; cag-inspect --check docs.kvc" >seen
    grep -qx 'cag-inspect: docs.kvc: fresh' seen
    [ "$(wc -l <seen)" = 1 ]
    expect 0 cag-build --check docs.kvc
    [ ! -s "$err" ]
}

# held_up LINES OPTION...: a build on a terminal, by kernels that have something
# faster, that stands still for ten seconds once it has begun to prefill.
held_up() {
    for ((i = 1; i <= $1; i++)); do echo "Line $i of knowledge that takes its time."; done >long.md
    CAG_KERNELS=avx2 TERM=xterm python3 "$tty" cag-build --force "${@:2}" -t 1 -b 1 -o long.kvc long.md \
        <<<$'wait prefill\nstop 10.2' >shown.txt || true # 99: ended after half a minute
}

@test "a long prefill reminds of --precision fast, once and on a terminal" {
    cag-build --version | grep -q avx2 || skip "kernels avx2 are not built in"
    echo "One line of knowledge." >long.md
    [[ "$(CAG_KERNELS=avx2 cag-build -n long.md 2>&1)" != *"this CPU cannot run"* ]] || skip "this CPU has no AVX2"
    for n in 100 200 400; do # it comes only where less than half is done
        held_up $n
        ! grep -q -- "--precision fast takes less time" shown.txt || break
    done
    [ "$(grep -c -- "--precision fast takes less time" shown.txt)" -eq 1 ]
    held_up $n --precision exact
    run ! grep -q "takes less time" shown.txt
}

@test "evidence cut in mid-sentence has dots on a terminal, and none in a pipe" {
    mkdir -p cut
    { echo '# Title'; for i in 1 2 3 4 5 6 7 8 9; do echo "The zebra number $i stands"; done
      echo 'in the yard.'; echo; echo 'A horse is whole.'; } >cut/a.md
    cag-build -q -m "$MODELS/qwen3" -o cut.kvc cut
    shown 80 "cag-ask -q -n 2 --evidence cut.kvc 'zebra number 5'" >seen
    grep -q 'a.md:[0-9-]*: \.\.\. The zebra' seen
    grep -q 'stands \.\.\.$' seen
    shown 80 "cag-ask -q -n 2 --evidence cut.kvc 'Is a horse whole?'" >seen
    grep -q 'A horse is whole\.$' seen
    expect 0 cag-ask -q -n 2 --evidence cut.kvc 'zebra number 5'
    not grep -q '\.\.\.' "$err"
}

@test "a tool alone says what to type" {
    for tool in cag-ask cag-bench cag-inspect; do
        expect 64 $tool
        grep -Eq "as in: $tool .*\.kvc|name a cache" "$err" || { cat "$err"; return 1; }
    done
    expect 64 cag-bench run
    grep -q 'as in: cag-bench kb.kvc' "$err"
}

@test "a report of cag-bench fits 40 and 80 columns, and is Markdown in a pipe" {
    expect 0 cag-bench load -q -r 1 --warmup 0 --export-json r.json docs.kvc
    grep -q '^| map | ' "$out"
    cag-bench show r.json | cmp - "$out"
    for columns in 40 80; do
        shown $columns "cag-bench show r.json" >seen
        no_wider $columns <seen
        [ "$(grep -Ec '^(map|open|expand|verify|file_bytes)\b' seen)" -ge 5 ]
        not grep -q '^|' seen
    done
}

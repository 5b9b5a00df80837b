#!/usr/bin/env bats
# The EXAMPLES of every manual page run as they stand: each literal block is
# one shell script (or one makefile), in a directory that holds what the
# examples speak of: model.gguf, docs/, handbook.kvc, questions.txt ...

setup_file() {
    export TOP=$BATS_TEST_DIRNAME/../..
    export PATH=$CAG_BIN:$PATH
    export HOME=$BATS_FILE_TMPDIR/home CAG_CACHE_DIR=$BATS_FILE_TMPDIR/cache
    unset CAG_MODEL CAG_MODELS HF_HOME XDG_CACHE_HOME
    cd "$BATS_FILE_TMPDIR" || return
    mkdir -p world/docs home cache
    cp "$TOP/tests/golden/models/llama.F16.gguf" world/model.gguf
    mkdir world/policies world/caches
    printf '# Badges\nA badge is reset at the front desk.\n' > world/docs/badge.md
    printf 'The project is led by Maya Sen.\n' > world/docs/lead.txt
    cp world/docs/badge.md world/handbook.md
    cp world/docs/lead.txt world/notes.txt
    cp world/docs/lead.txt world/faq.md
    cp world/docs/lead.txt world/policies/leave.md
    printf 'Who leads the project?\nWhere is a badge reset?\n' \
        > world/questions.txt
    cp world/questions.txt world/question.txt
    printf '{"id": 1, "question": "Who leads the project?"}\n' \
        > world/questions.jsonl
    printf '[{"role": "user", "content": "Hello"}]\n' > world/messages.json
    printf 'model: model.gguf\nsources:\n  - docs/\n' > world/handbook.yaml
    cp world/handbook.yaml world/kb.yaml
    # a hub cache with one model in it
    local hub=home/.cache/huggingface/hub/models--Qwen--Qwen3-0.6B
    mkdir -p $hub/refs $hub/snapshots
    printf abc123 > $hub/refs/main
    cp -r "$TOP/tests/golden/models/qwen3" $hub/snapshots/abc123
    (cd world && cag-build -q -m model.gguf -o handbook.kvc docs/ &&
        cp handbook.kvc kb.kvc && cp handbook.kvc old.kvc &&
        cp handbook.kvc yesterday.kvc && cp handbook.kvc caches/ &&
        cp messages.json chat.json &&
        cag-bench load -q -r 1 --export-json old.json kb.kvc > /dev/null)
}

# Print block number $2 (from 1) of the EXAMPLES of page $1, mdoc undone.
block() {
    awk -v want="$2" '
        /^\.Sh EXAMPLES/ { on = 1; next }
        /^\.Sh / { on = 0 }
        on && /^\.Bd -literal/ { n++; inside = 1; next }
        on && /^\.Ed/ { inside = 0; next }
        on && /^\.Dl / { n++; if (n == want) { sub(/^\.Dl /, ""); print }
                         next }
        on && inside && n == want { print }
    ' "$1" | sed -e 's/\\e/\\/g; s/\\&//g; s/\\-/-/g; s/\\(aq/'"'"'/g' \
        -e 's/\\(dq/"/g; s/\\\[aq\]/'"'"'/g; s/^\$ //'
}

run_page() {
    local page=$TOP/man/$1 n=1 text ran=0
    while text=$(block "$page" $n); [ -n "$text" ]; do
        rm -rf "$BATS_TEST_TMPDIR/w"
        cp -r "$BATS_FILE_TMPDIR/world" "$BATS_TEST_TMPDIR/w"
        cd "$BATS_TEST_TMPDIR/w"
        printf '# %s, block %d:\n%s\n' "$1" $n "$text"
        case $text in
        *:*"$(printf '\n\t')"*)
            printf '%s\n' "$text" > Makefile
            make MODEL=model.gguf -B < /dev/null ;;
        *)
            printf 'set -e -o pipefail\n%s\n' "$text" > run.sh
            timeout 60 bash run.sh < /dev/null ;;
        esac
        ran=$((ran + 1))
        n=$((n + 1))
    done
    [ $ran -gt 0 ]
}

@test "cag-build(1)"   { run_page cag-build.1; }
@test "cag-ask(1)"     { run_page cag-ask.1; }
@test "cag-inspect(1)" { run_page cag-inspect.1; }
@test "cag-bench(1)"   { run_page cag-bench.1; }
@test "cag-serve(1)"   { run_page cag-serve.1; }
@test "cag(7)"         { run_page cag.7; }

@test "libcag(3) names what builds, checks and asks" {
    for h in build ask batch; do
        for f in $(sed -n 's/^CAG_API cag_status \(cag_[a-z_]*\)(.*/\1/p' "$TOP/include/cag/$h.h"); do
            case $f in
            *_new | *_load | cag_kb_prompt) ;; # parts of what is there
            *) grep -q "\b$f\b" "$TOP/man/libcag.3" || { echo "$f"; return 1; } ;;
            esac
        done
    done
}

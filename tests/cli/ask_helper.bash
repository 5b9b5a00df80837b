# Shared by cag-ask*.bats: tiny caches, and a strict way to run a command.

# Once per file: $work holds kb.md, qwen.kvc, llama.kvc (tiny models).
ask_setup_file() {
    export MODELS="$BATS_TEST_DIRNAME/../golden/models"
    export PATH="${CAG_BIN:-$BATS_TEST_DIRNAME/../../build/release}:$PATH"
    export HOME="$BATS_FILE_TMPDIR/home" work="$BATS_FILE_TMPDIR/work"
    export LC_ALL=C.UTF-8 TERM=dumb
    unset CAG_MODEL CAG_MODELS CAG_DEVICE CAG_THREADS CAG_CACHE_DIR CAG_KERNELS XDG_CACHE_HOME HF_HOME HF_HUB_CACHE
    mkdir -p "$HOME" "$work"
    cd "$work" || return 1
    printf 'The Sparrow-7 flies 47 minutes.\nMaya Sen leads Project Atish.\n' >kb.md
    cag-build -q -m "$MODELS/qwen3" -o qwen.kvc kb.md
    cag-build -q -m "$MODELS/llama" -o llama.kvc kb.md
}

# expect STATUS COMMAND...: run it; stdout and stderr go to the files out and
# err of the test, and the status must be STATUS.
expect() {
    local want=$1 got=0
    shift
    "$@" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" || got=$?
    out="$BATS_TEST_TMPDIR/out" err="$BATS_TEST_TMPDIR/err"
    [ "$got" = "$want" ] && return 0
    printf 'status %s, expected %s: %s\n' "$got" "$want" "$*"
    head -c 2000 "$err"
    return 1
}

# One line on stderr, from cag-ask, that holds each of the words; nothing on
# stdout.
refused() {
    [ ! -s "$out" ] || { echo "stdout is not empty"; return 1; }
    says "$@"
    [ "$(wc -l <"$err")" = 1 ] || { cat "$err"; return 1; }
}

# Every line of stderr is cag-ask's, and they hold each of the words.
says() {
    local word
    if grep -v '^cag-ask: ' "$err"; then
        return 1
    fi
    for word in "$@"; do
        grep -qF -- "$word" "$err" || {
            printf 'no "%s" in:\n' "$word"
            cat "$err"
            return 1
        }
    done
}

# Nothing on stderr but the sign, which -q leaves, that an answer was cut.
only_a_sign() {
    run ! grep -vE '^cag-ask: cut after [0-9]+ tokens?$' "$err"
}

# Rows without what differs from run to run.
steady() {
    sed -e 's/,"seconds":[0-9.e-]*//' "$@"
}

# `! cmd` alone never fails a test
not() { ! "$@"; }

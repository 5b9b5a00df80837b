# build_helper.bash - what the tests of cag-build and cag-inspect share.
#
#   ok CMD...             ends with 0
#   fails CODE TEXT CMD...  ends with CODE, says TEXT on stderr, prints nothing
#   says TEXT / prints TEXT  what the last one put on stderr / stdout
# Both give the command an empty standard input.

bats_require_minimum_version 1.5.0

begin() {
    PATH="$(cd "${CAG_BIN:-$BATS_TEST_DIRNAME/../../build/release}" && pwd):$PATH"
    models="$(cd "$BATS_TEST_DIRNAME/../golden/models" && pwd)"
    model="$models/qwen3.F16.gguf"
    export CAG_CACHE_DIR="$BATS_FILE_TMPDIR/cache"
    export XDG_DATA_HOME="$BATS_FILE_TMPDIR/data"
    unset CAG_MODEL CAG_MODELS HF_HOME HF_HUB_CACHE SOURCE_DATE_EPOCH
    unset CAG_THREADS CAG_DEVICE CAG_KERNELS NO_COLOR
    local dir="${BATS_TEST_TMPDIR:-$BATS_FILE_TMPDIR}/w"
    mkdir "$dir" && cd "$dir" || return 1
}

show() {
    echo "status $status"
    echo "stdout: $output"
    echo "stderr: $stderr"
    return 1
}

ok() {
    run --separate-stderr "$@" </dev/null
    [ "$status" -eq 0 ] || show
}

fails() {
    local code=$1 text=$2
    shift 2
    run --separate-stderr "$@" </dev/null
    [ "$status" -eq "$code" ] || show || return 1
    [ -z "$output" ] || show || return 1
    says "$text"
}

says() {
    case "$stderr" in
    *"$1"*) ;;
    *) show ;;
    esac
}

prints() {
    case "$output" in
    *"$1"*) ;;
    *) show ;;
    esac
}

# N lines of about 45 tokens each with the tiny tokenizer
facts() {
    local i
    for ((i = 1; i <= $1; i++)); do
        echo "Fact $i: box number $((i * 7919 % 1000)) weighs $((i * 31 % 97)) kg and stands in hall $((i % 7))."
    done
}

# `! cmd` alone never fails a test
not() { ! "$@"; }

# Shared by cag-serve*.bats: a server of the test's own, and requests to it.

load ask_helper

serve_setup_file() {
    ask_setup_file
    export http="$BATS_TEST_DIRNAME/../tools/http_ask.py" PYTHONDONTWRITEBYTECODE=1
}

# serve OPTION... CACHE...: start one on a free port; sets $base and $pid.
serve() {
    log="$BATS_TEST_TMPDIR/serve.log"
    : >"$log"
    cag-serve --listen 127.0.0.1:0 "$@" 2>"$log" 3>&- &
    pid=$!
    wait_listening
    base=$(sed -n 's/^cag-serve: listening on \(http.*\)/\1/p' "$log" | head -n 1)
}

wait_listening() {
    local i
    for i in $(seq 600); do
        ! grep -q '^cag-serve: listening on ' "$log" || return 0
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.05
    done
    cat "$log"
    return 1
}

# serve_end [STATUS]: end it as systemd does.
serve_end() {
    local got=0
    [ -n "${pid:-}" ] || return 0
    kill -TERM "$pid"
    wait "$pid" || got=$?
    pid=
    [ "$got" = "${1:-0}" ] || { echo "status $got"; cat "$log"; return 1; }
}

serve_teardown() {
    [ -z "${pid:-}" ] || kill -KILL "$pid" 2>/dev/null || true
}

# ask STATUS METHOD PATH [BODY] [...]: the reply goes to $out, talk to $err
ask() {
    expect 0 python3 "$http" "$base" "$@"
}

# chat STATUS CACHE QUESTION [MEMBER...]: a question with further members, as
# "key":value
chat() {
    local status=$1 cache=$2 question=$3
    shift 3
    ask "$status" POST /v1/chat/completions "$(body "$cache" "$question" "$@")"
}

body() {
    local cache=$1 question=$2
    shift 2
    jq -cn --arg m "$cache" --arg q "$question" --argjson more "{$(IFS=,; echo "$*")}" \
        '{model: $m, messages: [{role: "user", content: $q}]} + $more'
}

# The text of the answer in $out.
answer() { jq -r '.choices[0].message.content' "$out"; }

# error CODE [PARAM]: $out is an error of that kind
error() {
    jq -e --arg c "$1" --arg p "${2:-}" '.error | (.message | length > 0) and .type and
        .code == $c and (.param // "") == $p' "$out" >/dev/null || { cat "$out"; return 1; }
}

# within COMMAND...: wait until it succeeds
within() {
    local i
    for i in $(seq 600); do
        ! "$@" 2>/dev/null || return 0
        sleep 0.05
    done
    echo "never: $*"
    cat "$log"
    return 1
}

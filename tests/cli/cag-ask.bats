#!/usr/bin/env bats
# cag-ask, one question: what goes where, what is refused, and with which code.

bats_require_minimum_version 1.5.0
load ask_helper

setup_file() { ask_setup_file; }
setup() { cd "$work"; }

# ---------------------------------------------------------------- the output

@test "stdout is the answer and one newline, whatever is told on stderr" {
    expect 0 cag-ask -n 5 qwen.kvc "How long?"
    cp "$out" plain
    says "cut after 5 tokens" "-n allows more"
    [ "$(wc -l <plain)" = 1 ]
    [ "$(tail -c 1 plain | od -An -c | tr -d ' ')" = '\n' ]
    [ "$(tail -c 2 plain | od -An -c | tr -d ' ')" != '\n\n' ]
    [ "$(wc -c <plain)" -gt 1 ]
    for more in -q -u -v -vv --no-stream --progress=always --color=always; do
        expect 0 cag-ask "$more" -n 5 qwen.kvc "How long?"
        cmp plain "$out"
    done
    expect 0 cag-ask -q -n 5 qwen.kvc "How long?"
    # also who wants no talk learns that the answer is not whole
    [ "$(cat "$err")" = "cag-ask: cut after 5 tokens" ]
    expect 0 cag-ask -q --json -n 5 qwen.kvc "How long?"
    jq -e '.finish_reason == "length"' "$out"
    [ ! -s "$err" ]
    expect 0 cag-ask -q -n 1 qwen.kvc "How long?"
    [ "$(cat "$err")" = "cag-ask: cut after 1 token" ]
}

@test "-u is one line: tokens, times, memory, what was verified, device" {
    expect 0 cag-ask -u -n 5 qwen.kvc "How long?" </dev/null
    [ "$(grep -c ' cached + ' "$err")" = 1 ]
    says "prompt tokens" "5 generated" "load" "first token" "tokens/s" \
        "verified: header, 7 sections, 2 of 2 chunks" "cpu"
    expect 0 cag-ask -u --verify full -n 5 qwen.kvc "How long?"
    says "verified: every digest"
    expect 0 cag-ask -u --no-cache -n 5 qwen.kvc "How long?"
    says "0 cached + " "0 of 2 chunks"
}

@test "-u -u is a second line: where the time went" {
    expect 0 cag-ask -u -n 2 qwen.kvc "How long?" </dev/null
    ! grep -q "milliseconds" "$err"
    expect 0 cag-ask -u -u -n 2 qwen.kvc "How long?" </dev/null
    [ "$(grep -c "milliseconds: " "$err")" = 1 ]
    # the parts of loading are all of it, but for rounding
    perl -0ne '
        /load ([\d.]+) s, question ([\d.]+) s/ or die;
        my ($load, $question) = (1e3 * $1, 1e3 * $2);
        /milliseconds: (.*), reading the question ([\d.]+) \(checking and expanding the cache, so far ([\d.]+)\), first token [\d.]+, other tokens [\d.]+\n/ or die;
        my ($parts, $read, $expand) = ($1, $2, $3);
        my $sum = 0;
        $sum += $_ for $parts =~ /[a-z] ([\d.]+)/g;
        exit !(abs($sum - $load) < 1 && abs($read - $question) < 1 && $expand <= $read);
    ' "$err"
    expect 0 cag-ask -uu --no-cache -n 2 qwen.kvc "How long?"
    says "expanding the cache, so far 0.0)"
}

@test "--json is one document with a schema" {
    expect 0 cag-ask --json -n 5 qwen.kvc "How long?"
    [ "$(wc -l <"$out")" = 1 ]
    jq -e '.schema == 1 and .question == "How long?" and .refused == false and
        .finish_reason == "length" and (.answer | type) == "string" and
        .usage.generated_tokens == 5 and .usage.cached_tokens > 100 and
        .usage.prompt_tokens > .usage.cached_tokens and
        (.content_id | test("^[0-9a-f]{64}$")) and (.seconds | type) == "number"
        and .sources_unseen == 0 and
        .verified == {sections: 7, chunks: 2, of_chunks: 2, full: false}' "$out"
    a=$(jq -r .answer "$out")
    [ "$a" = "$(cag-ask -q -n 5 qwen.kvc "How long?")" ]
    [ "$(jq -r .content_id "$out")" = "$(cag-inspect --digest qwen.kvc | cut -c1-64)" ]
}

@test "JSON and text stay valid UTF-8 at every length" {
    for n in 1 2 3 4 5 6 7; do
        cag-ask -q -n $n qwen.kvc "Repeat: 👍🏽👨‍👩‍👧" | iconv -f UTF-8 -t UTF-8 >/dev/null
        cag-ask -q --json -n $n qwen.kvc "Repeat: 👍🏽👨‍👩‍👧" | jq -e .answer >/dev/null
    done
}

@test "a full disk or a closed stdout is 74, one line with the reason" {
    [ -w /dev/full ] || skip "no /dev/full"
    for json in -q --json; do
        rc=0
        cag-ask -q $json -n 5 qwen.kvc hi >/dev/full 2>err || rc=$?
        [ $rc = 74 ]
        [ "$(wc -l <err)" = 1 ]
        grep -q 'cag-ask: .*No space left on device' err
    done
    rc=0
    cag-ask -q -n 5 qwen.kvc hi >&- 2>err || rc=$?
    [ $rc = 74 ]
    [ "$(wc -l <err)" = 1 ]
}

@test "a reader that goes away ends it quietly" {
    set +o pipefail
    for i in $(seq 3000); do echo "q $i"; done >many
    { rc=0; cag-ask -q --batch many qwen.kvc 2>err || rc=$?; echo $rc >rc; } |
        head -c 5 >/dev/null
    [ "$(cat rc)" = 141 ]
    [ ! -s err ]
}

@test "a log that cannot be written ends it before anything is answered" {
    for log in . none/log qwen.kvc; do
        expect 73 cag-ask -q -n 3 --log $log qwen.kvc one
        refused "$log"
    done
}

@test "--log appends one line of JSON, and only when asked" {
    rm -f log
    cag-ask -q -n 3 --log log qwen.kvc one >/dev/null
    cag-ask -q -n 3 --log log qwen.kvc two >/dev/null
    [ "$(jq -r .question log | tr '\n' ' ')" = "one two " ]
    [ "$(stat -c %a log)" = 600 ]
    # when, and from which cache
    [ "$(jq -r .cache log | uniq)" = "$(realpath qwen.kvc)" ]
    for t in $(jq -r .time log); do
        [[ $t == 20[0-9][0-9]-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]Z ]]
        [ $(($(date +%s) - $(date -d "$t" +%s))) -lt 60 ]
    done
    # a batch: the answers of this run
    printf '{"id":1,"question":"one"}\n{bad\n{"id":2,"question":"two"}\n' >q
    rm -f log o o.part
    expect 2 cag-ask -q -n 3 --log log --batch q -o o qwen.kvc
    [ "$(jq -r '[.id,.cache != null,.time != null] | join(" ")' log | paste -sd,)" = "1 true true,2 true true" ]
    expect 2 cag-ask -q -n 3 --log log --batch q -o o --resume qwen.kvc
    [ "$(wc -l <log)" = 2 ]
    echo one >text
    expect 64 cag-ask -n 3 --log log --batch text qwen.kvc
    refused "--output-format jsonl"
    expect 0 cag-ask -n 3 --log log --batch text --output-format jsonl qwen.kvc
    [ "$(wc -l <log)" = 3 ]
    expect 73 cag-ask -q -n 3 --log missing/log --batch q qwen.kvc
    refused "missing/log"
    # a disk that is full shows only afterwards: the answer is there
    expect 74 cag-ask -q -n 3 --log /dev/full qwen.kvc three
    says "/dev/full: cannot write the log"
    [ -s "$out" ]
}

@test "-x prints an answer without a fence as it is" {
    expect 0 cag-ask -q -n 5 -x qwen.kvc "How long?"
    [ "$(cat "$out")" = "$(cag-ask -q -n 5 qwen.kvc "How long?")" ]
}

# -------------------------------------------------------------- the question

prompt() { cag-ask --dry-run --json "$@" qwen.kvc | jq -r .prompt; }

@test "a question is words, stdin, a file, or words and a file" {
    want=$(cag-ask --dry-run qwen.kvc "How long does it fly?")
    [ "$(cag-ask --dry-run qwen.kvc How long does it "fly?")" = "$want" ]
    [ "$(cag-ask How --dry-run qwen.kvc long 2>&1 || true)" != "$want" ]
    [ "$(echo "How long does it fly?" | cag-ask --dry-run qwen.kvc)" = "$want" ]
    [ "$(printf 'How long does it fly?\r\n' | cag-ask --dry-run qwen.kvc)" = "$want" ]
    echo "How long does it fly?" >q.txt
    [ "$(cag-ask --dry-run -f q.txt qwen.kvc)" = "$want" ]
    [ "$(cag-ask --dry-run qwen.kvc -f - <q.txt)" = "$want" ]
    [ "$(cag-ask --dry-run -f q.txt qwen.kvc Read:)" = \
        "$(cag-ask --dry-run qwen.kvc $'Read:\nHow long does it fly?')" ]
    [ "$(cag-ask --dry-run qwen.kvc -- -v)" = "$(echo -- -v | sed 's/^-- //' |
        cag-ask --dry-run qwen.kvc)" ]
}

@test "CRLF inside a question and a byte order mark" {
    a=$(printf 'a\r\nb' | cag-ask --dry-run --json qwen.kvc | jq .prompt)
    [[ "$a" == *'a\r\nb'* ]]
    a=$(printf '\xef\xbb\xbfhi' | cag-ask --dry-run qwen.kvc)
    [ "$a" = "$(cag-ask --dry-run qwen.kvc hi)" ]
}

@test "with a question stdin is not read" {
    printf 'one\ntwo\nthree\n' >list
    n=0
    while read -r q; do
        cag-ask -q -n 2 qwen.kvc "$q" >/dev/null
        n=$((n + 1))
    done <list
    [ $n = 3 ]
    # not even when stdin never ends
    mkfifo never
    timeout 20 cag-ask -q -n 2 qwen.kvc hi <>never >/dev/null
}

@test "no terminal and no question: 65, never a prompt" {
    expect 65 timeout 20 cag-ask qwen.kvc </dev/null
    refused "the question is empty"
    expect 65 timeout 20 cag-ask qwen.kvc <&-
    refused "the question is empty"
    for q in "" "   " $'\n\t'; do
        expect 65 cag-ask qwen.kvc "$q"
        refused "the question is empty"
    done
    # a question with stdin closed is answered
    expect 0 cag-ask -q -n 2 qwen.kvc hi <&-
}

@test "bytes that are no text are refused, with the way out" {
    expect 65 cag-ask qwen.kvc $'caf\xe9'
    refused "not valid UTF-8 (byte 3)"
    printf 'caf\xe9' >latin1
    expect 65 cag-ask -f latin1 qwen.kvc
    refused "latin1: byte 3:" "iconv -f ISO-8859-1"
    printf '\xff\xfeh\0i\0' >utf16
    expect 65 cag-ask -f utf16 qwen.kvc
    refused "UTF-16" "iconv -f UTF-16"
    printf 'text\0b' >nul
    expect 65 cag-ask qwen.kvc <nul
    refused "standard input: byte 4: a NUL byte"
    expect 66 cag-ask -f missing.txt qwen.kvc
    refused "missing.txt"
    expect 66 cag-ask -f . qwen.kvc
    refused "directory"
}

@test "control tokens in a question are text" {
    n() { cag-ask --dry-run --json qwen.kvc "$1" | jq .question_tokens; }
    # one token each if they were promoted
    [ $(($(n '<|im_end|>') - $(n x))) -gt 3 ]
    [ $(($(n '<|im_start|>') - $(n x))) -gt 3 ]
    p=$(cag-ask --dry-run --json qwen.kvc hi | jq -r .prompt)
    [ "$(grep -c '<|im_start|>system' <<<"$p")" = 1 ]
    [ "$(grep -c '<|im_start|>user' <<<"$p")" = 1 ]
    [ "$(grep -c '<|im_start|>assistant' <<<"$p")" = 1 ]
}

@test "--dry-run shows prompt, border and room, without weights" {
    mkdir -p no-model
    cp qwen.kvc no-model/
    expect 0 cag-ask --dry-run no-model/qwen.kvc hi
    grep -q 'cached part ends here: [0-9]* tokens' "$out"
    grep -q 'room for an answer: [0-9]*' "$out"
    expect 0 cag-ask --dry-run --json no-model/qwen.kvc hi
    jq -e '.schema == 1 and .room + .cached_tokens + .question_tokens > 8000 and
        (.prompt | contains("47 minutes"))' "$out"
    expect 65 cag-ask --dry-run no-model/qwen.kvc "$(head -c 60000 /dev/zero | tr '\0' '1')"
    says "does not fit"
}

# ---------------------------------------------------------------- wrong calls

@test "a wrong call is 64, one line and where to look" {
    while read -r line; do
        expect 64 cag-ask $line </dev/null
        [ ! -s "$out" ]
        [ "$(wc -l <"$err")" = 2 ]
        [ "$(sed -n 2p "$err")" = "Try 'cag-ask --help'" ]
        grep -q '^cag-ask: ' "$err"
    done <<'EOF'
--no-such-option qwen.kvc hi
--tempereture=1 qwen.kvc hi
--temp 1 qwen.kvc hi
-Z qwen.kvc hi
-n
-n 0 qwen.kvc hi
-n 5x qwen.kvc hi
--temperature=-1 qwen.kvc hi
--top-p 2 qwen.kvc hi
--top-p 0 qwen.kvc hi
--stale=perhaps qwen.kvc hi
--stop= qwen.kvc hi
-i qwen.kvc hi
--chat -f q qwen.kvc
-i --dry-run qwen.kvc
--batch q qwen.kvc hi
--batch q -x qwen.kvc
--batch q --json --output-format text qwen.kvc
--batch q --resume qwen.kvc
--batch q --resume -o - qwen.kvc
--batch q --resume -o o --unordered qwen.kvc
--batch q --resume -o o --output-format text qwen.kvc
-o out qwen.kvc hi
-j 2 qwen.kvc hi
--max-errors 3 qwen.kvc hi
--json -x qwen.kvc hi
qwen.kvc -5
qwen.kvc llama.kvc hi
EOF
    expect 64 cag-ask
    grep -q "no file" "$err"
    expect 64 cag-ask qwen.kvc llama.kvc hi
    grep -qF "did you mean: cag-ask qwen.kvc" "$err"
    expect 64 cag-ask --tempereture=1 qwen.kvc hi
    grep -qF "did you mean '--temperature'" "$err"
    expect 64 cag-ask --temp 1 qwen.kvc hi
    grep -qF "abbreviated; write" "$err" || grep -qF "did you mean '--temperature'" "$err"
}

@test "--help, --version, --print-config: stdout, 0, and nothing else" {
    for o in -h --help -V --version --print-config; do
        expect 0 cag-ask $o
        [ -s "$out" ]
        [ ! -s "$err" ]
    done
    [ "$(cag-ask --help | wc -l)" -le 23 ]
    [ "$(cag-ask --help | wc -L)" -le 80 ]
    CAG_THREADS=3 expect 0 cag-ask --print-config -n 7
    grep -qx 'predict = 7  (option -n)' "$out"
    grep -qx 'threads = 3  (environment CAG_THREADS)' "$out"
    grep -qx 'stale = error  (default)' "$out"
}

# ------------------------------------------------------------------ the cache

@test "a cache that is missing or no cache is refused by name" {
    expect 66 cag-ask missing.kvc hi
    refused "missing.kvc"
    expect 66 cag-ask . hi
    refused "."
    : >empty.kvc
    expect 65 cag-ask empty.kvc hi
    refused "empty.kvc"
    expect 65 cag-ask "$MODELS/llama.F16.gguf" hi
    refused "llama.F16.gguf"
    expect 65 cag-ask kb.md hi
    refused "kb.md"
}

@test "a cache cut anywhere or with a flipped bit does not answer" {
    size=$(stat -c %s qwen.kvc)
    for at in 1 7 8 100 4095 4096 $((size / 4)) $((size / 2)) $((size - 1)); do
        head -c $at qwen.kvc >cut.kvc
        expect 65 cag-ask cut.kvc hi
        refused "cut.kvc"
    done
    for at in 0 8 40 200 $((size / 4)) $((size / 2)) $((size * 3 / 4)); do
        cp qwen.kvc flip.kvc
        old=$(od -An -tu1 -j $at -N 1 flip.kvc)
        printf "\\x$(printf %02x $((old ^ 16)))" |
            dd of=flip.kvc bs=1 seek=$at conv=notrunc status=none
        # byte 8 is the format version: 69, to be read by a later program
        expect $((at == 8 ? 69 : 65)) cag-ask --verify full flip.kvc hi
        refused "flip.kvc"
    done
}

@test "the cache is only read: 0444, unchanged, a read-only directory" {
    mkdir -p ro
    cp kb.md qwen.kvc ro/
    ln -sfn "$MODELS" "$BATS_FILE_TMPDIR/models-link"
    chmod 444 ro/qwen.kvc
    chmod 555 ro
    before=$(sha256sum ro/qwen.kvc; stat -c %Y.%Z ro/qwen.kvc)
    expect 0 cag-ask -q -n 3 -m "$MODELS/qwen3" ro/qwen.kvc hi
    [ "$before" = "$(sha256sum ro/qwen.kvc; stat -c %Y.%Z ro/qwen.kvc)" ]
    [ "$(ls ro)" = $'kb.md\nqwen.kvc' ]
    if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
        # nothing may be written anywhere, HOME included
        chmod 755 "$BATS_FILE_TMPDIR" "$BATS_RUN_TMPDIR" 2>/dev/null || true
        if setpriv --reuid=65534 --clear-groups test -r ro/qwen.kvc -a \
                -r "$MODELS/qwen3/config.json"; then
            setpriv --reuid=65534 --clear-groups env -u HOME \
                cag-ask -q -n 3 -m "$MODELS/qwen3" ro/qwen.kvc hi >nobody
            cmp nobody "$out"
        fi
    fi
    chmod 755 ro
    env -u HOME -u XDG_CACHE_HOME cag-ask -q -n 3 qwen.kvc hi >nohome
    cmp nohome "$out"
}

@test "a changed source: error, warn or ignore; the message ends with the command" {
    mkdir -p stale
    printf 'The code is 4192.\n' >stale/s.md
    cag-build -q -m "$MODELS/qwen3" -o stale/s.kvc stale/s.md
    want=$(cag-ask -q -n 3 stale/s.kvc hi)
    touch -r stale/s.md when
    printf 'The code is 4193.\n' >stale/s.md
    touch -r when stale/s.md
    expect 1 cag-ask -n 3 stale/s.kvc hi
    refused "s.md" "stale/s.kvc"
    grep -q 'cag-build --refresh .*stale/s.kvc' "$err"
    expect 0 cag-ask --stale warn -n 3 stale/s.kvc hi
    [ "$(cat "$out")" = "$want" ]
    says "warning: " "s.md"
    expect 0 cag-ask --stale ignore -q -n 3 stale/s.kvc hi
    [ "$(cat "$out")" = "$want" ]
    only_a_sign
    # the command repairs it
    cag-build -q --refresh stale/s.kvc
    expect 0 cag-ask -q -n 3 stale/s.kvc hi
}

@test "sources that cannot be seen: one line, and the answer" {
    mkdir -p unseen
    printf 'a\n' >unseen/a.md
    printf 'b\n' >unseen/b.md
    cag-build -q -m "$MODELS/qwen3" -o unseen/u.kvc unseen/a.md unseen/b.md
    mkdir away
    mv unseen/u.kvc away/u.kvc # carried elsewhere, without its lock
    rm unseen/a.md unseen/b.md
    ln -sf "$PWD/away/u.kvc" unseen/u.kvc
    rm -f unseen/u.kvc.lock
    expect 0 cag-ask --json -n 99 unseen/u.kvc hi
    [ "$(grep -c . "$err")" -le 2 ]
    [ "$(grep -c 'u.kvc' "$err")" = 1 ]
    jq -e '.sources_unseen == 2' "$out"
    expect 0 cag-ask -q -n 3 unseen/u.kvc hi
    only_a_sign
}

# ------------------------------------------------------------------ the model

@test "a moved model is found by -m, CAG_MODEL, CAG_MODELS; else all places are told" {
    mkdir -p moved/models
    cp -r "$MODELS/qwen3" moved/models/q
    cag-build -q -m moved/models/q -o moved/q.kvc kb.md
    want=$(cag-ask -q -n 3 moved/q.kvc hi)
    # cache and model moved together
    mkdir -p elsewhere
    cp kb.md elsewhere/kb.md
    rm -rf elsewhere/moved
    mv moved elsewhere/moved
    [ "$(cag-ask -q --stale ignore -n 3 elsewhere/moved/q.kvc hi)" = "$want" ]
    mv elsewhere/moved/models elsewhere/away
    # the memory of the tests before this one knows a copy
    expect 66 env CAG_CACHE_DIR="$PWD/none" cag-ask --stale ignore elsewhere/moved/q.kvc hi
    refused "-m" "CAG_MODEL" "q.kvc"
    export CAG_MODEL=elsewhere/away/q
    [ "$(cag-ask -q --stale ignore -n 3 elsewhere/moved/q.kvc hi)" = "$want" ]
    unset CAG_MODEL
    export CAG_MODELS=/nowhere:elsewhere/away
    [ "$(cag-ask -q --stale ignore -n 3 elsewhere/moved/q.kvc hi)" = "$want" ]
    unset CAG_MODELS
    [ "$(cag-ask -q --stale ignore -n 3 -m elsewhere/away/q elsewhere/moved/q.kvc hi)" = "$want" ]
    expect 66 cag-ask --stale ignore -m nowhere elsewhere/moved/q.kvc hi
    refused "nowhere"
}

@test "other weights of the same shape are refused with both digests, whatever --stale says" {
    cp -r "$MODELS/qwen3" other
    f=other/model.safetensors
    at=$(($(stat -c %s $f) / 2))
    touch -r $f when
    old=$(od -An -tu1 -j $at -N 1 $f)
    printf "\\x$(printf %02x $((old ^ 1)))" | dd of=$f bs=1 seek=$at conv=notrunc status=none
    touch -r when $f
    for stale in error warn ignore; do
        expect 65 cag-ask --stale $stale -m other qwen.kvc hi
        [ ! -s "$out" ]
        says "other"
        [ "$(grep -oE '[0-9a-f]{12,}' "$err" | sort -u | wc -l)" = 2 ]
    done
    expect 65 cag-ask -m "$MODELS/llama" qwen.kvc hi
    [ ! -s "$out" ]
}

# ---------------------------------------------------------------- the answer

@test "cached equals uncached, for every codec, thread count and kernel set" {
    cp qwen.kvc codec-f16z.kvc
    for c in f16 f32; do
        cag-build -q -m "$MODELS/qwen3" --codec $c -o codec-$c.kvc kb.md
    done
    for q in "How long?" "Who leads?" x; do
        want=$(cag-ask -q -n 40 qwen.kvc "$q" | od -c)
        [ "$(cag-ask -q --no-cache -n 40 qwen.kvc "$q" | od -c)" = "$want" ]
        [ "$(cag-ask -q -n 40 codec-f16.kvc "$q" | od -c)" = "$want" ]
        [ "$(cag-ask -q -t 3 -n 40 qwen.kvc "$q" | od -c)" = "$want" ]
        [ "$(CAG_KERNELS=scalar cag-ask -q -n 40 qwen.kvc "$q" | od -c)" = "$want" ]
        [ "$(cag-ask -q -n 40 codec-f32.kvc "$q" | od -c)" = \
            "$(cag-ask -q --no-cache -n 40 codec-f32.kvc "$q" | od -c)" ]
        [ "$(cag-ask -q -n 40 llama.kvc "$q" | od -c)" = \
            "$(cag-ask -q --no-cache -n 40 llama.kvc "$q" | od -c)" ]
    done
}

@test "what does not fit is refused with the numbers; nothing is cut silently" {
    n=$(cag-ask --dry-run --json qwen.kvc hi | jq .cached_tokens)
    expect 65 cag-ask qwen.kvc "$(seq 1 20000)"
    refused "does not fit" "$n tokens of knowledge" "8192"
    expect 65 cag-ask -c $n qwen.kvc hi
    refused "--ctx-size" "$n"
    expect 65 cag-ask -c $((n + 8)) qwen.kvc "$(seq 1 100)"
    refused "does not fit" "$((n + 8))"
    expect 65 cag-ask -c 100000 qwen.kvc hi
    refused "--ctx-size 100000" "8192"
    # room for five tokens: the answer is marked as cut, by the context
    q=$(cag-ask --dry-run --json qwen.kvc "How long?" | jq .question_tokens)
    expect 0 cag-ask --json -c $((n + q + 5)) qwen.kvc "How long?"
    jq -e '.finish_reason == "length" and .usage.generated_tokens == 5' "$out"
    says "the context of $((n + q + 5)) is full"
}

@test "what is far too long is refused by its size, before it is tokenized" {
    head -c 20000000 /dev/zero | tr '\0' 'w' >long
    { printf '{"id":1,"question":"'; cat long; printf '"}\n{"id":2,"question":"hi"}\n'; } >rows.jsonl
    case ${CAG_MODE:-release} in
    san | tsan) unlimited() { "$@"; } ;; # a sanitizer takes more itself
    *) unlimited() { (ulimit -v 450000 && "$@"); } ;; # tokenized it is 850 MB
    esac
    expect 65 unlimited cag-ask -t 1 qwen.kvc <long
    says "the question does not fit: 20000" "bytes are at least" "there is room for"
    expect 65 unlimited cag-ask -t 1 -i qwen.kvc <long
    says "bytes are at least"
    expect 2 unlimited cag-ask -t 1 -n 3 --batch rows.jsonl qwen.kvc
    jq -se '.[0].id == 1 and .[0].error_code == "limit" and (.[1] | .id == 2 and has("answer"))' "$out"
}

@test "--max-memory: more is refused with both numbers, a batch runs fewer rows" {
    local n
    expect 71 cag-ask -t 1 --device cpu --max-memory 1M qwen.kvc "Who leads?"
    refused "the model with its scratch needs" \
        "--max-memory leaves 1 MiB of 1 MiB"
    seq -f 'Who is number %g?' 9 >nine.txt
    expect 0 cag-ask -t 1 --device cpu -n 2 -j 9 --batch nine.txt qwen.kvc
    cp "$out" free.jsonl
    # the least that takes one row
    for n in $(seq 2 60) none; do
        cag-ask -q -t 1 --device cpu -n 2 --max-memory ${n}M --batch nine.txt \
            -j 9 qwen.kvc >tight.jsonl 2>/dev/null && break
    done
    [ $n != none ]
    cmp <(steady free.jsonl) <(steady tight.jsonl)
    expect 0 cag-ask -t 1 --device cpu -n 2 --max-memory 64M qwen.kvc "Who leads?"
}

@test "--stop ends before the text; the first of several wins" {
    full=$(cag-ask -q -n 12 llama.kvc "Who leads?")
    for i in 2 4 6; do
        stop=${full:$i:2}
        [ -n "${stop// /}" ] || continue
        want=${full%%"$stop"*}
        got=$(cag-ask -q -n 12 --stop "$stop" llama.kvc "Who leads?"; echo .)
        [ "$got" = "$(printf '%s\n.' "$(sed 's/[ \t]*$//' <<<"$want")")" ]
        [ "$(cag-ask -q --json -n 12 --stop "$stop" llama.kvc "Who leads?" |
            jq -r .finish_reason)" = stop ]
    done
    expect 0 cag-ask -q -n 12 --stop "${full:4:2}" --stop "${full:2:2}" llama.kvc "Who leads?"
    [ "$(cat "$out")" = "$(cag-ask -q -n 12 --stop "${full:2:2}" llama.kvc "Who leads?")" ]
}

@test "a seed decides a sampled answer; greedy needs none" {
    ask() { cag-ask -q -n 12 "$@" qwen.kvc "How long?" | od -c; }
    [ "$(ask)" = "$(ask --temperature 0 --seed 5)" ]
    [ "$(ask)" = "$(ask --temperature 1 --top-k 1 --seed 5)" ]
    [ "$(ask)" = "$(ask --temperature 1 --top-p 0.000001 --seed 5)" ]
    [ "$(ask)" = "$(ask --temperature 1 --min-p 1 --seed 5)" ]
    [ "$(ask --temperature 2 --seed 5)" = "$(ask --temperature 2 --seed 5)" ]
    [ "$(ask --temperature 2 --seed 5)" = "$(ask --temperature 2 --seed 5 -t 3)" ]
    [ "$(ask --temperature 2 --seed 5)" != "$(ask --temperature 2 --seed 6)" ]
}

@test "thoughts never reach stdout and do not count against -n" {
    # a template that opens the block itself when thinking is on
    sed "s/{%- if enable_thinking is defined and enable_thinking is false -%}/{%- if enable_thinking is defined and enable_thinking -%}{{- '<think>\\\\n' -}}{%- else -%}/" \
        "$BATS_TEST_DIRNAME/../golden/chat/think.jinja" >opens.jinja
    cag-build -q -m "$MODELS/qwen3" -c 400 --reserve 100 --chat-template-file opens.jinja \
        -o opens.kvc kb.md
    expect 0 cag-ask --think --json -n 3 opens.kvc hi
    jq -e '(.reasoning | length) > 5 and .usage.generated_tokens > 3' "$out"
    a=$(jq -r .answer "$out")
    why=$(jq -r .reasoning "$out")
    expect 0 cag-ask -q --think -n 3 opens.kvc hi
    [ "$(cat "$out")" = "$a" ]
    [[ "$(cat "$out")" != *"${why:0:5}"* ]]
    # without --think it answers at once
    expect 0 cag-ask --json -n 3 opens.kvc hi
    jq -e '(has("reasoning") | not) and (.answer | length) > 0 and
        .usage.generated_tokens == 3' "$out"
    expect 0 cag-ask --think -n 3 llama.kvc hi
    says "no switch for thinking"
}

# ------------------------------------------------------- signals and memory

# Start a cag-ask that is busy for a while: a coprocess with rows to come.
start_busy() {
    mkfifo rows
    cag-ask -n 50 --batch rows qwen.kvc >busy.out 2>busy.err &
    pid=$!
    exec 9>rows
    rm rows
    echo one >&9
    for i in $(seq 200); do
        [ -s busy.out ] && return 0
        sleep 0.05
    done
    return 1
}

@test "SIGINT and SIGTERM end it with 130 and 143, what is done is out" {
    for sig in INT TERM; do
        # a shell without job control starts background jobs with SIGINT ignored
        rc=0
        python3 - $sig <<'EOF' || rc=$?
import os, signal, subprocess, sys
p = subprocess.Popen(["cag-ask", "-n", "5", "--batch", "-", "qwen.kvc"],
                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                     preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
p.stdin.write(b"one\n"); p.stdin.flush()
line = p.stdout.readline()
p.send_signal(getattr(signal, "SIG" + sys.argv[1]))
out, err = p.communicate(timeout=20)
assert line.endswith(b"\n") and out == b"" and err == b"", (line, out, err)
sys.exit(-p.returncode)
EOF
        [ $rc = $(kill -l $sig) ]
    done
}

@test "SIGUSR1 prints one line and changes nothing" {
    start_busy
    kill -USR1 $pid
    for i in $(seq 100); do
        [ -s busy.err ] && break
        sleep 0.05
    done
    [ "$(grep -c '^cag-ask: ' busy.err)" = 1 ]
    echo two >&9
    exec 9>&-
    wait $pid
    [ "$(wc -l <busy.out)" = 2 ]
}

@test "asking makes no second copy of the keys and values" {
    [ -r /proc/self/status ] || skip "no /proc"
    case ${CAG_MODE:-release} in san | tsan) skip "a sanitizer keeps what is freed" ;; esac
    seq 1 1600 >long.md
    for c in f16 q8h f16z; do
        cag-build -q -m "$MODELS/qwen3" --codec $c -o long-$c.kvc long.md
        raw=$(($(cag-inspect --json long-$c.kvc | jq '.tokens // .n_tok') * 3840 / 1024))
        coproc ASK { exec cag-ask -q -n 20 --batch - long-$c.kvc; }
        pid=$ASK_PID
        for i in 1 2 3; do
            echo "question $i" >&"${ASK[1]}"
            read -r -t 30 answer <&"${ASK[0]}"
        done
        anon=$(awk '/^RssAnon/ { print $2 }' /proc/$pid/status)
        kill $pid
        wait $pid || true
        echo "$c: $anon KiB private, $raw KiB of K and V"
        if [ $c != f16z ]; then
            [ "$anon" -lt 16384 ]
        else
            [ "$anon" -lt $((raw * 12 / 10 + 16384)) ]
        fi
    done
}

@test "options that change nothing are told, and wrong orders of words" {
    for idle in "--seed 5" "--top-p 0.5" "--top-k 3" "--min-p 0.1"; do
        expect 0 cag-ask $idle -n 2 qwen.kvc hello
        says "warning: option ${idle%% *} changes nothing at temperature 0"
        expect 0 cag-ask $idle -n 2 --temperature 0.5 qwen.kvc hello
        run ! grep 'changes nothing' "$err"
    done
    expect 64 cag-ask hello qwen.kvc
    grep -qF "the cache comes first; did you mean: cag-ask qwen.kvc 'hello'?" "$err"
    expect 64 cag-ask hello there qwen.kvc
    grep -qF "the cache comes first; did you mean: cag-ask qwen.kvc 'hello ...'?" "$err"
}

@test "how long an answer may be depends on how it is asked" {
    [ "$(cag-ask --print-config | grep '^predict')" = "predict = 1024  (default)" ]
    [ "$(cag-ask --print-config --batch q | grep '^predict')" = "predict = 120  (default)" ]
    [ "$(cag-ask --print-config --max-tokens 7 | grep '^predict')" = "predict = 7  (option --max-tokens)" ]
    printf 'Who leads?\n' | cag-ask -q --output-format jsonl --batch - qwen.kvc |
        jq -e '.usage.generated_tokens <= 120'
}

@test "a cache or model that is written in place while it is in use ends it" {
    for what in cache model; do
        rm -rf m k.kvc other.kvc && cp -r "$MODELS/qwen3" m
        cag-build -q -m m -o k.kvc kb.md
        for i in $(seq 60); do echo "Fact $i."; done >other.md
        cag-build -q -m m -o other.kvc other.md
        f=k.kvc
        [ $what = cache ] || f=$(ls m/*.safetensors | head -n 1)
        # replaced as it should be: what is mapped stays as it was
        coproc ASK { cag-ask -n 3 --batch - --output-format jsonl k.kvc 2>err; }
        to=${ASK[1]} from=${ASK[0]} pid=$ASK_PID rc=0
        echo 'Why?' >&"$to"
        read -r first <&"$from"
        cp $f copy && mv copy $f
        echo 'Who?' >&"$to"
        read -r second <&"$from"
        [[ $second == *'"answer"'* ]]
        eval "exec $to>&-"
        wait "$pid"
        # and in place
        coproc ASK { cag-ask -n 3 --batch - --output-format jsonl k.kvc 2>err; }
        to=${ASK[1]} from=${ASK[0]} pid=$ASK_PID rc=0
        echo 'Why?' >&"$to"
        read -r first <&"$from"
        if [ $what = cache ]; then cp other.kvc k.kvc; else touch $f; fi
        echo 'Who?' >&"$to"
        eval "exec $to>&-"
        wait "$pid" || rc=$?
        [ $rc = 74 ]
        grep -q "$(basename $f): was changed in place" err
    done
}

@test "a question with bytes the model has no token for is a warning" {
    rm -rf m && cp -r "$MODELS/qwen3" m
    jq -c '.model.vocab |= with_entries(select(.key != "ð"))
        | .model.merges |= map(select((if type == "array" then join(" ") else . end) | test("ð") | not))' \
        "$MODELS/qwen3/tokenizer.json" >m/tokenizer.json
    cag-build -q -m m -o dropped.kvc kb.md
    expect 0 cag-ask -n 1 dropped.kvc "Where is $(printf '\360\223\200\200')?"
    says "warning: 1 bytes of the question have no token"
    expect 0 cag-ask -n 1 dropped.kvc "Where is it?"
    [ "$(grep -c 'no token' "$err")" = 0 ]
}

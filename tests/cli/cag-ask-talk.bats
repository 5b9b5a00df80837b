#!/usr/bin/env bats
# cag-ask -i and --chat: from a pipe, and on a terminal.

bats_require_minimum_version 1.5.0
load ask_helper

setup_file() { ask_setup_file; }
setup() {
    cd "$work"
    tty="$BATS_TEST_DIRNAME/../tools/on_tty.py"
}

# on_tty STATUS COMMAND... <SCRIPT
on_tty() {
    local want=$1
    shift
    TERM=xterm expect "$want" python3 "$tty" "$@"
}

# What the terminal showed, without what it was told besides.
shown() { tr -d '\r' <"$out" | sed 's/\x1b\[[?0-9;]*[a-zA-Z]//g'; }

# -------------------------------------------------------------- from a pipe

@test "-i at the end of input ends at once, with 0 and no output" {
    expect 0 timeout 20 cag-ask -i qwen.kvc </dev/null
    [ ! -s "$out" ]
    [ ! -s "$err" ]
    expect 0 timeout 20 cag-ask -i qwen.kvc <&-
    [ ! -s "$out" ]
    [ ! -s "$err" ]
}

@test "-i from a pipe: an answer a line, no prompt, no colour" {
    printf 'How long?\n\n   \nWho leads?' >q
    expect 0 cag-ask -q -n 5 -i qwen.kvc <q
    for q in "How long?" "Who leads?"; do cag-ask -q -n 5 qwen.kvc "$q"; done 2>/dev/null | cmp - "$out"
    only_a_sign
    expect 0 cag-ask -q -n 5 -i --color=always --progress=always qwen.kvc <q
    run ! grep -q $'\033' "$out"
    expect 0 cag-ask -q --json -n 5 -i qwen.kvc <q
    [ "$(jq -r .question "$out")" = $'How long?\nWho leads?' ]
}

@test "-i: blocks in three double quotes" {
    printf '"""\nHow\n\nlong?\n"""\nx\n"""How\n\nlong?"""\n"""one line"""\n"""open\nto the end' >q
    expect 0 cag-ask -q --json -n 2 -i qwen.kvc <q
    jq -se 'map(.question) == ["How\n\nlong?\n", "x", "How\n\nlong?", "one line",
        "open\nto the end"]' "$out"
}

@test "-i: commands, and one that is none" {
    expect 0 cag-ask -n 5 -i qwen.kvc <<<$'hello\n/sources\n/stats\n/help\n/reset\n/quit\nnever asked'
    [ "$(wc -l <"$out")" = 1 ]
    grep -q 'tokens  kb.md' "$err"
    grep -q '^questions  *1$' "$err"
    grep -q '/reset' "$err"
    expect 64 cag-ask -q -n 2 -i qwen.kvc <<<$'/nonsense\nhello'
    grep -q "unknown command '/nonsense'" "$err"
    expect 64 cag-ask -q -n 2 -i qwen.kvc <<<$'/quit now\nhello'
    grep -q "/quit takes no word after it" "$err"
    expect 64 cag-ask -q -n 2 -i qwen.kvc <<<$'/sorces'
    grep -q "did you mean '/sources'? There are: /sources /stats " "$err"
    [ "$(cag-ask -q -n 2 -i qwen.kvc <<<$'/nonsense\nhello' 2>/dev/null | wc -l)" = 1 ]
    expect 64 cag-ask -q -n 2 -i qwen.kvc <<<$'/nonsense\nhello'
    grep -q "unknown command '/nonsense'; there are: .* /help /quit$" "$err"
    expect 64 cag-ask -q -n 2 -i qwen.kvc <<<$'/nonsense with words\nhello'
    grep -q "unknown command '/nonsense'" "$err"
    [ "$(wc -l <"$out")" = 1 ]
    # a question may begin with a slash
    expect 0 cag-ask -q -n 2 -i qwen.kvc <<<'/etc/passwd is what?'
    [ "$(wc -l <"$out")" = 1 ]
}

@test "-i: a bad question is told, the next is answered, the status remembers" {
    printf 'caf\xe9\na\0b\ngood\n' >q
    expect 65 cag-ask -q -n 2 -i qwen.kvc <q
    [ "$(wc -l <"$out")" = 1 ]
    says "not valid UTF-8" "NUL"
}

@test "-i: every question from the clean prefix" {
    expect 0 cag-ask -q --json -n 20 -i qwen.kvc <<<$'one\ntwo\none'
    jq -se '.[0].answer == .[2].answer' "$out"
    for i in 0 1 2; do
        q=(one two one)
        [ "$(jq -s ".[$i].answer" "$out")" = "$(cag-ask -q --json -n 20 qwen.kvc ${q[i]} | jq .answer)" ]
    done
}

@test "--chat: turns are kept, and equal a cold run" {
    for kvc in qwen.kvc llama.kvc; do
        printf 'Who leads?\nAnd how long?\nWhy?\n' >q
        expect 0 cag-ask -q --json -n 12 --chat $kvc <q
        cp "$out" cached
        expect 0 cag-ask -q --json -n 12 --no-cache --chat $kvc <q
        [ "$(jq .answer cached)" = "$(jq .answer "$out")" ]
        # the knowledge is taken whole from the cache in every turn, and turns add up
        k=$(cag-ask --dry-run --json $kvc x | jq .cached_tokens)
        jq -se --argjson k $k 'map(.usage.cached_tokens == $k) | all' cached
        jq -se 'map(.usage.prompt_tokens) | . == sort and .[2] > .[0] + 20' cached
        [ "$(jq .usage.cached_tokens "$out" | sort -u)" = 0 ]
        # without --chat the third question stands alone
        printf 'Why?\n' | cag-ask -q --json -n 12 -i $kvc | jq .usage.prompt_tokens >alone
        [ "$(cat alone)" -lt "$(jq -s '.[2].usage.prompt_tokens' cached)" ]
        # /chat in the middle, /reset at the end
        printf 'Before\n/chat\nWho leads?\nAnd how long?\n/reset\nWhy?\n' >q
        cag-ask -q --json -n 12 -i $kvc <q >mixed
        [ "$(jq -s '.[2].answer' mixed)" = "$(jq -s '.[1].answer' cached)" ]
        [ "$(jq -s '.[3].usage.prompt_tokens' mixed)" = "$(cat alone)" ]
    done
}

@test "--chat: a template that drops earlier thoughts" {
    cag-build -q -m "$MODELS/qwen3" --chat-template-file "$BATS_TEST_DIRNAME/../golden/chat/think.jinja" \
        -o think.kvc kb.md
    printf 'Who leads?\nAnd how long?\nWhy?\n' >q
    expect 0 cag-ask -q --json -n 12 --chat think.kvc <q
    cp "$out" cached
    k=$(cag-ask --dry-run --json think.kvc x | jq .cached_tokens)
    jq -se --argjson k $k 'map(.usage.cached_tokens == $k) | all' cached
    expect 0 cag-ask -q --json -n 12 --no-cache --chat think.kvc <q
    [ "$(jq .answer cached)" = "$(jq .answer "$out")" ]
}

@test "--chat: a full conversation names /reset, and goes on after it" {
    k=$(cag-ask --dry-run --json qwen.kvc "Question one?" | jq '.cached_tokens + .question_tokens')
    printf 'Question one?\nQuestion two?\n/reset\nQuestion one?\n' >q
    expect 65 cag-ask -q --json -n 30 -c $((k + 40)) --chat qwen.kvc <q
    jq -se 'length == 2 and .[0].answer == .[1].answer' "$out"
    says "the conversation is full" "/reset" "$((k + 40))"
}

@test "/save and --continue: a conversation goes on as if it had not ended" {
    expect 0 cag-ask -q -n 5 --chat qwen.kvc <<<$'Who leads?\nHow long?\nAnd then?'
    tail -n 1 "$out" >want
    expect 0 cag-ask -q -n 5 --chat qwen.kvc <<<$'Who leads?\nHow long?\n/save c.json'
    [ "$(stat -c %a c.json)" = 600 ]
    jq -e 'length == 4 and .[2].content == "How long?"' c.json
    expect 0 cag-ask -q -n 5 --continue c.json qwen.kvc <<<$'And then?\n/save'
    cmp want "$out"
    jq -e 'length == 6' c.json
    # nothing else is replaced, and nothing else is taken
    echo text >notes
    mkfifo pipe
    mkdir -p folder
    for f in pipe folder /dev/null; do
        expect 73 timeout 20 cag-ask -q -n 2 --chat qwen.kvc <<<$'hello\n/save '$f
    done
    [ -p pipe ] && [ -c /dev/null ]
    expect 73 cag-ask -q -n 2 --chat qwen.kvc <<<$'hello\n/save notes'
    [ "$(cat notes)" = text ]
    expect 64 cag-ask -q -n 2 --chat qwen.kvc <<<$'hello\n/save'
    expect 64 cag-ask -q -n 2 -i qwen.kvc <<<$'hello\n/save c.json'
    expect 65 cag-ask -q --continue notes qwen.kvc </dev/null
    for bad in '{}' '[1]' '[{"role":"user","content":"a"}]' \
        '[{"role":"assistant","content":"a"},{"role":"user","content":"b"}]' \
        '[{"role":"user","content":"a"},{"role":"assistant","content":1}]'; do
        echo "$bad" >bad.json
        expect 65 cag-ask -q --continue bad.json qwen.kvc </dev/null
        grep -q '^cag-ask: bad.json: ' "$err"
    done
    expect 66 cag-ask -q --continue gone.json qwen.kvc </dev/null
}

# ------------------------------------------------------------- on a terminal

@test "a terminal is told what it talks to; Ctrl-D ends the line" {
    on_tty 0 cag-ask -n 2 qwen.kvc <<'EOF'
wait > 
pause 0.3
leave
EOF
    grep -qE '^qwen.kvc: [0-9]+ tokens, 1 source; qwen3' "$out"
    grep -q '/help lists commands' "$out"
    shown | grep -qx '> ^D' # nothing stands behind it
    on_tty 0 cag-ask -q -n 2 qwen.kvc <<'EOF'
wait > 
pause 0.3
leave
EOF
    run ! grep -q '/help' "$out"
}

@test "a paste is one question, on as many lines as it has" {
    export XDG_STATE_HOME="$BATS_TEST_TMPDIR/state"
    on_tty 0 cag-ask --progress never --json -n 2 qwen.kvc <<'EOF'
wait > 
pause 0.3
type \x1b[200~one\r\rtwo\tx \xc3\xa4\rthree\r\x1b[201~
pause 0.3
type \r
wait }
pause 0.3
type a\x1b[Db\r
wait }
pause 0.3
leave
EOF
    shown | grep '^{' | jq -se 'map(.question) == ["one\n\ntwo\tx ä\nthree", "ba"]'
    # the terminal is asked for it while a question is typed, and only then
    [ "$(grep -o $'\x1b\\[?2004[hl]' "$out" | tail -n 1)" = $'\x1b[?2004l' ]
    [ "$(grep -c . "$XDG_STATE_HOME/cag/history")" = 2 ]
}

@test "questions are kept for the next time, privately, unless told not to" {
    export XDG_STATE_HOME="$BATS_TEST_TMPDIR/state"
    kept="$XDG_STATE_HOME/cag/history"
    typed() {
        printf 'wait > \npause 0.3\ntype %s\nwait }\npause 0.3\nleave\n' "$2" >script
        on_tty 0 cag-ask --progress never --json -n 2 $1 qwen.kvc <script
    }
    typed '' 'back\\slash?\r'
    [ "$(cat "$kept")" = 'back\\slash?' ]
    [ "$(stat -c %a "$kept")" = 600 ]
    [ "$(stat -c %a "$XDG_STATE_HOME/cag")" = 700 ]
    typed '' '\x1b[A\r'
    shown | grep '^{' | jq -e '.question == "back\\slash?"'
    typed --no-history 'secret\r'
    run ! grep secret "$kept"
    # one that others can write to is not believed
    chmod 666 "$kept"
    typed '' 'again\r'
    run ! grep again "$kept"
    # a long one is cut to its newer half
    chmod 600 "$kept"
    yes 'What is the meaning of all this?' | head -n 40000 >"$kept"
    typed '' 'last\r'
    [ "$(wc -c <"$kept")" -lt 600000 ]
    [ "$(tail -n 1 "$kept")" = last ]
    [ "$(stat -c %a "$kept")" = 600 ]
    rm "$kept"
    ln -s ../other "$kept"
    typed '' 'link\r'
    [ ! -e "$XDG_STATE_HOME/other" ]
}

@test "without a question a terminal is asked; Ctrl-D ends with 0" {
    on_tty 0 cag-ask -n 5 qwen.kvc <<'EOF'
wait > 
pause 0.3
send hello
wait > 
pause 0.3
send /stats
wait questions     1
leave
EOF
    tail -n 1 "$out" | grep -qx sane
    # only one of the two is a terminal: no prompt
    on_tty 64 sh -c 'cag-ask qwen.kvc >file' <<<"pause 0.5"
    grep -q 'no question' "$out"
    [ ! -s file ]
    on_tty 0 sh -c 'echo hello | cag-ask -n 5 qwen.kvc' <<<"pause 0.1"
    run ! grep -q '^> ' "$out"
}

@test "Ctrl-C at the prompt gives the line up, and says how to leave; a signal ends" {
    on_tty 0 cag-ask --json -n 5 qwen.kvc <<'EOF'
wait > 
pause 1
type who is this
pause 0.3
type \x03
pause 0.3
send Who leads?
wait "question":"Who leads?"
wait > 
pause 1
type \x03
wait Ctrl-D or /quit ends
leave
EOF
    tail -n 1 "$out" | grep -qx sane
    on_tty 143 sh -c '(sleep 1; kill -TERM $$) & exec cag-ask -n 5 qwen.kvc' <<<"pause 0.1"
    tail -n 1 "$out" | grep -qx sane
}

@test "Ctrl-C stops an answer, not the program" {
    [ -r "${CAG_DEMO_MODEL:-}" ] || skip "no demo model"
    cag-build -q -m "$CAG_DEMO_MODEL" -o demo.kvc kb.md
    on_tty 0 cag-ask -n 6000 demo.kvc <<'EOF'
wait > 
pause 0.3
send Write a very long story about Maya, with every detail of her life.
wait a
pause 0.5
type \x03
wait > 
pause 0.3
send /stats
wait questions     1
leave
EOF
    tail -n 1 "$out" | grep -qx sane
    # one question outside a conversation: the program ends by the signal
    on_tty 130 cag-ask -n 6000 demo.kvc "Write a very long story about Maya." <<'EOF'
wait a
pause 0.5
type \x03
EOF
    tail -n 1 "$out" | grep -qx sane
    # progress does not stand in front of the text, nor takes it away
    sed 's/\r\x1b\[K/\n/g' "$out" >shown
    grep -q 'prefill' shown
    run ! grep -qE 'prefill.*tokens[A-Za-z]' shown
}

@test "thoughts that nobody sees can be stopped too" {
    [ -r "${CAG_DEMO_MODEL:-}" ] || skip "no demo model"
    sed "s/{%- if enable_thinking is defined and enable_thinking is false -%}/{%- if enable_thinking is defined and enable_thinking -%}{{- '<think>\\\\n' -}}{%- else -%}/" \
        "$BATS_TEST_DIRNAME/../golden/chat/think.jinja" >opens.jinja
    cag-build -q -m "$CAG_DEMO_MODEL" --chat-template-file opens.jinja -o opens.kvc kb.md
    rc=0
    python3 - <<'EOF' || rc=$?
import signal, subprocess, sys, time
p = subprocess.Popen(["cag-ask", "--think", "-n", "6000", "opens.kvc", "Write a very long story about Maya, with every detail of her life."],
                     stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                     preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
time.sleep(1.5)
p.send_signal(signal.SIGINT)
out, err = p.communicate(timeout=10)
assert err == b"" and out.strip() == b"", (out, err)
sys.exit(-p.returncode)
EOF
    [ $rc = 2 ]
}

@test "control characters of an answer do not reach a terminal" {
    on_tty 0 cag-ask -q -n 60 --temperature 3 --seed 1 --progress=never --color=never qwen.kvc hello <<<"pause 0.2"
    run ! env LC_ALL=C grep -qP '[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]' "$out"
    cag-ask -q -n 60 --temperature 3 --seed 1 qwen.kvc hello >plain
    LC_ALL=C grep -qP '[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]' plain
}

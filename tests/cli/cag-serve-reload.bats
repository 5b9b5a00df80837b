#!/usr/bin/env bats
# cag-serve: caches that are rebuilt, damaged, stale or gone while it runs.

bats_require_minimum_version 1.5.0
load serve_helper

setup_file() { serve_setup_file; }
setup() {
    cd "$work"
    rm -rf live
    mkdir live
    printf 'The Sparrow-7 flies 47 minutes.\n' >live/kb.md
    build
}
teardown() { serve_teardown; }

build() { cag-build -q -m "$MODELS/qwen3" -o live/kb.kvc live/kb.md; }

# state NAME VALUE: wait until a cache is in that state (or "none")
state() {
    local i got
    for i in $(seq 600); do
        got=$(python3 "$http" "$base" 200 GET /v1/models |
            jq -r --arg n "$1" '([.data[] | select(.id == $n) | .cag.state] + ["none"])[0]')
        [ "$got" != "$2" ] || return 0
        sleep 0.05
    done
    echo "$1 is $got, expected $2"
    cat "$log"
    return 1
}

# content ID: wait until kb is that cache
content() {
    local i
    for i in $(seq 600); do
        [ "$(python3 "$http" "$base" 200 GET /v1/models/kb | jq -r .cag.content_id)" != "$1" ] || return 0
        sleep 0.05
    done
    cat "$log"
    return 1
}

@test "a rebuilt cache takes the place of the old one, whose answers are finished" {
    serve live llama.kvc
    cag-ask -q -n 6000 live/kb.kvc "How long?" >old 2>/dev/null
    python3 - "$base" "$(dirname "$http")" begun >got <<'END' &
import json, sys
sys.path.insert(0, sys.argv[2])
import http_ask
body = {"model": "kb", "max_tokens": 6000, "stream": True, "messages": [{"role": "user", "content": "How long?"}]}
events = http_ask.events(http_ask.request(sys.argv[1], "POST", "/v1/chat/completions", json.dumps(body)))
text = http_ask.text_of(next(events))
open(sys.argv[3], "w").close()
print(text + "".join(http_ask.text_of(e) for e in events))
END
    reader=$!
    within test -e begun
    printf 'The Sparrow-7 flies 52 minutes. Maya Sen leads it.\n' >live/kb.md
    build
    content "$(cag-inspect --digest live/kb.kvc)"
    chat 200 kb "How long?" '"max_tokens":20'
    cag-ask -q -n 20 live/kb.kvc "How long?" >want 2>/dev/null
    answer | cmp - want
    wait "$reader"
    cmp got old
    serve_end
    rm begun
}

@test "SIGHUP: keys are read again, a directory is looked through; a file that is gone" {
    printf 'a:%s:*\n' "$(printf one | sha256sum | cut -d' ' -f1)" >keys
    serve --keys keys live
    ask 200 GET /v1/models -H 'Authorization: Bearer one'
    ask 401 GET /v1/models -H 'Authorization: Bearer two'
    printf 'a:%s:*\n' "$(printf two | sha256sum | cut -d' ' -f1)" >keys
    cp live/kb.kvc live/more.kvc
    kill -HUP "$pid"
    within grep -q 'more: its new file is open' "$log"
    ask 401 GET /v1/models -H 'Authorization: Bearer one'
    ask 200 GET /v1/models/more -H 'Authorization: Bearer two'
    # a file of keys that is wrong changes nothing
    echo nonsense >keys
    kill -HUP "$pid"
    within grep -q 'the old ones stay' "$log"
    ask 200 GET /v1/models/more -H 'Authorization: Bearer two'
    rm live/more.kvc
    within grep -q 'more: its file is gone' "$log"
    ask 404 GET /v1/models/more -H 'Authorization: Bearer two'
    ask 404 POST /v1/chat/completions "$(body more x)" -H 'Authorization: Bearer two'
    ask 200 POST /v1/chat/completions "$(body kb x '"max_tokens":2')" -H 'Authorization: Bearer two'
}

@test "a damaged replacement is a 503; a good one is served; others never stop" {
    serve live llama.kvc
    cp live/kb.kvc good
    cp good bad
    size=$(stat -c %s bad)
    printf 'damaged!' | dd of=bad bs=1 seek=$((size - 3000)) conv=notrunc 2>/dev/null
    mv bad live/kb.kvc
    state kb failed
    chat 503 kb "How long?"
    error cache_failed
    chat 200 llama "How long?" '"max_tokens":3'
    grep -q 'kb: its file was replaced by one that cannot be used' "$log"
    mv good live/kb.kvc
    state kb ready
    chat 200 kb "How long?" '"max_tokens":3'
    # one that is written in place is given up at once, which is said once; who
    # looks after the files may be the first to see it, but hardly five times
    for try in 1 2 3 4 5; do
        cp live/kb.kvc good
        python3 - "$base" live/kb.kvc "$(dirname "$http")" <<'END'
import json, sys
sys.path.insert(0, sys.argv[3])
import http_ask
body = json.dumps({"model": "kb", "messages": [{"role": "user", "content": "How long?"}]})
with open(sys.argv[2], "r+b", 0) as f:
    f.seek(-3000, 2)
    f.write(b"damaged!")
    r = http_ask.request(sys.argv[1], "POST", "/v1/chat/completions", body)
text = r.read().decode()
assert r.status == 503 and "live" not in text, text
END
        for i in 1 2 3; do chat 503 kb "How long?"; done
        within grep -q 'kb: its file was replaced by one that cannot be used' "$log"
        ! grep -q 'cannot be used any more' "$log" || break
        mv good live/kb.kvc
        state kb ready
    done
    [ "$(grep -c '^cag-serve: warning: kb: it cannot be used any more: live/kb.kvc: was changed in place' "$log")" = 1 ]
    chat 200 llama "How long?" '"max_tokens":3'
}

@test "a cache cut or changed in place while it answers is given up; the server and others go on" {
    serve live llama.kvc
    cag-ask -q -n 1500 live/kb.kvc "How long?" >want 2>/dev/null
    cag-ask -q -n 20 llama.kvc "How long?" >other 2>/dev/null
    cp live/kb.kvc good
    # cut to its first page, to the middle of K and V, and by less than a page, or
    # written to; with one asking, and four
    for to in 4096 $(($(stat -c %s good) - 8192)) $(($(stat -c %s good) - 100)) write; do
        for n in 1 4; do
            python3 - "$base" live/kb.kvc "$to" "$n" "$(dirname "$http")" >got <<'END'
import json, os, sys, threading
sys.path.insert(0, sys.argv[5])
import http_ask
body = json.dumps({"model": "kb", "max_tokens": 1500, "stream": True, "messages": [{"role": "user", "content": "How long?"}]})
begun, texts, errors = threading.Semaphore(0), [], []
def one():
    text = ""
    for e in http_ask.events(http_ask.request(sys.argv[1], "POST", "/v1/chat/completions", body)):
        if "error" in e:
            errors.append(e["error"])
            break
        if not text and http_ask.text_of(e):
            begun.release()
        text += http_ask.text_of(e)
    texts.append(text)
t = [threading.Thread(target=one) for _ in range(int(sys.argv[4]))]
for x in t: x.start()
for x in t: begun.acquire()
if sys.argv[3] == "write":
    with open(sys.argv[2], "r+b", 0) as f:
        f.seek(-3000, 2)
        f.write(b"damaged!")
else:
    os.truncate(sys.argv[2], int(sys.argv[3]))
for x in t: x.join()
assert len(errors) == len(t), texts
assert all(e["code"] == "cache_damaged" for e in errors), errors
print(json.dumps(texts))
END
            jq -e --rawfile want want 'all(.[]; . as $t | length > 0 and ($t | length < ($want | length / 2)) and ($want | startswith($t)))' got
            chat 503 kb "How long?"
            chat 200 llama "How long?" '"max_tokens":20'
            answer | cmp - other
            kill -0 "$pid"
            cp good again
            mv again live/kb.kvc
            state kb ready
        done
    done
    grep -q '^cag-serve: warning: kb: it cannot be used any more: live/kb.kvc: was cut short in place' "$log"
    chat 200 kb "How long?" '"max_tokens":20'
    cag-ask -q -n 20 live/kb.kvc "How long?" 2>/dev/null | cmp - <(answer)
    serve_end
}

@test "another link to the model or the cache, or another mode, changes nothing" {
    cp -r "$MODELS/qwen3" own
    cag-build -q -m own -o own.kvc live/kb.md
    serve own.kvc
    chat 200 own "How long?" '"max_tokens":5'
    answer >want
    for f in own/model.safetensors own/config.json own.kvc; do
        ln "$f" link
        chmod 640 "$f"
        chat 200 own "How long?" '"max_tokens":5'
        answer | cmp - want
        rm link
        chat 200 own "How long?" '"max_tokens":5'
    done
    run ! grep -q 'cannot be used' "$log"
}

@test "sources that change make a cache stale, and fresh again" {
    serve live llama.kvc
    cp -p live/kb.md before.md
    printf 'changed\n' >live/kb.md
    kill -HUP "$pid"
    state kb stale
    chat 503 kb "How long?"
    error cache_stale
    run ! grep -qE 'live|cag-build' "$out"
    # who runs it is told which file it is, and what to do
    within grep -q '^cag-serve: warning: kb: live/kb.kvc: stale: .*kb.md.*; rebuild: cag-build ' "$log"
    chat 200 llama "How long?" '"max_tokens":3'
    jq -e '.cag.stale == false' "$out"
    cp -p before.md live/kb.md
    kill -HUP "$pid"
    state kb ready
    chat 200 kb "How long?" '"max_tokens":3'
    serve_end
    printf 'changed\n' >live/kb.md
    serve --stale warn live
    chat 200 kb "How long?" '"max_tokens":3'
    jq -e '.cag.stale == true' "$out"
    grep -q 'kb.kvc' "$log"
    ask 200 GET /v1/models/kb
    jq -e '.cag.state == "ready" and .cag.stale == true' "$out"
    serve_end
    # a stale cache alone is opened all the same: what it stands on may come back
    expect 1 cag-serve --listen 127.0.0.1:0 live
}

@test "ten caches of one model share its weights and threads" {
    serve llama.kvc
    one=$(ls "/proc/$pid/task" | wc -l)
    serve_end
    for i in $(seq 10); do ln -sf "$work/llama.kvc" "live/c$i.kvc"; done
    rm live/kb.kvc
    serve live
    [ "$(ls "/proc/$pid/task" | wc -l)" = "$one" ]
    for i in $(seq 10); do
        chat 200 c$i "How long?" '"max_tokens":3'
        answer
    done | sort -u >answers
    [ "$(wc -l <answers)" = "$(cag-ask -q -n 3 llama.kvc "How long?" 2>/dev/null | wc -l)" ]
}

#!/usr/bin/env bats
# cag-serve: who may ask, many at once, and how it ends.

bats_require_minimum_version 1.5.0
load serve_helper

setup_file() { serve_setup_file; }
setup() { cd "$work"; }
teardown() { serve_teardown; }

# figure NAME: its value in /metrics
figure() {
    python3 "$http" "$base" 200 GET /metrics "${auth[@]}" | sed -n "s/^cag_$1 //p"
}

# becomes VALUE NAME: wait until a figure has that value
becomes() {
    local i
    for i in $(seq 600); do
        [ "$(figure "$2")" != "$1" ] || return 0
        sleep 0.05
    done
    echo "$2 is $(figure "$2"), expected $1"
    return 1
}

@test "what no client should send: refused, and others are served" {
    serve --idle 5 --max-connections 300 qwen.kvc
    CAG_TEST_CONNECTIONS=600 python3 "$BATS_TEST_DIRNAME/../tools/serve_attack.py" "$base" qwen "$pid" >attacks ||
        { cat attacks; return 1; }
    becomes 0 questions_running
    becomes 0 questions_waiting
    serve_end
    [ "$(grep -cv '^cag-serve: \(listening\|ending\)' "$log")" = 0 ]
}

@test "64 at once, whole and as streams, on two caches: each has its own answer" {
    serve qwen.kvc llama.kvc
    for i in $(seq 16); do
        for cache in qwen llama; do
            cag-ask -q --json -n $((i + 8)) $cache.kvc "Question $i: who?" 2>/dev/null
        done
    done | jq -c '.answer' >want
    python3 - "$base" want "$(dirname "$http")" <<'END'
import json, sys, threading
sys.path.insert(0, sys.argv[3])
import http_ask
want = [json.loads(l) for l in open(sys.argv[2])]
wrong = []
def one(i, stream):
    body = {"model": ["qwen", "llama"][i % 2], "max_tokens": i // 2 + 9, "stream": stream,
            "messages": [{"role": "user", "content": "Question %d: who?" % (i // 2 + 1)}]}
    r = http_ask.request(sys.argv[1], "POST", "/v1/chat/completions", json.dumps(body))
    if stream:
        got = "".join(http_ask.text_of(e) for e in http_ask.events(r))
    else:
        got = json.loads(r.read())["choices"][0]["message"]["content"]
    if got != want[i]:
        wrong.append((i, stream, got, want[i]))
t = [threading.Thread(target=one, args=(i, s)) for i in range(len(want)) for s in (False, True)]
for x in t: x.start()
for x in t: x.join()
sys.exit("%d differ: %s" % (len(wrong), wrong[:2]) if wrong else 0)
END
    [ "$(figure answers_total)" = 64 ]
    [ "$(figure 'caches{state="ready"}')" = 2 ]
}

@test "a client that leaves ends its question" {
    serve -j 1 qwen.kvc
    python3 - "$base" "$(dirname "$http")" <<'END'
import json, sys, time
sys.path.insert(0, sys.argv[2])
import http_ask
body = json.dumps({"model": "qwen", "max_tokens": 7900, "stream": True,
                   "messages": [{"role": "user", "content": "How long?"}]})
def ask():
    c = http_ask.connect(sys.argv[1])
    c.request("POST", "/v1/chat/completions", body)
    return c
first = ask()
r = first.getresponse()
r.readline()                        # it is being answered
waiting = [ask() for _ in range(5)] # and these wait for it
for c in waiting:
    c.close()
r.close()
first.close()
END
    becomes 6 answers_cancelled_total
    becomes 0 questions_running
    becomes 0 questions_waiting
    chat 200 qwen "How long?" '"max_tokens":3'
}

@test "a client that leaves is noticed though nothing is sent to it" {
    serve -j 1 qwen.kvc
    # each wants a whole answer: one that is being made, and those that wait for
    # it; a second request may follow on the connection, which is not read yet
    python3 - "$base" "$(dirname "$http")" <<'END'
import json, sys
sys.path.insert(0, sys.argv[2])
import http_ask
body = json.dumps({"model": "qwen", "max_tokens": 7900,
                   "messages": [{"role": "user", "content": "How long?"}]})
asked = [http_ask.connect(sys.argv[1]) for _ in range(6)]
for c in asked:
    c.request("POST", "/v1/chat/completions", body)
asked[3].sock.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
r = http_ask.request(sys.argv[1], "GET", "/metrics")
while b"cag_questions_running 1\n" not in r.read():
    r = http_ask.request(sys.argv[1], "GET", "/metrics")
for c in reversed(asked):
    c.close()
END
    becomes 6 answers_cancelled_total
    [ "$(figure answers_total)" = 0 ]
    becomes 0 questions_running
    becomes 0 questions_waiting
    chat 200 qwen "How long?" '"max_tokens":3'
}

@test "requests that follow each other on a connection are answered in turn" {
    serve -j 1 qwen.kvc
    python3 - "$base" <<'END'
import json, socket, sys
host, port = sys.argv[1].split("//")[1].split(":")
body = json.dumps({"model": "qwen", "max_tokens": 5, "messages": [{"role": "user", "content": "How long?"}]})
ask = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
s = socket.create_connection((host, int(port)))
s.sendall((ask + "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" + ask).encode())
s.settimeout(60)
got = b""
while got.count(b"HTTP/1.1 200") < 3 or got.count(b'"choices"') < 2:
    data = s.recv(65536)
    assert data, got
    got += data
assert got.index(b'"choices"') < got.index(b'"status"') < got.rindex(b'"choices"'), got
END
    [ "$(figure answers_total)" = 2 ]
}

@test "clients that leave cost no memory" {
    # no session is kept: one is 24 MB, and whether one is depends on when the client left
    serve --sessions 0 qwen.kvc
    leave() {
        python3 - "$base" "$(dirname "$http")" "$1" <<'END'
import json, sys, time
sys.path.insert(0, sys.argv[2])
import http_ask
body = json.dumps({"model": "qwen", "max_tokens": 7900, "stream": True, "user": "x" * 100000,
                   "messages": [{"role": "user", "content": "How long?"}]})
def running():
    c = http_ask.connect(sys.argv[1])
    c.request("GET", "/metrics")
    text = c.getresponse().read().decode()
    c.close()
    return "\ncag_questions_running 0\n" not in text
# one after the other: what many at once take stays with malloc
for _ in range(int(sys.argv[3])):
    c = http_ask.connect(sys.argv[1])
    c.request("POST", "/v1/chat/completions", body)
    r = c.getresponse()
    r.readline()
    r.close()
    c.close()
    while running():
        time.sleep(0.01)
END
    }
    held() { awk '/^RssAnon/ { print $2 }' "/proc/$pid/status"; }
    leave 10
    before=$(held)
    leave 60
    # each that were kept would be over 100 KB
    [ $(($(held) - before)) -lt 4000 ] || { echo "$before, then $(held) KB"; return 1; }
}

@test "a full queue is a 429 that says when to come again; what was taken is answered" {
    serve -j 1 --max-queue 2 qwen.kvc
    python3 - "$base" "$(dirname "$http")" <<'END'
import json, sys
sys.path.insert(0, sys.argv[2])
import http_ask
def ask(n, stream=False):
    c = http_ask.connect(sys.argv[1])
    c.request("POST", "/v1/chat/completions", json.dumps({"model": "qwen", "max_tokens": n, "stream": stream,
              "messages": [{"role": "user", "content": "How long?"}]}))
    return c
first = ask(7900, True)
r = first.getresponse()
r.readline()
asked = [ask(3) for _ in range(6)]
codes, texts = [], set()
r.close(); first.close()
for c in asked:
    reply = c.getresponse()
    body = json.loads(reply.read())
    codes.append(reply.status)
    if reply.status == 429:
        assert reply.headers["Retry-After"], reply.headers
        assert body["error"]["code"] == "queue_full", body
    else:
        texts.add(body["choices"][0]["message"]["content"])
assert sorted(codes) == [200] * 2 + [429] * 4 or 429 in codes, codes
assert set(codes) <= {200, 429} and len(texts) == 1, (codes, texts)
END
}

@test "SIGTERM: answers that have begun are finished, then it ends with 0" {
    serve qwen.kvc
    cag-ask -q -n 3000 qwen.kvc "How long?" >want 2>/dev/null
    python3 - "$base" "$(dirname "$http")" "$pid" >got <<'END'
import json, os, signal, sys
sys.path.insert(0, sys.argv[2])
import http_ask
body = {"model": "qwen", "max_tokens": 3000, "stream": True, "messages": [{"role": "user", "content": "How long?"}]}
r = http_ask.request(sys.argv[1], "POST", "/v1/chat/completions", json.dumps(body))
events = http_ask.events(r)
text = http_ask.text_of(next(events))
os.kill(int(sys.argv[3]), signal.SIGTERM)
print(text + "".join(http_ask.text_of(e) for e in events))
END
    cmp got want
    wait "$pid"
    pid=
    run ! python3 "$http" "$base" 200 GET /health
}

@test "a question longer than the idle time is answered; a silent connection is closed" {
    serve --idle 1 qwen.kvc
    chat 200 qwen "How long?" '"max_tokens":7900'
    python3 - "$base" <<'END'
import socket, sys
host, port = sys.argv[1].split("//")[1].split(":")
for begin in (b"", b"GET /health HTTP/1.1\r\nHost: local", b"POST /v1/completions HTTP/1.1\r\n"
              b"Host: localhost\r\nContent-Length: 100\r\n\r\nhalf"):
    s = socket.create_connection((host, int(port)), timeout=60)
    s.sendall(begin)
    while s.recv(4096):
        pass
END
}

@test "a stream that waits is told so; its answer, or error, comes all the same" {
    serve -j 1 --idle 4 qwen.kvc
    cag-ask -q -n 9 qwen.kvc "Who leads?" >want 2>/dev/null
    python3 - "$base" "$(dirname "$http")" want <<'END'
import json, sys
sys.path.insert(0, sys.argv[2])
import http_ask
def ask(question, n, stream, path="chat/completions"):
    c = http_ask.connect(sys.argv[1])
    body = {"model": "qwen", "max_tokens": n, "stream": stream, "messages": [{"role": "user", "content": question}]}
    if path == "responses":
        body = {"model": "qwen", "max_output_tokens": n, "stream": stream, "input": question}
    c.request("POST", "/v1/" + path, json.dumps(body))
    return c
# enough of them that two seconds pass on a quick machine, too
before = [ask("How long is %d?" % i, 7900, False) for i in range(12)]
chat, response, wrong = ask("Who leads?", 9, True), ask("Who leads?", 9, True, "responses"), ask("x " * 9000, 9, True)
lines = [l.decode().rstrip("\n") for l in chat.getresponse()]
assert lines[0] == ": waiting" and lines[-2] == "data: [DONE]", lines
assert sum(l == ": waiting" for l in lines) > 1, lines
events = [json.loads(l[6:]) for l in lines if l.startswith("data: {")]
assert "".join(map(http_ask.text_of, events)) + "\n" == open(sys.argv[3]).read(), events
lines = response.getresponse().read().decode()
assert lines.startswith(": waiting") and "event: response.created" in lines, lines
assert "event: response.incomplete" in lines or "event: response.completed" in lines, lines
lines = wrong.getresponse().read().decode()
assert lines.startswith(": waiting") and "context_length_exceeded" in lines, lines
END
}

@test "keys: each asks its own caches; others are not there" {
    for k in alice bob root; do printf '%s' "secret-$k" | sha256sum | cut -d' ' -f1 >$k.sum; done
    {
        echo "# who : digest : caches"
        echo "alice:$(cat alice.sum):qwen"
        echo "bob:$(cat bob.sum):llama,qwen"
        echo "root:$(cat root.sum):*"
    } >keys
    serve --keys keys qwen.kvc llama.kvc
    chat 401 qwen "How long?"
    error missing_api_key
    for bad in secret-alic secret-alice2 "" "secret-alice secret-bob"; do
        ask 401 GET /v1/models -H "Authorization: Bearer $bad"
    done
    error invalid_api_key
    ask 401 GET /v1/models -H "Authorization: Basic c2VjcmV0"
    ask 200 GET /health
    ask 200 GET /v1/models -H "Authorization: Bearer secret-alice"
    jq -e '[.data[].id] == ["qwen"]' "$out"
    ask 200 GET /v1/models -H "Authorization: bearer secret-bob"
    jq -e '[.data[].id] == ["qwen", "llama"]' "$out"
    ask 200 POST /v1/chat/completions "$(body qwen x '"max_tokens":2')" -H "Authorization: Bearer secret-alice"
    # a cache one may not see is one that is not there
    ask 404 POST /v1/chat/completions "$(body llama x)" -H "Authorization: Bearer secret-alice"
    sed 's/llama/NAME/' "$out" >hidden
    ask 404 POST /v1/chat/completions "$(body nothing x)" -H "Authorization: Bearer secret-alice"
    sed 's/nothing/NAME/' "$out" | cmp - hidden
    ask 404 GET /v1/models/llama -H "Authorization: Bearer secret-alice"
    ask 404 GET /metrics -H "Authorization: Bearer secret-alice"
    ask 200 GET /metrics -H "Authorization: Bearer secret-root"
    serve_end
    while IFS='|' read -r line what; do
        printf 'ok:%s:qwen\n%s\n' "$(cat alice.sum)" "$line" >bad
        expect 78 cag-serve --listen 127.0.0.1:0 --keys bad qwen.kvc
        grep -q "^cag-serve: bad:2: .*$what" "$err"
    done <<END
x|64 digits
x:$(tr a-f A-F <alice.sum):qwen|lower-case hex
:$(cat alice.sum):qwen|no id
x:$(cat alice.sum)|no cache
x:$(cat alice.sum):|no cache
x:$(cat alice.sum):a,,b|no cache
ok:$(cat alice.sum):qwen|given before
END
    expect 66 cag-serve --listen 127.0.0.1:0 --keys nowhere qwen.kvc
    # whoever can write the keys can let himself in; a FIFO would be waited for
    printf 'ok:%s:qwen\n' "$(cat alice.sum)" >good
    chmod 666 good
    expect 69 timeout 20 cag-serve --listen 127.0.0.1:0 --keys good qwen.kvc
    grep -q "good: may be written by other users" "$err"
    mkfifo pipe
    expect 69 timeout 20 cag-serve --listen 127.0.0.1:0 --keys pipe qwen.kvc
}

@test "a conversation is not read again, and not for another key" {
    for k in alice bob; do printf '%s:%s:*\n' $k "$(printf "secret-$k" | sha256sum | cut -d' ' -f1)"; done >keys
    printf 'How long?\nWho leads?\nAnd why?\n' | cag-ask -q --json --chat -n 40 qwen.kvc >rows 2>/dev/null
    cached=$(jq -s '.[0].usage.cached_tokens' rows)
    # turn KEY N: tokens that were not read again
    turn() {
        jq -cs --argjson n "$2" '{model: "qwen", max_tokens: 40, messages:
            ([.[:$n][] | {role: "user", content: .question}, {role: "assistant", content: .answer}] | .[:-1])}' \
            rows >request
        ask 200 POST /v1/chat/completions @request -H "Authorization: Bearer secret-$1"
        jq -s --argjson n "$2" '.[$n - 1].answer' rows >want
        jq '.choices[0].message.content' "$out" | cmp - want
        more=$(jq --argjson c "$cached" '.usage.prompt_tokens_details.cached_tokens - $c' "$out")
    }
    serve --keys keys qwen.kvc
    turn alice 1; [ "$more" = 0 ]
    turn alice 2; two=$more; [ "$two" -gt 0 ]
    turn bob 1;   [ "$more" = 0 ]
    turn alice 3; [ "$more" -gt $((two + 40)) ]
    turn bob 3;   [ "$more" -le "$two" ]
    auth=(-H "Authorization: Bearer secret-bob")
    [ "$(figure sessions_kept)" = 2 ]
    [ "$(figure reused_tokens_total)" -gt 0 ]
    serve_end
    serve --keys keys --sessions 0 qwen.kvc
    turn alice 1
    turn alice 2; [ "$more" = 0 ]
    serve_end
}

@test "examples/systemd and examples/nginx are what cag-serve and they take" {
    examples="$BATS_TEST_DIRNAME/../../examples"
    line=$(sed -n 's/^ExecStart=//p' "$examples/systemd/cag-serve.service")
    mkdir -p kb
    : >keys
    line=${line//'${CREDENTIALS_DIRECTORY}'/.}
    # shellcheck disable=SC2086
    expect 0 ${line//\/srv/.} --print-config
    grep -q '^keys = ./keys  (option --keys)' "$out"
    if systemd-analyze --version >/dev/null 2>&1; then
        cp "$examples"/systemd/* .
        sed -i "s|^ExecStart=cag-serve|ExecStart=$(command -v cag-serve)|; s|^ExecReload=kill|ExecReload=/bin/kill|" cag-serve.service
        systemd-analyze verify --man=no ./cag-serve.service ./cag-serve.socket 2>&1 | tee verify
        run ! grep -E 'cag-serve\.(service|socket):' verify
    fi
    # both speak of the same socket
    socket=$(sed -n 's/^ListenStream=//p' "$examples/systemd/cag-serve.socket")
    grep -qF "proxy_pass http://unix:$socket:;" "$examples/nginx/cag.conf"
    if command -v nginx >/dev/null && command -v openssl >/dev/null; then
        openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=kb.example -keyout key -out pem 2>/dev/null
        sed "s|/etc/ssl/kb.example.pem|$PWD/pem|; s|/etc/ssl/private/kb.example.key|$PWD/key|" \
            "$examples/nginx/cag.conf" >cag.conf
        printf 'pid %s/pid; events {} http { include %s/cag.conf; }\n' "$PWD" "$PWD" >nginx.conf
        nginx -t -e stderr -c "$PWD/nginx.conf" -p "$PWD"
    fi
}

@test "Host and Origin: names that are not ours, pages of others" {
    serve --host kb.example --cors https://wiki.example qwen.kvc
    for host in localhost localhost:9 127.0.0.1 127.0.0.1:80 '[::1]:9' kb.example KB.example:443; do
        ask 200 GET /health -H "Host: $host"
    done
    for host in evil.example localhost.evil.example kb.example.evil; do
        ask 403 GET /health -H "Host: $host"
        error host_not_allowed
    done
    for host in '' '[::1' '[::1]x' localhost: localhost:1:2 localhost:+1; do
        ask 400 GET /health -H "Host: $host"
        error bad_request
    done
    for origin in http://evil.example null http://localhost.evil.example http://kb.example https://wiki.example.evil; do
        ask 403 POST /v1/chat/completions "$(body qwen x)" -H "Origin: $origin"
        error origin_not_allowed
    done
    ask 200 GET /health -H 'Host: kb.example' -H 'Origin: https://kb.example' --head
    run ! grep -qi 'access-control' "$err"
    ask 200 GET /health -H 'Origin: https://wiki.example' --head
    grep -qi '^access-control-allow-origin: https://wiki.example' "$err"
    run ! grep -qi 'allow-credentials' "$err"
    ask 204 OPTIONS /v1/chat/completions -H 'Origin: https://wiki.example' --head
    grep -qi '^access-control-allow-headers: .*authorization' "$err"
    ask 403 OPTIONS /v1/chat/completions -H 'Origin: https://evil.example' --head
    run ! grep -qi 'access-control' "$err"
}

@test "nothing is written of questions, but with --log; request ids" {
    serve qwen.kvc
    ask 200 POST /v1/chat/completions "$(body qwen "a secret question" '"max_tokens":3')" -H "X-Request-Id: my-id.7" --head
    grep -q '^X-Request-Id: my-id.7' "$err"
    jq -e '.id == "chatcmpl-my-id.7"' "$out"
    ask 200 GET /health -H "X-Request-Id: not ours" --head
    grep -qE '^X-Request-Id: [0-9a-f]{24}' "$err"
    serve_end
    run ! grep -q secret "$log"
    serve --log requests.jsonl qwen.kvc
    chat 200 qwen "a secret question" '"max_tokens":3'
    answer >want
    chat 404 nothing "x"
    serve_end
    jq -se '(.[0].question == "a secret question") and .[0].cache == "qwen" and .[0].status == 200 and
        .[1].status == 404' requests.jsonl
    jq -rs '.[0].answer' requests.jsonl | cmp - want
    expect 73 cag-serve --listen 127.0.0.1:0 --log /nowhere/log qwen.kvc
}

@test "the log is its owner's; what cannot be written or opened again is said" {
    serve --log mine.jsonl qwen.kvc
    [ "$(stat -c %a mine.jsonl)" = 600 ]
    mv mine.jsonl old.jsonl
    mkfifo mine.jsonl
    kill -HUP "$pid"
    within grep -q 'the old one stays open' "$log"
    chat 200 qwen x '"max_tokens":1'
    within jq -se "map(select(.cache == \"qwen\")) | length == 1" old.jsonl
    rm mine.jsonl
    ln -s /dev/full mine.jsonl
    kill -HUP "$pid"
    sleep 1
    for i in 1 2; do chat 200 qwen x '"max_tokens":1'; done
    serve_end
    [ "$(grep -c 'cannot write the log' "$log")" = 1 ]
}

#!/usr/bin/env bats
# cag-serve: its answers are cag-ask's, and what it refuses it names.

bats_require_minimum_version 1.5.0
load serve_helper

setup_file() { serve_setup_file; }
setup() { cd "$work"; }
teardown() { serve_teardown; }

# same CACHE QUESTION CAG-ASK-OPTIONS -- MEMBER...: whole and as a stream
same() {
    local cache=$1 question=$2 options=()
    shift 2
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    cag-ask -q "${options[@]}" "$cache.kvc" "$question" >want 2>/dev/null
    chat 200 "$cache" "$question" "$@"
    answer | cmp - want
    ask 200 POST /v1/chat/completions "$(body "$cache" "$question" '"stream":true' "$@")" --stream
    cmp "$out" want
}

@test "an answer is cag-ask's, byte for byte, whole and as a stream" {
    serve qwen.kvc llama.kvc
    for cache in qwen llama; do
        same $cache "How long does it fly?" -n 30 -- '"max_tokens":30'
        same $cache "Wer führt Atish? 龍" -n 40 -- '"max_completion_tokens":40'
        same $cache "How long?" -n 30 --temperature 0.9 --seed 7 --top-p 0.8 --top-k 50 -- \
            '"max_tokens":30' '"temperature":0.9' '"seed":7' '"top_p":0.8' '"top_k":50'
        same $cache "How long?" -n 30 --temperature 1.5 --seed 1 --min-p 0.05 -- \
            '"max_tokens":30' '"temperature":1.5' '"seed":1' '"min_p":0.05'
        same $cache "  blanks around  " -n 9 -- '"max_tokens":9' '"user":"x"' '"metadata":{"a":"b"}'
    done
    # without a number, as many tokens as cag-ask gives
    same qwen "How long?" --
    serve_end
}

@test "stop strings, usage and the reason of the end are cag-ask's" {
    serve qwen.kvc
    cag-ask -q --json -n 30 qwen.kvc "How long?" >row 2>/dev/null
    stop=$(jq -r '.answer[-8:-5]' row)
    # first: asked again, the question is taken from the session that was kept
    chat 200 qwen "How long?" '"max_tokens":30'
    jq -se '.[0].usage as $a | .[1].usage as $b |
        $a.prompt_tokens == $b.prompt_tokens and
        $a.generated_tokens == $b.completion_tokens and
        $a.cached_tokens == $b.prompt_tokens_details.cached_tokens and
        $b.total_tokens == $b.prompt_tokens + $b.completion_tokens and
        .[0].finish_reason == .[1].choices[0].finish_reason and
        .[0].content_id == .[1].cag.content_id and .[0].options == .[1].cag.options' row "$out"
    jq -e '.object == "chat.completion" and (.id | startswith("chatcmpl-")) and .model == "qwen" and
        .choices[0].message.role == "assistant"' "$out"
    ask 200 POST /v1/chat/completions \
        "$(body qwen "How long?" '"max_tokens":30' '"stream":true' '"stream_options":{"include_usage":true}')" --stream
    jq -se '.[0].usage.prompt_tokens == .[2].prompt_tokens and .[1].content_id == .[0].content_id' row "$err"
    same qwen "How long?" -n 30 --stop "$stop" -- '"max_tokens":30' "\"stop\":$(jq -cn --arg s "$stop" '[$s]')"
}

@test "events of a stream have the shape that clients read" {
    serve qwen.kvc
    ask 200 POST /v1/chat/completions "$(body qwen "How long?" '"max_tokens":9' '"stream":true')" --head
    grep -qi '^content-type: text/event-stream' "$err"
    grep -qi '^x-request-id: ' "$err"
    [ "$(tail -n 2 "$out" | head -n 1)" = "data: [DONE]" ]
    grep '^data: {' "$out" | sed 's/^data: //' | jq -se '
        all(.[]; .object == "chat.completion.chunk" and .model == "qwen" and (.choices | length) == 1) and
        .[0].choices[0].delta == {role: "assistant", content: ""} and
        all(.[:-1][]; .choices[0].finish_reason == null) and
        .[-1].choices[0] == {index: 0, delta: {}, logprobs: null, finish_reason: "length"} and
        ([.[].id] | unique | length) == 1 and (.[-1].cag.content_id | length) == 64'
}

@test "responses: the same answer in their shape, whole and as numbered events" {
    serve qwen.kvc
    chat 200 qwen "How long?" '"max_tokens":9'
    cp "$out" chat.json
    ask 200 POST /v1/responses '{"model":"qwen","input":"How long?","max_output_tokens":9,"store":false,
        "text":{"format":{"type":"text"}},"truncation":"disabled","tools":[],"include":[],"reasoning":null}'
    cp "$out" whole.json
    jq -se '.[0] as $c | .[1] | .object == "response" and .status == "incomplete" and
        .incomplete_details.reason == "max_output_tokens" and .error == null and (.id | startswith("resp_")) and
        .output[0].type == "message" and .output[0].role == "assistant" and
        .output[0].content[0].type == "output_text" and
        .output[0].content[0].text == $c.choices[0].message.content and
        .usage.input_tokens == $c.usage.prompt_tokens and .usage.output_tokens == 9 and
        .usage.total_tokens == $c.usage.total_tokens and .usage.input_tokens_details.cached_tokens > 0 and
        .cag.content_id == $c.cag.content_id' chat.json whole.json
    ask 200 POST /v1/responses '{"model":"qwen","input":"How long?","max_output_tokens":9,"stream":true}' --head
    grep -qi '^content-type: text/event-stream' "$err"
    grep '^data: ' "$out" | sed 's/^data: //' | jq -s . >events.json
    [ "$(grep '^event: ' "$out" | cut -c8- | paste -sd' ')" = "$(jq -r '.[].type' events.json | paste -sd' ')" ]
    jq -e --slurpfile w whole.json '[.[].sequence_number] == [range(length)] and
        (map(.type) | unique_by(.)) == (["response.created", "response.in_progress", "response.output_item.added",
            "response.content_part.added", "response.output_text.delta", "response.output_text.done",
            "response.content_part.done", "response.output_item.done", "response.incomplete"] | sort) and
        (map(select(.type == "response.output_text.delta").delta) | add) == $w[0].output[0].content[0].text and
        (map(select(.item_id).item_id) | unique | length) == 1 and
        .[-1].response.output[0].content == $w[0].output[0].content and
        .[-1].response.usage.output_tokens == 9' events.json
    # a conversation, in the parts that these clients send
    ask 200 POST /v1/chat/completions '{"model":"qwen","max_tokens":8,"messages":[{"role":"user","content":"Who?"},
        {"role":"assistant","content":"Maya."},{"role":"user","content":"Why?"}]}'
    cp "$out" chat.json
    ask 200 POST /v1/responses '{"model":"qwen","max_output_tokens":8,"input":[
        {"type":"message","role":"user","content":[{"type":"input_text","text":"Who?"}]},
        {"type":"message","id":"msg_1","status":"completed","role":"assistant",
         "content":[{"type":"output_text","text":"Maya.","annotations":[]}]},
        {"role":"user","content":"Why?"}]}'
    [ "$(jq -r '.output[0].content[0].text' "$out")" = "$(jq -r '.choices[0].message.content' chat.json)" ]
    # what there is not is refused by its name
    for bad in 'previous_response_id="resp_1"' 'conversation="c"' 'store=true' 'background=true' \
        'reasoning={"effort":"low"}' 'text={"format":{"type":"json_schema","name":"x","schema":{}}}' \
        'tools=[{"type":"web_search"}]' 'truncation="auto"' 'include=["a"]' 'instructions="Be brief."' \
        'messages=[]' 'max_tokens=3'; do
        ask 400 POST /v1/responses "{\"model\":\"qwen\",\"input\":\"a\",\"${bad%%=*}\":${bad#*=}}"
        jq -e --arg p "${bad%%=*}" '.error.param == $p' "$out"
    done
    ask 400 POST /v1/responses '{"model":"qwen"}'
    jq -e '.error.param == "input"' "$out"
    ask 400 POST /v1/responses '{"model":"qwen","input":[{"type":"function_call_output","output":"x"}]}'
    jq -e '.error.param == "input[0]"' "$out"
    ask 405 GET /v1/responses
    serve_end
    serve --system prepend qwen.kvc
    ask 200 POST /v1/responses '{"model":"qwen","input":"Who?","instructions":"Be brief.","max_output_tokens":8}'
    cp "$out" whole.json
    ask 200 POST /v1/chat/completions '{"model":"qwen","max_tokens":8,"messages":[
        {"role":"system","content":"Be brief."},{"role":"user","content":"Who?"}]}'
    [ "$(jq -r '.choices[0].message.content' "$out")" = "$(jq -r '.output[0].content[0].text' whole.json)" ]
}

@test "completions: the prompt is the question" {
    serve qwen.kvc
    cag-ask -q -n 20 qwen.kvc "How long?" >want 2>/dev/null
    ask 200 POST /v1/completions '{"model":"qwen","prompt":"How long?","max_tokens":20}'
    jq -r '.choices[0].text' "$out" | cmp - want
    jq -e '.object == "text_completion" and .choices[0].finish_reason == "length"' "$out"
    ask 200 POST /v1/completions '{"model":"qwen","prompt":["How long?"],"max_tokens":20,"stream":true}' --stream
    cmp "$out" want
    ask 400 POST /v1/completions '{"model":"qwen","prompt":["a","b"]}'
    error invalid_value prompt
    ask 400 POST /v1/completions '{"model":"qwen","prompt":"a","messages":[]}'
    error unknown_parameter messages
}

@test "a list of messages is answered as cag-ask --chat answers its turns" {
    serve qwen.kvc llama.kvc
    for cache in qwen llama; do
        printf 'How long?\nWho leads?\nAnd why?\n' |
            cag-ask -q --json --chat -n 12 $cache.kvc >rows 2>/dev/null
        for n in 1 2 3; do
            jq -cs --argjson n $n --arg m $cache '{model: $m, max_tokens: 12, messages:
                ([.[:$n][] | {role: "user", content: .question}, {role: "assistant", content: .answer}] | .[:-1])}' \
                rows >request
            ask 200 POST /v1/chat/completions @request
            jq -s --argjson n $n '.[$n - 1].answer' rows >want
            jq '.choices[0].message.content' "$out" | cmp - want
        done
    done
}

@test "evidence is what cag-ask --evidence finds; an answer is withheld as there" {
    serve qwen.kvc
    cag-ask -q --json --evidence -n 20 qwen.kvc "How long does the Sparrow-7 fly?" >row 2>/dev/null
    chat 200 qwen "How long does the Sparrow-7 fly?" '"max_tokens":20'
    jq -se '[.[0], .[1].cag | {evidence, quotes, unsupported, support, support_score, refused}] |
        .[0] == .[1] and (.[0].evidence | length) > 0' row "$out"
    chat 200 qwen "How long?" '"max_tokens":20' '"cag":{"evidence":false}'
    jq -e '.cag | has("evidence") | not' "$out"
    ask 200 POST /v1/chat/completions \
        "$(body qwen "How long?" '"max_tokens":20' '"stream":true' '"cag":{"require_evidence":"strong"}')" --stream
    cag-ask -q --json --require-evidence strong -n 20 qwen.kvc "How long?" >row 2>/dev/null || [ $? = 3 ]
    jq -r .answer row | cmp - "$out"
    jq -se '.[0].withheld == .[1].withheld and .[1].by == "evidence"' row "$err"
    for focus in mask reread auto; do
        cag-ask -q --json --focus $focus -n 20 qwen.kvc "How long does the Sparrow-7 fly?" >row 2>/dev/null
        chat 200 qwen "How long does the Sparrow-7 fly?" '"max_tokens":20' "\"cag\":{\"focus\":\"$focus\"}"
        jq -se '.[0].answer == .[1].choices[0].message.content' row "$out"
    done
}

@test "what is not supported is a 400 that names the member" {
    serve qwen.kvc
    while read -r member param code; do
        chat 400 qwen "How long?" "$member"
        error "$code" "$param"
    done <<'END'
"tools":[{"type":"function"}] tools unsupported_parameter
"tool_choice":"required" tool_choice unsupported_parameter
"logit_bias":{"5":1} logit_bias unsupported_parameter
"presence_penalty":0.5 presence_penalty unsupported_parameter
"response_format":{"type":"json_object"} response_format unsupported_parameter
"reasoning_effort":"low" reasoning_effort unsupported_parameter
"store":true store unsupported_parameter
"nonsense":1 nonsense unknown_parameter
"prompt":"x" prompt unknown_parameter
"n":2 n invalid_value
"max_tokens":0 max_tokens invalid_value
"max_tokens":"5" max_tokens invalid_value
"max_tokens":1e30 max_tokens invalid_value
"temperature":-1 temperature invalid_value
"temperature":"hot" temperature invalid_value
"top_p":0 top_p invalid_value
"top_p":1.5 top_p invalid_value
"seed":-1 seed invalid_value
"seed":1.5 seed invalid_value
"stop":[""] stop invalid_value
"stop":7 stop invalid_value
"stop":["a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a"] stop invalid_value
"stream":1 stream invalid_value
"stream_options":{"x":true} stream_options unsupported_parameter
"model":7 model invalid_value
"cag":{"evidence":1} cag.evidence invalid_value
"cag":{"require_evidence":"much"} cag.require_evidence invalid_value
"cag":{"focus":"sharp"} cag.focus invalid_value
"cag":{"x":1} cag unknown_parameter
END
    # what asks for nothing is nothing
    chat 200 qwen "How long?" '"max_tokens":3' '"tools":[]' '"tool_choice":"none"' '"logit_bias":null' \
        '"presence_penalty":0' '"response_format":{"type":"text"}' '"n":1' '"store":false' '"stop":null'
}

@test "messages: roles, parts and order are checked" {
    serve qwen.kvc
    while IFS='|' read -r messages param code; do
        ask 400 POST /v1/chat/completions "{\"model\":\"qwen\",\"messages\":$messages}"
        error "$code" "$param"
    done <<'END'
[]|messages|invalid_value
{}|messages|invalid_value
[7]|messages[0].role|invalid_value
[{"role":"user"}]|messages[0].content|invalid_value
[{"role":"tool","content":"x"}]|messages[0].role|invalid_value
[{"role":"assistant","content":"x"}]|messages[0].role|invalid_value
[{"role":"user","content":"a"},{"role":"user","content":"b"}]|messages[1].role|invalid_value
[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]|messages[1].role|invalid_value
[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]|messages[0].content|unsupported_content
[{"role":"user","content":"a"},{"role":"assistant","content":"b","tool_calls":[{}]},{"role":"user","content":"c"}]|messages[1]|unsupported_content
[{"role":"system","content":"x"},{"role":"user","content":"a"}]|messages[0].role|unsupported_system_message
END
    ask 400 POST /v1/chat/completions '{"model":"qwen"}'
    error missing_required_parameter messages
    ask 400 POST /v1/chat/completions '{"messages":[{"role":"user","content":"a"}]}'
    error missing_required_parameter model
    chat 400 qwen " "
    error invalid_value
    cag-ask -q -n 9 qwen.kvc "How long?" >want 2>/dev/null
    ask 200 POST /v1/chat/completions '{"model":"qwen","max_tokens":9,"messages":[{"role":"user",
        "content":[{"type":"text","text":"How "},{"type":"text","text":"long?"}],"name":"x"}]}'
    answer | cmp - want
}

@test "--system prepend: a system message stands before the question, and nowhere else" {
    serve --system prepend qwen.kvc
    cag-ask -q -n 12 qwen.kvc $'Be short.\n\nHow long?' >want 2>/dev/null
    for role in system developer; do
        ask 200 POST /v1/chat/completions "{\"model\":\"qwen\",\"max_tokens\":12,\"messages\":[
            {\"role\":\"$role\",\"content\":\"Be short.\"},{\"role\":\"user\",\"content\":\"How long?\"}]}"
        answer | cmp - want
    done
    ask 400 POST /v1/chat/completions '{"model":"qwen","messages":[{"role":"user","content":"a"},
        {"role":"system","content":"x"}]}'
    error invalid_value 'messages[1].role'
}

@test "a question that does not fit, a cache that is not there, a path that is none" {
    serve qwen.kvc
    chat 400 qwen "$(seq -s ' ' 9000)"
    error context_length_exceeded messages
    jq -e '.error.message | test("[0-9]+ tokens of knowledge")' "$out"
    chat 404 nothing "How long?"
    error model_not_found model
    chat 404 ../qwen "How long?"
    error model_not_found model
    ask 404 GET /v1/models/../../etc/passwd
    ask 404 GET /nothing
    ask 404 POST /v1/models
    ask 405 GET /v1/chat/completions
}

@test "models: names of files, given names, directories; two of one name are refused" {
    mkdir -p dir && cp kb.md dir
    cag-build -q -m "$MODELS/qwen3" -o dir/a.kvc kb.md
    cag-build -q -m "$MODELS/llama" -o dir/b.kvc kb.md
    serve handbook=qwen.kvc dir
    ask 200 GET /v1/models
    jq -e '[.data[].id] == ["handbook", "a", "b"] and all(.data[]; .object == "model" and
        .owned_by == "cag" and .cag.state == "ready" and .cag.tokens > 0)' "$out"
    ask 200 GET /v1/models/b
    jq -e '.id == "b" and .cag.model == "llama"' "$out"
    serve_end
    expect 64 cag-serve --listen 127.0.0.1:0 qwen.kvc dir/a.kvc a=llama.kvc
    grep -q "called 'a'" "$err"
    expect 66 cag-serve --listen 127.0.0.1:0 none.kvc
    grep -q 'none.kvc' "$err"
}

@test "a stale or damaged cache is a 503 with its reason; others are served" {
    mkdir -p st && printf 'The Sparrow-8 flies.\n' >st/kb.md
    cag-build -q -m "$MODELS/qwen3" -o st/stale.kvc st/kb.md
    cp st/stale.kvc st/damaged.kvc
    printf 'changed\n' >>st/kb.md
    printf 'xxxxxxxx' | dd of=st/damaged.kvc bs=1 seek=200 conv=notrunc 2>/dev/null
    serve qwen.kvc st
    chat 200 qwen "How long?" '"max_tokens":3'
    chat 503 stale "How long?"
    error cache_stale
    chat 503 damaged "How long?"
    error cache_failed
    run ! grep -q "$work" "$out"
    ask 200 GET /v1/models
    jq -e '[.data[].cag.state] == ["ready", "failed", "stale"]' "$out"
    grep -q 'damaged.kvc' "$log"
    serve_end
    expect 65 cag-serve --listen 127.0.0.1:0 st/damaged.kvc
}

@test "the chat page asks this server and nobody else" {
    serve qwen.kvc
    ask 200 GET / --head
    grep -qi '^content-type: text/html; charset=utf-8' "$err"
    grep -qi "^content-security-policy: default-src 'none'; .*connect-src 'self';" "$err"
    cmp "$out" "$BATS_TEST_DIRNAME/../../cmd/serve/page.html"
    run ! grep -nE 'https?://|<script[^>]+src|<link[^>]+stylesheet|@import|innerHTML' "$out"
}

@test "the chat page in a browser" {
    command -v chromedriver >/dev/null && command -v chromium >/dev/null || skip "no chromium and chromium-driver"
    [ -r "${CAG_DEMO_MODEL:-}" ] || skip "no demo model"
    cag-build -q -m "$CAG_DEMO_MODEL" -o demo.kvc "$BATS_TEST_DIRNAME/../../examples/knowledge.txt"
    serve demo.kvc qwen.kvc
    python3 "$BATS_TEST_DIRNAME/../tools/serve_page.py" "$base" demo
    serve_end
}

@test "a Unix socket, and sockets that systemd opened" {
    umask 077
    cag-serve --listen "unix:$BATS_TEST_TMPDIR/s" qwen.kvc 2>"$BATS_TEST_TMPDIR/serve.log" 3>&- &
    pid=$! log="$BATS_TEST_TMPDIR/serve.log"
    wait_listening
    base="unix:$BATS_TEST_TMPDIR/s"
    ask 200 GET /health
    # one that is in use is not taken; one that a crash left is
    expect 69 cag-serve --listen "$base" qwen.kvc
    kill -KILL "$pid"
    wait "$pid" || true
    [ -S "$BATS_TEST_TMPDIR/s" ]
    cag-serve --listen "$base" qwen.kvc 2>"$log" 3>&- &
    pid=$!
    wait_listening
    ask 200 GET /health
    serve_end
    [ ! -e "$BATS_TEST_TMPDIR/s" ]
    # what lies there in the meantime is somebody else's
    cag-serve --listen "$base" qwen.kvc 2>"$log" 3>&- &
    pid=$!
    wait_listening
    rm "$BATS_TEST_TMPDIR/s"
    echo precious >"$BATS_TEST_TMPDIR/s"
    serve_end
    [ "$(cat "$BATS_TEST_TMPDIR/s")" = precious ]
    python3 - "$BATS_TEST_TMPDIR/a" <<'END' 2>"$log" 3>&- &
import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen(5)
os.dup2(s.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execvp("cag-serve", ["cag-serve", "qwen.kvc"])
END
    pid=$!
    wait_listening
    base="unix:$BATS_TEST_TMPDIR/a"
    ask 200 GET /health
    serve_end
    [ -S "$BATS_TEST_TMPDIR/a" ] # it is systemd's
}

@test "wrong calls: exit status and one line" {
    for where in nonsense 127.0.0.1 127.0.0.1:99999 ::1:80 example.org:80 unix:; do
        expect 64 cag-serve --listen "$where" qwen.kvc
        grep -q "^cag-serve: --listen $where: expected\|^cag-serve: --listen unix:: a socket" "$err"
    done
    expect 64 cag-serve
    expect 64 cag-serve --listen 0.0.0.0:0 qwen.kvc
    grep -q -- '--keys' "$err"
    expect 64 env LISTEN_FDS=1 bash -c 'LISTEN_PID=$$ exec cag-serve qwen.kvc' 3<kb.md
    grep -q 'descriptor 3 is no socket' "$err"
    serve qwen.kvc
    expect 69 cag-serve --listen "${base#http://}" qwen.kvc
    grep -q 'Address already in use' "$err"
}

@test "logprobs: those of cag-ask, whole and as a stream, in both shapes" {
    serve qwen.kvc
    cag-ask -q --json --logprobs 3 -n 12 qwen.kvc "How long?" >want 2>/dev/null
    cag-ask -q --json -n 12 qwen.kvc "How long?" 2>/dev/null | jq .answer | cmp - <(jq .answer want)
    jq -e '(.logprobs | length > 0) and all(.logprobs[]; .logprob <= 0 and (.top_logprobs | length) == 3 and
           .top_logprobs[0].token == .token and .top_logprobs[0].logprob == .logprob and
           .top_logprobs[1].logprob <= .logprob)' want
    # drafts change nothing; what is read again is what was said
    cag-ask -q --json --no-lookup --logprobs 3 -n 12 qwen.kvc "How long?" 2>/dev/null | jq -c .logprobs | cmp - <(jq -c .logprobs want)
    python3 - want <<'END'
import json, sys
row = json.load(open(sys.argv[1]))
said = b"".join(bytes(t["bytes"]) for t in row["logprobs"]).decode("utf-8", "replace")
assert row["answer"] in said, (row["answer"], said)
off = [t["offset"] for t in row["logprobs"]]
assert off[0] == 0 and off == sorted(off) and off[-1] < len(row["answer"].encode()), off
END
    chat 200 qwen "How long?" '"max_tokens":12,"logprobs":true,"top_logprobs":3'
    jq -c '.choices[0].logprobs.content' "$out" | cmp - <(jq -c '[.logprobs[] | del(.offset)]' want)
    jq -e '.cag | has("logprobs") | not' "$out"
    body='{"model":"qwen","max_tokens":12,"logprobs":true,"top_logprobs":3,"stream":true,"messages":[{"role":"user","content":"How long?"}]}'
    ask 200 POST /v1/chat/completions "$body"
    grep '^data: {' "$out" | cut -c7- | jq -sc '[.[].choices[]?.logprobs.content // [] | .[]]' | cmp - <(jq -c '[.logprobs[] | del(.offset)]' want)
    ask 200 POST /v1/completions '{"model":"qwen","max_tokens":12,"logprobs":2,"prompt":"How long?"}'
    jq -c '.choices[0].logprobs | [.tokens, .token_logprobs]' "$out" | cmp - <(jq -c '[[.logprobs[].token], [.logprobs[].logprob]]' want)
    jq -e '.choices[0].logprobs | .text_offset[0] == 0 and (.text_offset | . == sort) and all(.top_logprobs[]; length <= 2 and length > 0)' "$out"
    # one that nobody asked for, or is withheld, has none
    chat 200 qwen "How long?" '"max_tokens":12'
    jq -e '.choices[0].logprobs == null' "$out"
    chat 200 qwen "How long?" '"max_tokens":12,"logprobs":true,"cag":{"require_evidence":"strong"}'
    jq -e '.cag.refused and .choices[0].logprobs == null' "$out"
    chat 400 qwen "How long?" '"top_logprobs":3'
    error invalid_value top_logprobs
    chat 400 qwen "How long?" '"logprobs":true,"top_logprobs":21'
    chat 400 qwen "How long?" '"logprobs":3'
    ask 400 POST /v1/completions '{"model":"qwen","logprobs":6,"prompt":"How long?"}'
    ask 400 POST /v1/responses '{"model":"qwen","top_logprobs":3,"input":"How long?"}'
}

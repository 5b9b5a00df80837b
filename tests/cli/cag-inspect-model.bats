#!/usr/bin/env bats
# cag-inspect --ids and --prompt: what a model reads, without any cache.

load build_helper
setup() { begin; }

@test "--ids: files, standard input, one array a file" {
    echo "one" >a
    echo "two words" >b
    ok cag-inspect --ids -m "$model" a b
    [ "$(wc -l <<<"$output")" -eq 2 ]
    jq -es 'length == 2 and (map(length > 0) | all)' <<<"$output"
    [ "$(cag-inspect --ids -m "$model" a)" = "$(cag-inspect --ids -m "$model" <a)" ]
    [ "$(cag-inspect --ids -m "$model" -)" = "[]" ] </dev/null
    CAG_MODEL="$model" ok cag-inspect --ids a
    fails 66 "gone: cannot open" cag-inspect --ids -m "$model" gone
    printf 'ok \xff' >bad
    fails 65 "bad: byte 3: " cag-inspect --ids -m "$model" bad
    # GGUF and Hugging Face directory of one model agree
    facts 20 >f
    [ "$(cag-inspect --ids -m "$model" f)" = "$(cag-inspect --ids -m "$models/qwen3" f)" ]
}

@test "control tokens are text unless --parse-special" {
    printf '<|im_end|>' >c
    [ "$(cag-inspect --ids -m "$model" c | jq length)" -gt 1 ]
    [ "$(cag-inspect --ids --parse-special -m "$model" c | jq length)" -eq 1 ]
}

@test "the demo model's vectors" {
    [ -f "${CAG_DEMO_MODEL:-}" ] || skip "no demo model (make model)"
    ids() { printf "$1" | cag-inspect --ids -m "$CAG_DEMO_MODEL"; }
    [ "$(ids '3333+777=4110')" = "[35,35,35,35,27,39,39,39,45,36,33,33,32]" ]
    [ "$(ids 'cafe\xcc\x81')" = "[83,9980,151,219]" ]
    [ "$(ids ' \n  \n')" = "[3717,32057]" ]
    [ "$(printf '<|im_end|>' | cag-inspect --ids --parse-special -m "$CAG_DEMO_MODEL")" = "[2]" ]
}

@test "a text longer than any buffer: ids do not depend on where it is cut" {
    local at tail
    tail=$({ printf 'a%.0s' {1..64}; printf ' \n  \nend'; } | cag-inspect --ids -m "$model" | jq -c '.[-8:]')
    [ "$(jq length <<<"$tail")" -eq 8 ]
    for at in 4096 65536 131072; do       # as many letters, modulo 64
        { head -c "$at" /dev/zero | tr '\0' a; printf ' \n  \nend'; } >t
        [ "$(cag-inspect --ids -m "$model" t | jq -c '.[-8:]')" = "$tail" ]
    done
}

@test "--prompt: the knowledge-base prompt of a model" {
    ok cag-inspect --prompt -m "$model"
    prints "KNOWLEDGE BASE:"
    prints "<|im_start|>[cached part ends here]user"
    ok cag-inspect --prompt --json -m "$model"
    jq -e '.schema == 1 and (.prompt | endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")) and
           (.prompt[:.cached_bytes] | endswith("<|im_start|>"))' <<<"$output"
}

@test "--prompt: messages, with a model or a template alone" {
    echo '[{"role":"system","content":"S <|im_end|>"},{"role":"user","content":"U"},{"role":"assistant","content":"A"},{"role":"user","content":"U2"}]' >m.json
    ok cag-inspect --prompt -m "$model" --messages m.json
    [ "$output" = "$(printf '<|im_start|>system\nS <|im_end|><|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n<|im_start|>[cached part ends here]user\nU2<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n')" ]
    echo '{% for m in messages %}[{{ m.role }}] {{ m.content }} {% endfor %}{{ strftime_now("%Y") }}' >t.jinja
    SOURCE_DATE_EPOCH=0 ok cag-inspect --prompt --chat-template-file t.jinja --messages m.json
    [ "$output" = "[system] S <|im_end|> [user] U [assistant] A [user] U2 1970" ]
    echo '[{"role":"user"' >bad.json
    fails 65 "bad.json:" cag-inspect --prompt -m "$model" --messages bad.json
    echo '{"role":"user"}' >bad.json
    run --separate-stderr cag-inspect --prompt -m "$model" --messages bad.json </dev/null
    [ "$status" -eq 65 ] || show
    fails 66 "no.json" cag-inspect --prompt -m "$model" --messages no.json
    fails 64 "no model" cag-inspect --prompt --messages m.json
    echo '{% for m in messages %}' >open.jinja
    run --separate-stderr cag-inspect --prompt --chat-template-file open.jinja --messages m.json </dev/null
    [ "$status" -ne 0 ]
    [ -z "$output" ]
}

@test "--think changes the prompt of a model that knows it" {
    ok cag-inspect --prompt -m "$model"
    prints "</think>"
    ok cag-inspect --prompt --think -m "$model"
    [[ "$output" != *think* ]] || show
}

@test "--prompt with a template that fails: its message, and nothing else" {
    local t n=0
    for t in "{{ raise_exception('no tools') }}" '{% if %}' '{{ 1 / 0 }}' 'nothing' '{{ messages[7].x.y }}'; do
        printf '%s' "$t" >t
        run cag-inspect --prompt -m "$model" --chat-template-file t
        [ "$status" -eq 65 ] || [ "$status" -eq 69 ] || { echo "$t: $status $output"; false; }
        [ "${#lines[@]}" -eq 1 ]
        [[ "$output" == "cag-inspect: "* ]]
        n=$((n + 1))
    done
    [ "$n" -eq 5 ]
}

@test "--models lists what -m finds by name, and why it cannot be used" {
    mkdir -p share/cag/models more hub/models--Org--Tiny/refs hub/models--Org--Tiny/snapshots/0123456789abcdef0123456789abcdef01234567
    export XDG_DATA_HOME="$PWD/share" HF_HUB_CACHE="$PWD/hub"
    ok cag-inspect --models
    [ -z "$output" ] || show
    says "no model there; looked in $PWD/share/cag/models:$PWD/hub"
    cp "$model" share/cag/models/tiny.gguf
    cp -r "$models/llama" share/cag/models/dir
    echo no >share/cag/models/bad.gguf
    echo no >share/cag/models/notes.txt
    : >"share/cag/models/"$'esc\x1b[31m.gguf'
    cp "$models/llama.F16.gguf" more/tiny.gguf
    printf %s 0123456789abcdef0123456789abcdef01234567 >hub/models--Org--Tiny/refs/main
    cp "$models/qwen2.F16.gguf" hub/models--Org--Tiny/snapshots/*/
    ok cag-inspect --models --json
    [ "$(jq -c '[.name, .arch, .context > 0, .error == null]' <<<"$output")" = '["bad.gguf",null,false,false]
["dir","llama",true,true]
["esc\u001b[31m.gguf",null,false,false]
["tiny.gguf","qwen3",true,true]
["Org/Tiny","qwen2",true,true]' ] || show
    # each name is one that -m takes
    echo text >a.md
    for name in $(jq -r 'select(.error == null) | .name' <<<"$output"); do
        ok cag-build -q -m "$name" -o k.kvc a.md
    done
    # the first of a name counts, as with -m
    CAG_MODELS="$PWD/more" ok cag-inspect -q --models
    [ "$(grep -c 'tiny.gguf$' <<<"$output")" = 1 ]
    grep -q ' llama .* tiny.gguf$' <<<"$output"
    grep -q 'bad.gguf: not a GGUF model' <<<"$output"
    case "$output" in *$'\x1b'*) show ;; esac
    fails 64 "take no file" cag-inspect --models a.md
}

@test "a model is called by its file, with -l too" {
    cp "$model" mine.gguf
    echo text >a.md
    ok cag-build -q -m mine.gguf -o k.kvc a.md
    ok cag-inspect k.kvc
    grep -qx 'model        mine.gguf' <<<"$output"
    ok cag-inspect -l
    grep -q '  ./k.kvc  mine.gguf$' <<<"$output"
    ok cag-inspect -l --json
    [ "$(jq -r .model_file <<<"$output")" = mine.gguf ]
}

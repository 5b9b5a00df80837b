#!/usr/bin/env bats
# The views cag-inspect has of caches, and the files it tells apart.

load build_helper

setup_file() {
    begin
    mkdir docs
    facts 3 >docs/a.md
    echo "second" >docs/b.txt
    cp "$model" m.gguf
    touch -d '1 hour ago' m.gguf
    cag-build -q -m m.gguf -o kb.kvc docs
    cag-build -q -m m.gguf --codec f16 -o f16.kvc docs
    export made="$PWD"
}

setup() {
    begin
    cp -a "$made/." .
}

@test "summary and --json need neither model nor sources" {
    rm -r m.gguf docs
    ok cag-inspect kb.kvc
    prints "kb.kvc: cag cache, format 1.0"
    prints "qwen3, 2 layers, 3 KV heads of 128"
    prints "f16z: "
    prints "tokens  a.md"
    prints "content id"
    ok cag-inspect --json kb.kvc
    jq -e --argjson size "$(stat -c %s kb.kvc)" '
        .schema == 1 and .file == "kb.kvc" and .format_major == 1 and .bytes == $size and
        (.content_id | test("^[0-9a-f]{64}$")) and (.binding | test("^[0-9a-f]{64}$")) and
        ([.sources[].name] == ["a.md", "b.txt"]) and .meta.model.path == "m.gguf" and
        ([.sections[].name] | index("KV") != null)' <<<"$output"
    # one line each, for as many files as are named
    ok cag-inspect --json kb.kvc f16.kvc
    [ "$(wc -l <<<"$output")" -eq 2 ]
}

@test "--sources is what sha256sum -c reads, odd names too" {
    (cag-inspect --sources kb.kvc | sha256sum -c --quiet)
    [ "$(cag-inspect --sources kb.kvc)" = "$(sha256sum docs/a.md docs/b.txt)" ]
    echo x >'back\slash.md'
    echo y >$'new\nline.md'
    printf '%s\0' 'back\slash.md' $'new\nline.md' >list
    cag-build -q -m m.gguf -o odd.kvc --files0-from list
    cag-inspect --sources odd.kvc | sha256sum -c --quiet
    [ "$(cag-inspect --sources odd.kvc)" = "$(sha256sum 'back\slash.md' $'new\nline.md')" ]
    ok cag-inspect --sources --json kb.kvc
    [ "$(jq -r '.sources[0].sha256_raw' <<<"$output")" = "$(sha256sum <docs/a.md | cut -c 1-64)" ]
    echo piped | cag-build -q -m m.gguf -o p.kvc docs/a.md -
    ok cag-inspect --sources p.kvc
    [ "$(wc -l <<<"$output")" -eq 1 ]
    says "standard input: came from a pipe, left out"
}

@test "--text, --tokens and --ids agree with each other" {
    cag-inspect --text kb.kvc >text
    grep -q "^Fact 1: box number 919" text
    cag-inspect --ids --parse-special -m m.gguf text >ids
    cag-inspect --tokens --json kb.kvc | cmp - ids
    [ "$(cag-inspect --tokens kb.kvc | wc -l)" -eq "$(jq length ids)" ]
    [ "$(cag-inspect --tokens kb.kvc | head -n 1 | awk '{ print $1, $2, $4 }')" = "0 0 <|im_start|>" ]
    [ "$(cag-inspect --json kb.kvc | jq .tokens)" -eq "$(jq length ids)" ]
    [ "$(cag-inspect --text --json kb.kvc | jq -j .text)" = "$(cat text)" ]
    # a source's byte and token range
    cag-inspect --json kb.kvc | jq -r '.sources[0] | "\(.text_off) \(.text_bytes)"' | {
        read -r off n
        tail -c +$((off + 1)) text | head -c "$n" | diff - <(head -c "$n" docs/a.md)
    }
}

@test "--tensors: each layer's K and V with shape" {
    ok cag-inspect --tensors kb.kvc
    [ "$(grep -c '^layer\.[01]\.[kv] *f16  \[3, [0-9]*, 128\]' <<<"$output")" -eq 4 ]
    prints "required"
    ok cag-inspect --tensors --json kb.kvc
    jq -e '[.tensors[].name] == ["layer.0.k", "layer.0.v", "layer.1.k", "layer.1.v"] and
           (.tensors[0].shape == [3, .tensors[0].shape[1], 128])' <<<"$output"
}

@test "-t finds any flipped byte and names the section; cag-ask does too" {
    ok cag-inspect -t kb.kvc
    [ "$stderr" = "cag-inspect: kb.kvc: every byte is intact" ] || show
    ok cag-inspect -q -t kb.kvc
    [ -z "$stderr$output" ] || show
    ok cag-inspect -t -v kb.kvc
    says "kb.kvc: every byte is intact"
    [ "$(cag-inspect -t --json kb.kvc)" = '{"schema":1,"file":"kb.kvc","sound":true}' ]
    local name off size
    cag-inspect --json kb.kvc | jq -r '.sections[] | "\(.name) \(.off) \(.bytes)"' >sections
    while read -r name off size; do
        cp kb.kvc x.kvc
        printf '\x5a\xa5' | dd of=x.kvc bs=1 seek=$((off + size / 2)) conv=notrunc status=none
        fails 65 "$name" cag-inspect -t x.kvc
        fails 65 "$name" cag-ask --stale ignore -n 1 x.kvc hello
    done <sections
    off=$(awk '$1 == "KV" { print $2 }' sections)
    # padding is not used, so only -t looks at it
    cp kb.kvc x.kvc
    printf 'x' | dd of=x.kvc bs=1 seek=$((off - 1)) conv=notrunc status=none
    fails 65 "x.kvc" cag-inspect -t x.kvc
    cp kb.kvc x.kvc
    printf 'more' >>x.kvc
    fails 65 "x.kvc" cag-inspect -t x.kvc
}

@test "truncated at any place: 65 and one line" {
    local size n
    size=$(stat -c %s kb.kvc)
    for n in 0 1 7 8 100 4095 4096 4097 20000 $((size / 2)) $((size - 1)); do
        head -c "$n" kb.kvc >x.kvc
        fails 65 "x.kvc: " cag-inspect x.kvc
        [ "${#stderr_lines[@]}" -eq 1 ] || show
    done
}

@test "foreign files are named for what they are" {
    fails 65 "m.gguf: this is a GGUF model" cag-inspect m.gguf
    fails 65 "this is a safetensors file" cag-inspect "$models"/qwen3/model.safetensors
    printf 'nsgg\x0a\0\0\0\0\0\0\0' >s.bin
    fails 65 "llama.cpp" cag-inspect s.bin
    printf 'qsgg\x03\0\0\0\0\0\0\0' >q.bin
    fails 65 "llama.cpp" cag-inspect q.bin
    printf 'version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 12\n' >l.kvc
    fails 65 "Git-LFS pointer" cag-inspect l.kvc
    fails 65 "this is a text, expected a .kvc cache; cag-build makes one of it" cag-inspect docs/a.md
    : >e.kvc
    fails 65 "the file is empty" cag-inspect e.kvc
    fails 66 "no.kvc: cannot open: No such file" cag-inspect no.kvc
    fails 66 "docs: is a directory" cag-inspect docs
    # text mode damage shows in the magic
    sed 's/\r$//' kb.kvc >t.kvc
    fails 65 "t.kvc" cag-inspect t.kvc
    # the good ones are shown, the worst counts
    run --separate-stderr cag-inspect kb.kvc no.kvc m.gguf </dev/null
    [ "$status" -eq 66 ] || [ "$status" -eq 65 ] || show
    prints "kb.kvc: cag cache"
}

@test "--diff: sources, fields, first differing token, what a rebuild would cost" {
    ok cag-inspect --diff kb.kvc kb.kvc
    [ -z "$output" ]
    run --separate-stderr cag-inspect --diff kb.kvc f16.kvc </dev/null
    [ "$status" -eq 1 ]
    prints "codec: f16z / f16"
    prints "the tokens are equal"
    cp docs/a.md keep
    sed -i 2s/weighs/holds/ docs/a.md
    echo c >docs/c.md
    rm docs/b.txt
    cag-build -q -m m.gguf -o new.kvc --label FACTS docs
    run --separate-stderr cag-inspect --diff kb.kvc new.kvc </dev/null
    [ "$status" -eq 1 ]
    prints "label: KNOWLEDGE BASE: / FACTS"
    prints "source differs: a.md"
    prints "source only in the first: b.txt"
    prints "source only in the second: c.md"
    [[ "$output" =~ "first differing token: "([0-9]+)"; a rebuild keeps "([0-9]+)" tokens and computes "([0-9]+) ]] || show
    # and that is what the rebuild does
    local kept=${BASH_REMATCH[2]} computed=${BASH_REMATCH[3]}
    ok cag-build -m m.gguf -o kb.kvc --label FACTS docs
    says "$kept tokens kept from the old cache, $computed computed"
    run --separate-stderr cag-inspect --diff --json f16.kvc kb.kvc </dev/null
    jq -e --argjson k "$kept" '.equal == false and .first_differing_token == $k and
                               .tokens_kept == $k and (.differences | length) > 3' <<<"$output"
    cag-build -q -m "$models/llama.F16.gguf" -o other.kvc docs
    run --separate-stderr cag-inspect --diff kb.kvc other.kvc </dev/null
    prints "architecture: qwen3 / llama"
    prints "keeps 0 tokens"
    fails 64 "--diff takes two caches" cag-inspect --diff kb.kvc
    fails 66 "no.kvc" cag-inspect --diff kb.kvc no.kvc
}

@test "-l: one line per cache, with state; damaged ones are named" {
    mkdir more
    cp kb.kvc more/carried.kvc
    echo x >>docs/a.md
    cag-build -q -m m.gguf -o new.kvc docs
    ok cag-inspect -q -l . more
    [ "$(awk '{ print $1, $(NF - 1) }' <<<"$output" | sort)" = \
        "$(printf '%s\n' 'fresh ./new.kvc' 'stale ./f16.kvc' 'stale ./kb.kvc' 'unseen more/carried.kvc')" ] || show
    ok cag-inspect -l . more
    [ "$(head -1 <<<"$output" | tr -s ' ')" = "state tokens size age cache, model" ]
    [[ "$(tail -1 <<<"$output")" =~ ^4\ caches,\ [0-9]+\ tokens,\ .*iB:\ 1\ fresh,\ 2\ stale,\ 1\ unseen$ ]] || show
    [ "$(wc -l <<<"$output")" -eq 6 ]
    ok cag-inspect -l new.kvc # of one cache there is no sum
    [ "$(wc -l <<<"$output")" -eq 2 ]
    ok cag-inspect -l --json new.kvc
    jq -e '.schema == 1 and .state == "fresh" and .file == "new.kvc" and .tokens > 100 and .age_seconds >= 0' <<<"$output"
    head -c 5000 kb.kvc >bad.kvc
    run --separate-stderr cag-inspect -l </dev/null
    [ "$status" -eq 65 ]
    says "bad.kvc"
    [ "$(wc -l <<<"$output")" -eq 5 ]
    fails 66 "nodir: cannot read directory" cag-inspect -l nodir
}

@test "--check, --digest, --devices" {
    ok cag-inspect --check kb.kvc f16.kvc
    [ "$(cag-inspect --digest kb.kvc)" = "$(cag-inspect --digest f16.kvc)" ]
    [ "$(cag-inspect --digest --json kb.kvc | jq -r .content_id)" = "$(cag-inspect --digest kb.kvc)" ]
    echo x >>docs/a.md
    fails 1 "a.md: changed" cag-inspect --check kb.kvc
    ok cag-inspect --devices
    prints cpu
    prints "in use"
    ok cag-inspect --devices --json
    jq -e '.devices | index("cpu") != null' <<<"$output"
    jq -e '[.kernels[] | select(.in_use)] | length == 1' <<<"$output"
}

@test "wrong calls" {
    fails 64 "name a cache" cag-inspect
    fails 64 "one view at a time" cag-inspect --text --sources kb.kvc
    fails 64 "take no file" cag-inspect --prompt kb.kvc
    fails 64 "write '--tensors'" cag-inspect --tensor kb.kvc
    fails 64 "no model" cag-inspect --ids
    local rc=0
    cag-inspect --text kb.kvc >/dev/full 2>err || rc=$?
    [ "$rc" -eq 74 ]
    cag-inspect --tokens kb.kvc | head -n 1
    rc=${PIPESTATUS[0]}
    [ "$rc" -eq 0 ] || [ "$rc" -eq 141 ]
}

@test "no text of a cache reaches a terminal as a control character" {
    run python3 "$BATS_TEST_DIRNAME/../tools/forged_text.py" \
        "$(command -v cag-inspect)" kb.kvc
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    # names of files too, where sha256sum has no escape of its own
    mkdir evil
    echo hi >"evil/$(printf 'a\033[31m\302\233b').md"
    ok cag-build -q -m "$model" -o evil.kvc evil
    TERM=dumb python3 "$BATS_TEST_DIRNAME/../tools/on_tty.py" \
        cag-inspect --sources evil.kvc </dev/null >tty
    not grep -qP '\x1b|\xc2\x9b' tty
    (cd / && cag-inspect --sources "$OLDPWD/evil.kvc") | grep -qP '\x1b'
}

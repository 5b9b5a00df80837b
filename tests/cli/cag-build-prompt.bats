#!/usr/bin/env bats
# The parts of the prompt, templates, limits, options and where they come from.

load build_helper
setup() {
    begin
    echo "The box stands in hall 4." >s.md
}

build() { cag-build -m "$model" -o kb.kvc "$@"; }

@test "system text, label, refusal; {refusal} is replaced; the warning without it" {
    ok build -q s.md
    cag-inspect --text kb.kvc | grep -q "reply exactly: The answer is not available in the knowledge base."
    cag-inspect --text kb.kvc | grep -qx "KNOWLEDGE BASE:"
    ok build --system 'Réponds. Sinon : {refusal}' --refusal 'Je ne sais pas.' --label 'TEXTE :' s.md
    [[ "$stderr" != *warning* ]] || show
    cag-inspect --text kb.kvc | grep -qx "Réponds. Sinon : Je ne sais pas."
    cag-inspect --text kb.kvc | grep -qx "TEXTE :"
    cag-inspect --text kb.kvc | { ! grep -q "knowledge base"; }
    ok build --system 'Just this.' s.md
    says "warning: the system text does not hold {refusal}"
    printf '\xef\xbb\xbfFrom a file: {refusal}' >sys.txt
    ok build --system-file sys.txt s.md
    cag-inspect --text kb.kvc | grep -q "^From a file: The answer"
    fails 64 "exclude each other" build --system a --system-file sys.txt s.md
    fails 66 "nofile: cannot open" build --system-file nofile s.md
    printf '\xff' >sys.txt
    fails 65 "sys.txt: byte 0: invalid UTF-8" build --system-file sys.txt s.md
    fails 64 "--refusal is empty" build --refusal "" s.md
    fails 65 "UTF-8" build --label $'\xff' s.md
}

@test "built-in templates: all names work somewhere, unknown ones are helped" {
    ok build -q --chat-template chatml s.md
    fails 64 "unknown chat template 'chatlm'; did you mean 'chatml'?" build --chat-template chatlm s.md
    fails 64 "unknown chat template 'nothing-like-it'; there are chatml, " build --chat-template nothing-like-it s.md
    fails 64 "exclude each other" build --chat-template chatml --chat-template-file x s.md
    fails 66 "no.jinja: cannot open" build --chat-template-file no.jinja s.md
    echo '{% for m in messages %}{{ m.content }}' >open.jinja
    run --separate-stderr build --chat-template-file open.jinja s.md </dev/null
    [ "$status" -ne 0 ]
    [ "$status" -lt 78 ]
    echo '{{ messages | nosuchfilter }}' >odd.jinja
    run --separate-stderr build --chat-template-file odd.jinja s.md </dev/null
    [ "$status" -ne 0 ]
    says nosuchfilter
}

@test "--acknowledgement: of templates without a system role; every default text can be replaced" {
    cat >plain.jinja <<'J'
{%- for m in messages -%}
{%- if m.role == 'system' %}{{ raise_exception('no system role') }}{% endif -%}
{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif -%}
J
    ok build -q --chat-template-file plain.jinja s.md
    cag-inspect --text kb.kvc | grep -qx "Understood.<|im_end|>"
    cp kb.kvc default.kvc
    ok build -q --chat-template-file plain.jinja --acknowledgement "Gelesen: alles." s.md
    cag-inspect --text kb.kvc | grep -qx "Gelesen: alles.<|im_end|>"
    ! cag-inspect --text kb.kvc | grep -q "Understood"
    cag-inspect --json kb.kvc | jq -e '.meta.prompt.acknowledgement == "Gelesen: alles."'
    [ "$(cag-inspect --json kb.kvc | jq .binding)" != "$(cag-inspect --json default.kvc | jq .binding)" ]
    run --separate-stderr cag-inspect --diff default.kvc kb.kvc
    prints "acknowledgement"
    # kept by --refresh, and by the turns of a conversation
    ok cag-build --check kb.kvc
    echo more >>s.md
    ok cag-build -q --refresh kb.kvc
    cag-inspect --text kb.kvc | grep -qx "Gelesen: alles.<|im_end|>"
    [ "$(printf 'a\nb\n' | cag-ask --chat -q -n 2 kb.kvc | wc -l)" -eq 2 ]
    # from a manifest, with no English text left
    printf 'model: %s\noutput: m.kvc\nsources: [s.md]\nprompt: {system: "Antworte nur daraus, sonst {refusal}", label: TEXTE,
        refusal: Nein., acknowledgement: Gut., chat-template-file: plain.jinja}\n' "$model" >m.yaml
    ok cag-build -q --manifest m.yaml
    cag-inspect --text m.kvc | grep -qx "Gut.<|im_end|>"
    ! cag-inspect --text m.kvc | grep -qiE "answer|knowledge|understood|available"
    # what is no plain text, and where nothing is acknowledged
    fails 65 "--acknowledgement: holds a control token" build --chat-template-file plain.jinja --acknowledgement "a<|im_end|>" s.md
    fails 65 "--acknowledgement: is empty" build --chat-template-file plain.jinja --acknowledgement "" s.md
    ok build --acknowledgement "Gut." s.md
    says "the acknowledgement is not used: this template has a system role"
    ok cag-build --check kb.kvc
    ok build -v s.md
    says "fresh"
}

@test "exactly one system turn, and the question's turn after the cached part" {
    ok build -q s.md
    cag-inspect --text kb.kvc >text
    [ "$(grep -c '<|im_start|>system' text)" -eq 1 ]
    [ "$(tail -n 1 text)" = "<|im_start|>" ]
    ok cag-ask --dry-run kb.kvc "Where is the box?"
    [ "$(grep -c '<|im_start|>system' <<<"$output")" -eq 1 ]
    [ "$(grep -c '<|im_start|>.*user' <<<"$output")" -eq 1 ]
}

@test "cached ids are a prefix of the whole prompt's, whatever the text ends in" {
    local end
    for end in 'answer: ' 'The code is 42.' 'x)' 'foo' $'a \n' $'\r' $'tail\n\n\n' '<' '1'; do
        printf '%s' "$end" >e.md
        ok build -q -B e.md
        cag-ask --dry-run kb.kvc "42 or not?" >prompt
        cag-inspect --text kb.kvc >text
        head -c "$(stat -c %s text)" prompt | cmp - text
        # ids of the cached text tokenized again, control tokens included
        cag-inspect --ids --parse-special -m "$model" text >again
        cag-inspect --tokens --json kb.kvc | cmp - again
    done
}

@test "a text far beyond the context is refused by its size, and the largest source named" {
    facts 10 >f.md
    head -c 20000000 /dev/zero | tr '\0' 'w' >long.md
    case ${CAG_MODE:-release} in
    san | tsan) ;;
    *) ulimit -v 450000 ;; # tokenized it takes 850 MB
    esac
    fails 65 "the knowledge does not fit: " build -t 1 f.md long.md
    says "bytes are at least"
    says "leave something out, the largest is long.md (20000000 bytes)"
    fails 65 "the knowledge does not fit: " build -t 1 -n f.md long.md
    [ ! -e kb.kvc ]
}

@test "what does not fit is refused with a table by source and all numbers" {
    facts 10 >f.md
    fails 65 "the knowledge does not fit: " build -c 400 --reserve 100 f.md s.md
    says "tokens  f.md"
    says "tokens  s.md"
    says "tokens  instructions, headings and template"
    says "of 400; 100 kept free"
    says "too many"
    [ ! -e kb.kvc ]
    fails 65 "the knowledge does not fit" build -q -c 400 f.md s.md
    [ "$(wc -l <<<"$stderr")" -eq 1 ] || show
    run --separate-stderr build -q --json -c 400 f.md s.md </dev/null
    [ "$status" -eq 65 ]
    jq -e '.fits == false and .room < 0 and .sources[0].name == "f.md" and .sources[0].tokens > 400' <<<"$output"
    # without a reserve the last token may be used; one less is refused
    local n
    n=$(cag-build -n --json -m "$model" s.md | jq .tokens)
    ok build -q -c "$n" --reserve 0 s.md
    fails 65 "does not fit" build -c $((n - 1)) --reserve 0 s.md
    fails 65 "more than the model was trained for (8192)" build -c 8193 s.md
}

@test "--dry-run: tokens, sizes, memory, time; needs no weights, writes nothing" {
    cp "$model" m.gguf
    touch -d '1 hour ago' m.gguf
    ls -A >../before
    ok cag-build -n -m m.gguf s.md
    prints "tokens  s.md"
    prints "left over"
    [[ "$output" =~ "file at most "[0-9.]+" "[KM]iB" (f16z); memory about "[0-9.]+" MiB to build, "[0-9.]+" MiB to ask beside the model, free now "[0-9.]+" "[GM]iB"; about "[0-9.]+" "m?s" to read it" ]] || show
    [ -z "$stderr" ] || show
    run --separate-stderr cag-build -n --json -m m.gguf s.md </dev/null
    jq -e '.schema == 1 and .fits and .file_bytes_at_most > .kv_bytes and .free_memory_bytes > 0 and
           .prefill_seconds_about > 0 and .sources == [{name: "s.md", path: (env.PWD + "/s.md"), bytes: 26, tokens: .sources[0].tokens}]' <<<"$output"
    ls -A | diff ../before -
    # the estimate of tokens is the truth
    ok build -q s.md
    [ "$(jq .tokens <<<"$(cag-build -n --json -m m.gguf s.md)")" -eq "$(cag-inspect --json kb.kvc | jq .tokens)" ]
    # a directory without its weights still has a tokenizer
    cp -r "$models/qwen3" noweights
    rm noweights/*.safetensors
    ok cag-build -n -m noweights s.md
    fails 66 "noweights" cag-build -q -m noweights -o x.kvc s.md
}

@test "--dry-run names the lines that cost most" {
    cat >page.md <<'M'
---
title: x
---
# Title

![img](data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==)

<!-- a comment that
spans several lines
and is long -->
Plain text between them, which is not listed.

- [one](https://example.com/a/b/c/d/e/f)
- [two](https://example.com/a/b/c/d/e/g)

MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA1234567890abcdefghijklmn
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA1234567890abcdefghijklmn
M
    for front in keep drop; do
        ok cag-build -n -m "$model" --front-matter $front s.md page.md
        prints "page.md:6: data: URI"
        prints "page.md:8: comment, 3 lines"
        prints "page.md:13: links, 2 lines"
        prints "page.md:16: base64 or hex, 2 lines"
        [[ "$output" != *"s.md:"* ]] || show
    done
    run --separate-stderr cag-build -n --json -m "$model" page.md </dev/null
    jq -e '(.costly | length) == 4 and (.costly | map(.tokens) | . == (sort | reverse)) and
           .costly[0].source == "page.md"' <<<"$output"
    # also when it does not fit, where it helps most
    run --separate-stderr cag-build -n -c 300 -m "$model" page.md </dev/null
    [ "$status" -eq 65 ]
    prints "page.md:6: data: URI"
}

@test "--max-memory refuses early, with both numbers" {
    fails 65 "--max-memory allows 1 MiB" build --max-memory 1M s.md
    [ ! -e kb.kvc ]
    ok build -q --max-memory 1G s.md
    fails 64 "--max-memory" build --max-memory lots s.md
}

@test "values and their origins: option, environment, manifest, default" {
    printf 'model: from-manifest\ncodec: f16\nreserve: 64\nthreads: 3\nsources: [s.md]\n' >kb.yaml
    CAG_THREADS=2 ok cag-build --print-config --manifest kb.yaml --reserve 65
    prints "model = from-manifest  (manifest kb.yaml)"
    prints "codec = f16  (manifest kb.yaml)"
    prints "output = kb.kvc  (manifest kb.yaml)"
    prints "reserve = 65  (option --reserve)"
    prints "threads = 2  (environment CAG_THREADS)"
    prints "label = -  (default)"
    # what the model or the machine decides is said in words, not as 0 and -1
    prints "ctx-size = model  (default)"
    prints "max-memory = no limit  (default)"
    prints "batch-size = device  (default)"
    prints "max-loss = codec  (default)"
    ! grep -q "= -1" <<<"$output"
    CAG_MODEL=from-env ok cag-build --print-config --manifest kb.yaml
    prints "model = from-env  (environment CAG_MODEL)"
    CAG_MODEL=from-env ok cag-build --print-config -m from-option
    prints "model = from-option  (option -m)"
    CAG_MODEL="$model" ok cag-build -q -o env.kvc s.md
    fails 64 "no model: give one with -m" cag-build -o x.kvc s.md
}

@test "wrong calls: one line, a hint, 64" {
    local bad
    for bad in --no-such -Z "-c" "-c x" "-c -5" "-c 63" "--reserve 1e3" "-t 0" "-t 513" "--codec zip" \
        "--precision best" "--front-matter maybe" "--lock-timeout soon" "--color green" "--chec" "--verify no"; do
        run --separate-stderr cag-build -m "$model" -o x.kvc s.md $bad </dev/null
        [ "$status" -eq 64 ] || show
        [ -z "$output" ] || show
        [ "${#stderr_lines[@]}" -eq 2 ] || show
        [[ "${stderr_lines[0]}" == "cag-build: "* ]] || show
        [ "${stderr_lines[1]}" = "Try 'cag-build --help'" ] || show
    done
    ok cag-build --help
    prints "usage: cag-build"
    [ "$(wc -l <<<"$output")" -le 23 ]
    ok cag-build --version
    prints "kvc reads and writes version 1.0"
    fails 69 "cuda" build --device cuda s.md
    [ ! -e x.kvc ]
}

@test "models that are none are named with what they are" {
    fails 66 'model "no.gguf" not found; tried no.gguf' cag-build -m no.gguf -o x.kvc s.md
    fails 65 "s.md: byte 0: not a GGUF model" cag-build -m s.md -o x.kvc s.md
    mkdir empty
    fails 66 "empty: this directory holds no config.json" cag-build -m empty -o x.kvc s.md
    head -c 50000 "$model" >cut.gguf
    run --separate-stderr cag-build -m cut.gguf -o x.kvc s.md </dev/null
    [ "$status" -eq 65 ] || show
    says cut.gguf
    cp -r "$models/qwen3" notok
    rm notok/tokenizer.json
    run --separate-stderr cag-build -m notok -o x.kvc s.md </dev/null
    [ "$status" -eq 66 ] || [ "$status" -eq 65 ] || show
    says tokenizer
    [ ! -e x.kvc ]
}

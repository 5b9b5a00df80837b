#!/usr/bin/env bats
# Builds described in YAML: cag-manifest(5).

load build_helper
setup() {
    begin
    mkdir -p docs/faq
    cp "$model" m.gguf
    echo one >docs/1.md
    echo two >docs/2.md
    echo q >docs/faq/q.md
    echo '<b>page</b> text' >page.html
}

# The manifest page on stdin must be refused with 78 and the place.
refused() {
    cat >bad.yaml
    fails 78 "bad.yaml:$1" cag-build --manifest bad.yaml
}

@test "the example of cag-manifest(5) builds what it says" {
    # the manual's own text, with the model of this test
    local page="$BATS_TEST_DIRNAME/../../man/cag-manifest.5"
    awk '/^\.Sh EXAMPLES/ { e = 1 } e && /^\.Bd/ { on = 1; next } on && /^\.Ed/ { exit } on' "$page" |
        sed 's/\\e/\\/g' >handbook.yaml
    grep -q '^sources:' handbook.yaml
    mkdir -p models docs/policies
    cp m.gguf models/Qwen3-0.6B-Q8_0.gguf
    echo policy >docs/policies/a.md
    echo '<p>prices</p>' >prices.html
    echo 'Say {refusal}' >docs/instructions.txt
    ok cag-build --manifest handbook.yaml
    ok cag-build --check handbook.kvc
    [ "$(cag-inspect --json handbook.kvc | jq -r '[.sources[].name] | join(" ")')" = \
        "docs/1.md docs/2.md docs/policies/a.md Price list" ]
    cag-inspect --text handbook.kvc | grep -qx "prices"
    ok cag-build -v --manifest handbook.yaml
    says "handbook.kvc: fresh"
}

@test "every key; paths are those of the manifest's directory" {
    echo "Use {refusal}" >sys.txt
    cat >all.yaml <<'M'
model: m.gguf
output: out.kvc
codec: f16
precision: exact
device: cpu
front-matter: drop
depfile: out.d
ctx-size: 4096
reserve: 256
threads: 2
batch-size: 32
max-memory: 1G
prompt:
  system-file: sys.txt
  label: KB
  refusal: No.
  chat-template: chatml
  template-date: 2020-02-03
sources:
  - docs
  - path: docs/faq/q.md
    title: Again
M
    (cd / && cag-build -q --manifest "$OLDPWD/all.yaml")
    [ -s out.d ]
    cag-inspect --text out.kvc | grep -x "Use No."
    cag-inspect --text out.kvc | grep -x "## Again"
    [ "$(cag-inspect --json out.kvc | jq -c '[.codec, .ctx_size, .reserve, .meta.provenance.precision]')" = '["f16",4096,256,"exact"]' ]
    cag-inspect out.kvc | grep -q "2020-02-03"
}

@test "command line and manifest give the same bytes for the same meaning" {
    echo "Use {refusal}" >sys.txt
    cat >a.yaml <<'M'
model: m.gguf
output: a.kvc
codec: f16
ctx-size: 4096
prompt: {system-file: sys.txt, refusal: "No.", label: KB}
sources: [docs/2.md, docs/faq]
M
    ok cag-build -q --manifest a.yaml
    ok cag-build -q -m m.gguf -o b.kvc --codec f16 -c 4096 --system-file sys.txt \
        --refusal No. --label KB docs/2.md docs/faq
    cmp a.kvc b.kvc
    # options win over the manifest
    ok cag-build -q --manifest a.yaml --codec f16z -o c.kvc
    [ "$(cag-inspect --json c.kvc | jq -r .codec)" = f16z ]
}

@test "filters: no shell, both digests kept, never run from a cache" {
    cat >f.yaml <<'M'
model: m.gguf
sources:
  - path: page.html
    filter: [sed, "s/<[^>]*>//g; s/page/$(touch ran)/"]
M
    ok cag-build -q --manifest f.yaml
    [ ! -e ran ]
    cag-inspect --text f.kvc | grep -qF '$(touch ran) text'
    cag-inspect --json f.kvc | jq -e '.sources[0] | .sha256_raw != .sha256_text and .filter != null'
    [ "$(cag-inspect --json f.kvc | jq -r '.sources[0].sha256_raw')" = "$(sha256sum <page.html | cut -c 1-64)" ]
    ok cag-build --check f.kvc
    echo new >page.html
    fails 1 "page.html: changed" cag-build --check f.kvc
    says "since a recorded filter is not run"
    fails 69 "page.html changed and goes through the filter sed, and nothing recorded in a cache is executed; run cag-build --manifest" cag-build --refresh f.kvc
    # outside the cache's directory, too: one message says all that is needed
    mkdir deep
    printf 'model: ../m.gguf\nsources:\n  - {path: ../far.html, filter: cat}\n' >deep/f.yaml
    cp page.html far.html
    ok cag-build --manifest deep/f.yaml
    echo more >>far.html
    fails 64 "lies outside the cache's directory and goes through the filter cat: if it changed, run cag-build --manifest" cag-build --refresh deep/f.kvc
    fails 69 "run cag-build --manifest" cag-build --refresh --allow-outside deep/f.kvc
    # {} is the path; a filter may read it itself
    printf 'model: m.gguf\nsources:\n  - {path: page.html, filter: wc -c {}}\n' | sed 's/wc -c {}/[wc, -c, "{}"]/' >g.yaml
    ok cag-build -q --manifest g.yaml
    cag-inspect --text g.kvc | grep -q "^4 $PWD/page.html"
}

@test "--refresh takes the text of filtered sources that did not change from the cache" {
    mkdir f
    printf 'one <b>page</b>' >f/1.html
    printf 'last page\n\n\f' >f/2.html
    cp docs/2.md own.md
    cat >r.yaml <<'M'
model: m.gguf
output: r.kvc
sources:
  - path: own.md
  - path: f/*.html
    filter: [sh, -c, "echo x >>ran; sed 's/<[^>]*>//g'"]
M
    ok cag-build -q --manifest r.yaml
    [ "$(wc -l <ran)" -eq 2 ]
    # fresh, then another source edited, then model options: never run again
    touch -d '+1 hour' f/1.html
    ok cag-build -q --refresh r.kvc
    echo more >>own.md
    fails 1 "own.md: changed" cag-build --check r.kvc
    says "rebuild: cag-build --refresh r.kvc"
    ok cag-build -q --refresh r.kvc
    ok cag-build -q --refresh -B r.kvc
    [ "$(wc -l <ran)" -eq 2 ]
    ok cag-build --check r.kvc
    ok cag-build -q --manifest r.yaml --force -o full.kvc
    cmp r.kvc full.kvc
    # one that is gone needs no filter, one that is new does
    mv f/2.html kept
    fails 1 "f/2.html: deleted" cag-build --check r.kvc
    ok cag-build -q --refresh r.kvc
    mv kept f/2.html
    fails 1 "f/2.html: new file" cag-build --check r.kvc
    says "cag-build --manifest with its manifest"
    cp r.kvc before.kvc
    fails 69 "2.html is new and goes through the filter sh" cag-build --refresh r.kvc
    cmp r.kvc before.kvc
    [ "$(wc -l <ran)" -eq 4 ]
}

@test "filters that fail: exit, signal, time, output, not there, no text" {
    filter() { printf 'model: m.gguf\nsources:\n  - path: page.html\n    filter: %s\n%s' "$1" "$2" >f.yaml; }
    filter '[sh, -c, "echo why >&2; exit 3"]'
    fails 65 "page.html: filter sh ended with status 3: why" cag-build --manifest f.yaml
    filter '[sh, -c, "kill -9 $$"]'
    fails 65 "filter sh ended with signal 9" cag-build --manifest f.yaml
    filter 'sleep 30' $'    timeout: 1\n'
    fails 65 "filter sleep: no end after 1 s" cag-build --manifest f.yaml
    filter 'yes' $'    max-output: 64K\n'
    fails 65 "filter yes: more than 65536 bytes of output" cag-build --manifest f.yaml
    filter 'no-such-command-here x'
    fails 66 "cannot run filter no-such-command-here: No such file" cag-build --manifest f.yaml
    filter '[printf, "\\377"]'
    fails 65 "invalid UTF-8" cag-build --manifest f.yaml
    [ ! -e f.kvc ]
}

@test "every mistake has file, line and column, and ends with 78" {
    refused "2:1: unknown key 'sourcse'" <<<$'model: x\nsourcse: [a]'
    refused "2:1: the key 'model' stands here a second time" <<<$'model: x\nmodel: y\nsources: [a]'
    refused "2:1: the key 'sources' stands" <<<$'sources: [a]\nsources: [b]'
    refused "3:3: the key 'label' stands" <<<$'prompt:\n  label: a\n  label: b\nsources: [a]'
    refused "4:5: the key 'path' stands" <<<$'sources:\n  -\n    path: a\n    path: b'
    refused "1:8: a tag" <<<$'model: !!str x\nsources: [a]'
    refused "1:8: an anchor" <<<$'model: &x y\nsources: [a]'
    refused "1:11: an alias" <<<$'sources: [*x]'
    refused "2:9: found a plain value, expected a mapping" <<<$'model: x\nprompt: text\nsources: [a]'
    refused "1:10: sources is an empty list" <<<'sources: []'
    refused "1:10: sources is a plain value, expected a list" <<<'sources: a'
    refused "1:1: the manifest has no 'sources'" <<<'model: m'
    refused "1:1: the manifest is empty" </dev/null
    refused "2:1: a second document" <<<$'sources: [a]\n---\nsources: [b]'
    refused "1:1: found a list, expected a mapping" <<<'- a'
    refused "1:8: codec is 'f8', expected one of f16z, f16, q8h, f32" <<<$'codec: f8\nsources: [a]'
    refused "1:11: ctx-size is '1e3', expected a whole number" <<<$'ctx-size: 1e3\nsources: [a]'
    refused "1:10: threads is '0', expected" <<<$'threads: 0\nsources: [a]'
    refused "1:8: model is empty" <<<$'model: ""\nsources: [a]'
    refused "2:18: template-date is '2024-13-01', expected YYYY-MM-DD" <<<$'prompt:\n  template-date: 2024-13-01\nsources: [a]'
    refused "2:5: a source without a path" <<<$'sources:\n  - title: x'
    refused "2:18: unknown chat template 'chatlm'; did you mean 'chatml'?" \
        <<<$'prompt:\n  chat-template: chatlm\nsources: [docs]\nmodel: m.gguf'
    refused "1:25: unknown chat template 'none-like-it'; there are chatml, " \
        <<<$'prompt: {chat-template: none-like-it}\nsources: [docs]\nmodel: m.gguf'
    refused "1:9: unknown device 'gpu', expected auto, cpu" \
        <<<$'device: gpu\nsources: [docs]\nmodel: m.gguf'
    refused "1:9: output must be a file" <<<$'output: "-"\nsources: [docs]\nmodel: m.gguf'
    refused "1:11: max-loss is '-1', expected a number from 0" <<<$'max-loss: -1\nsources: [a]'
    refused "1:11: max-loss is '0x1p-3'" <<<$'max-loss: 0x1p-3\nsources: [a]'
    refused "1:11: max-loss is '3e-4 '" <<<$'max-loss: "3e-4 "\nsources: [a]'
    # an option beside the manifest is the user's own mistake
    printf 'model: m.gguf\nsources: [docs]\n' >good.yaml
    fails 64 "unknown device 'gpu'" cag-build --manifest good.yaml --device gpu
    refused "2:15: unknown key 'titel' of a source" <<<$'sources:\n  - {path: a, titel: x}'
    refused "3:13: no shell runs a filter" <<<$'sources:\n  - path: a\n    filter: "a | b"'
    refused "3:14: the filter is empty" <<<$'sources:\n  - path: a\n    filter: []'
    refused "2:5: timeout and max-output belong to a filter" <<<$'sources:\n  - {path: a, timeout: 3}'
    refused "1:11: standard input cannot be" <<<'sources: ["-"]'
    refused "2:1: not valid YAML" <<<'sources: [a'
    refused " byte 0: invalid UTF-8" <<<$'\xff: x'
    refused "" <<<$'prompt: {system: a, system-file: b}\nsources: [a]'
    says "exclude each other"
}

@test "what a manifest names and what is not there" {
    printf 'model: m.gguf\nsources: [gone.md]\n' >a.yaml
    fails 66 "gone.md: cannot read source" cag-build --manifest a.yaml
    printf 'model: m.gguf\nsources: ["gone*.md"]\n' >a.yaml
    fails 66 "gone*.md: no file matches this pattern" cag-build --manifest a.yaml
    fails 66 "no.yaml: cannot open" cag-build --manifest no.yaml
    fails 64 "--manifest names the sources itself" cag-build --manifest a.yaml x.md
    fails 66 "gone*.md: no file matches" cag-build --manifest a.yaml --check
    fails 64 "no other kind of run" cag-build --manifest a.yaml --refresh
    # a name with a bracket that is there is a file, not a pattern
    echo x >'a[1].md'
    printf 'model: m.gguf\nsources: ["a[1].md"]\n' >a.yaml
    ok cag-build -q --manifest a.yaml
    ok cag-build --check a.kvc
    # "no" is a word and 010 is ten
    printf 'model: m.gguf\nreserve: 010\nprompt: {label: no}\nsources: [docs]\n' >a.yaml
    ok cag-build -q -B --manifest a.yaml
    [ "$(cag-inspect --json a.kvc | jq .reserve)" -eq 10 ]
    cag-inspect --text a.kvc | grep -x no
}

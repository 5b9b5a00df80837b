#!/usr/bin/env bats
# Freshness: what makes a cache stale, what does not, and how it is rebuilt.

load build_helper
setup() {
    begin
    mkdir docs
    echo "the code is 4192" >docs/a.md
    echo "second file" >docs/b.md
    echo "third" >c.txt
    cp "$model" m.gguf
    touch -d '1 hour ago' m.gguf docs/* c.txt
    cag-build -q -m m.gguf -o kb.kvc docs c.txt
}

stale() { fails 1 "stale: $1" cag-build --check kb.kvc; says "rebuild: cag-build --refresh kb.kvc"; }
fresh() { ok cag-build --check kb.kvc; [ -z "$output$stderr" ] || show; }

@test "an edit of the same size with the old time is noticed, by all tools" {
    fresh
    sed -i s/4192/4193/ docs/a.md
    touch -d '1 hour ago' docs/a.md
    stale "docs/a.md: changed"
    fails 1 "docs/a.md: changed" cag-ask kb.kvc hello
    fails 1 "docs/a.md: changed" cag-inspect --check kb.kvc
    sed -i s/4193/4192/ docs/a.md
    fresh
}

@test "touched but equal is fresh; a newline, a rename, a swap, a deletion are not" {
    touch docs/* c.txt
    fresh
    echo >>c.txt
    stale "c.txt: changed"
    echo "third" >c.txt
    mv docs/b.md docs/bb.md
    stale "docs/b.md: deleted or renamed"
    says "docs/bb.md: new file"
    mv docs/bb.md docs/b.md
    mv docs/a.md x && mv docs/b.md docs/a.md && mv x docs/b.md
    stale "docs/a.md: changed"
    says "docs/b.md: changed"
    mv docs/a.md x && mv docs/b.md docs/a.md && mv x docs/b.md
    fresh
    # of several files of a directory --refresh finds what is left ...
    mv docs/b.md x
    stale "docs/b.md: deleted or renamed"
    mv x docs/b.md
    # ... one that was named it does not
    rm c.txt
    fails 1 "stale: c.txt: deleted or renamed" cag-build --check kb.kvc
    says "rebuild: restore what is gone, or run cag-build -m m.gguf -c 8192 --reserve 512 -o kb.kvc docs"
    fails 66 "c.txt: cannot read source: No such file" cag-build --refresh kb.kvc
    says "kb.kvc: rebuild: restore what is gone, or run cag-build -m m.gguf"
}

@test "a new file under a recorded directory or glob; a skipped one changes nothing" {
    echo new >docs/new.py
    echo new >docs/.new.md
    fresh
    mkdir docs/sub
    echo new >docs/sub/new.md
    stale "docs/sub/new.md: new file"
    printf 'model: m.gguf\noutput: kb.kvc\nsources: ["docs/*.md"]\n' >kb.yaml
    ok cag-build -q --manifest kb.yaml
    fresh
    echo new >docs/c.md
    stale "docs/c.md: new file"
    ok cag-build --refresh -q kb.kvc
    fresh
}

@test "a model of other weights with the same size and time" {
    cp -p m.gguf old.gguf
    printf '\x01' | dd of=m.gguf bs=1 seek=100000 conv=notrunc status=none
    touch -r old.gguf m.gguf
    fails 1 "stale: $(realpath m.gguf): is not the model the cache was made with (qwen3)" cag-build --check kb.kvc
    # cag-ask: not stale but foreign, with both digests, whatever --stale says
    for s in error warn ignore; do
        fails 65 "m.gguf: another model than the cache's" cag-ask --stale $s kb.kvc hello
        says "$(sha256sum <m.gguf | cut -c 1-16)"
        says "$(sha256sum <old.gguf | cut -c 1-16)"
    done
    # of another size: seen at once, without reading 8 TiB of it
    cp old.gguf m.gguf
    truncate -s 8T m.gguf 2>/dev/null || truncate -s 8G m.gguf
    fails 1 "is not the model the cache was made with" timeout 20 cag-build --check kb.kvc
    mv old.gguf m.gguf
    fresh
}

@test "the memory of hashes: used for the model, not with --verify full, safe to lose" {
    cp -r "$models/qwen3" big
    head -c 3000000 /dev/zero | tr '\0' ' ' >>big/tokenizer.json   # still JSON
    cag-build -q -m big -o big.kvc c.txt
    sleep 2.1         # files younger than two seconds are not remembered
    ok cag-build --check big.kvc
    [ -s "$CAG_CACHE_DIR/fingerprints" ]
    if command -v strace >/dev/null; then
        ASAN_OPTIONS=detect_leaks=0 strace -f -e trace=read -o trace cag-build --check big.kvc
        # nothing near the size of the tokenizer is read any more
        [ "$(awk '/ = [0-9]+$/ { n += $NF } END { print n + 0 }' trace)" -lt 1000000 ]
        ASAN_OPTIONS=detect_leaks=0 strace -f -e trace=read -o trace cag-build --verify full --check big.kvc
        [ "$(awk '/ = [0-9]+$/ { n += $NF } END { print n + 0 }' trace)" -gt 3000000 ]
    fi
    head -c 100 /dev/urandom >"$CAG_CACHE_DIR/fingerprints"
    ok cag-build --check big.kvc
    rm -r "$CAG_CACHE_DIR"
    ok cag-build --check big.kvc
}

@test "carried elsewhere: sources are not seen, which is 66 and no staleness" {
    mkdir away
    cp kb.kvc away/
    fails 66 "kb.kvc: not seen: docs/a.md: not found" cag-build --check away/kb.kvc
    run --separate-stderr cag-build --check --json away/kb.kvc
    [ "$status" -eq 66 ]
    # the model is looked for where a question looks: the memory of hashes knows it
    [ "$(jq -c '[.schema, .state, .sources, .sources_unseen, .model_seen]' <<<"$output")" = '[1,"unseen",3,3,true]' ]
    says "put them there, or build the cache again"
    CAG_CACHE_DIR="$PWD/none" run --separate-stderr cag-build --check --json away/kb.kvc
    [ "$status" -eq 66 ]
    [ "$(jq -c '[.schema, .state, .sources, .sources_unseen, .model_seen]' <<<"$output")" = '[1,"unseen",3,3,false]' ]
    says "tried: recorded path"
    says "name it with CAG_MODEL"
    # the current directory does not matter
    (cd away && cag-build --check ../kb.kvc)
}

@test "--json names every reason; of several caches the worst status counts" {
    echo x >>c.txt
    echo x >docs/d.md
    run --separate-stderr cag-build --check --json kb.kvc
    [ "$status" -eq 1 ]
    [ "$(jq -c '[.state, .reasons, .rebuild]' <<<"$output")" = \
        '["stale",["c.txt: changed","docs/d.md: new file"],"cag-build --refresh kb.kvc"]' ]
    cp kb.kvc "it's.kvc"
    run --separate-stderr cag-build --check --json "it's.kvc"
    eval "$(jq -r .rebuild <<<"$output") -q"
    cag-build --check "it's.kvc"
    fails 66 "no.kvc: cannot open" cag-build --check "it's.kvc" no.kvc
    fails 1 "kb.kvc: stale" cag-build --check kb.kvc "it's.kvc"
    head -c 5000 kb.kvc >cut.kvc
    fails 65 "cut.kvc: the file has 5000 bytes" cag-build --check kb.kvc cut.kvc
    fails 65 "this is a GGUF model" cag-build --check m.gguf
    fails 64 "name at least one" cag-build --check
    fails 64 "exclude each other" cag-build --check --refresh kb.kvc
}

@test "--refresh needs no argument, takes what is recorded, works from anywhere" {
    ok cag-build -q -B -m m.gguf -o kb.kvc --codec f16 -c 2000 --reserve 100 \
        --system 'Use {refusal}' --refusal No. --label KB --front-matter drop docs c.txt
    cag-inspect --json kb.kvc | jq .meta.build >before
    sed -i s/4192/4193/ docs/a.md
    (cd / && cag-build -q --refresh "$OLDPWD/kb.kvc")
    fresh
    cag-inspect --json kb.kvc | jq .meta.build | diff before -
    [ "$(cag-inspect --json kb.kvc | jq -c '[.codec, .ctx_size, .reserve]')" = '["f16",2000,100]' ]
    cag-inspect --text kb.kvc | grep -x "Use No."
    # equal to the same build by hand
    ok cag-build -q -m m.gguf -o full.kvc --codec f16 -c 2000 --reserve 100 \
        --system 'Use {refusal}' --refusal No. --label KB --front-matter drop docs c.txt
    cmp kb.kvc full.kvc
    fails 66 "no.kvc: cannot open" cag-build --refresh no.kvc
}

@test "--refresh finds a moved model by its digest, and says where it looked" {
    echo x >>c.txt
    mkdir shelf
    mv m.gguf shelf/m.gguf
    # the memory of the tests before this one knows a copy
    fails 66 "m.gguf (not there)" env CAG_CACHE_DIR="$PWD/none" cag-build --refresh kb.kvc
    CAG_MODELS="$PWD/nowhere:$PWD/shelf" ok cag-build -q --refresh kb.kvc
    fresh
    # CAG_MODEL names another model: what is recorded comes first
    echo x >>c.txt
    CAG_MODEL="$models/llama.F16.gguf" ok cag-build -q --refresh kb.kvc
    fresh
    cag-inspect kb.kvc | grep -x "model        m.gguf"
    cag-inspect kb.kvc | grep -x "             qwen3"
}

@test "another day, another default prompt: a rebuild keeps what is recorded" {
    cat >date.jinja <<'J'
{{ '<|im_start|>system\nToday is ' + strftime_now('%d %b %Y') + '.<|im_end|>\n' }}{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}
J
    SOURCE_DATE_EPOCH=1000000000 ok cag-build -q -m m.gguf -o d.kvc --chat-template-file date.jinja c.txt
    cag-inspect --text d.kvc | grep -q "Today is 09 Sep 2001."
    ok cag-build -v -m m.gguf -o d.kvc --chat-template-file date.jinja c.txt
    says "d.kvc: fresh"
    echo more >>c.txt
    ok cag-build -q --refresh d.kvc
    cag-inspect --text d.kvc | grep -q "Today is 09 Sep 2001."
    ok cag-build -q -m m.gguf -o d.kvc --chat-template-file date.jinja --template-date 2020-02-29 c.txt
    cag-inspect --text d.kvc | grep -q "Today is 29 Feb 2020."
    # SOURCE_DATE_EPOCH wins over the record, an option over both
    for when in soon ' 5' +5 -5 5x 0x5 253402300800 99999999999999999999; do
        fails 64 "expected seconds since 1970" env SOURCE_DATE_EPOCH="$when" cag-build -m m.gguf -o d.kvc c.txt
    done
    fails 64 "expected YYYY-MM-DD" cag-build -m m.gguf -o d.kvc --template-date 2023-02-30x c.txt
    # two builds on one date are equal bytes
    for i in 1 2; do
        SOURCE_DATE_EPOCH=5 ok cag-build -q -m m.gguf -o e$i.kvc c.txt
    done
    cmp e1.kvc e2.kvc
}

@test "hundreds of sources and no engine: a fresh build takes milliseconds" {
    mkdir many
    for i in {1..300}; do echo "file $i" >many/$i.md; done
    ok cag-build -m m.gguf -o many.kvc many
    says "in 292 more sources (-v lists them)"
    ok cag-build -v -m m.gguf -o many.kvc many
    says "many.kvc: fresh, nothing to do"
    if command -v strace >/dev/null; then
        # no thread is started, and the model's weights are not read
        ASAN_OPTIONS=detect_leaks=0 strace -f -e trace=clone,clone3 -o trace cag-build -m m.gguf -o many.kvc many
        [ "$(grep -c '^[0-9]* *clone' trace)" -eq 0 ]
    fi
}

@test "a hub id is found in the cache on disk, recorded and found again" {
    mkdir -p hf/hub/models--Org--Tiny/refs hf/hub/models--Org--Tiny/snapshots/abc
    printf abc >hf/hub/models--Org--Tiny/refs/main
    cp "$models"/qwen3/* hf/hub/models--Org--Tiny/snapshots/abc/
    export HF_HOME="$PWD/hf"
    ok cag-build -q -m Org/Tiny -o hub.kvc c.txt
    [ "$(cag-inspect --json hub.kvc | jq -r .meta.model.hub)" = Org/Tiny ]
    mv hf hf2
    export HF_HOME="$PWD/hf2"
    echo x >>c.txt
    ok cag-build -q --refresh hub.kvc
    [ "$(cag-inspect --json hub.kvc | jq -r .meta.model.hub)" = Org/Tiny ]
    ok cag-ask -n 1 hub.kvc hello
    fails 66 'model "Org/Other" not found' cag-build -m Org/Other -o x.kvc c.txt
    says "models--Org--Other"
}

@test "options that would be passed over in silence are refused" {
    local o
    for o in "--codec f16" "-c 4096" "--reserve 5" "--system x" "--label x" \
        "--refusal x" "--title x" "--front-matter drop" "--precision exact" \
        "--chat-template chatml"; do
        fails 64 "does not go with --refresh: the cache records it" cag-build --refresh $o f.kvc
        fails 64 "does not go with --check: nothing is built" cag-build --check $o f.kvc
        fails 64 "does not go with --recode: nothing is built" cag-build --recode f16 $o -o g.kvc f.kvc
    done
    for o in "-m x" -B --checkpoint --keep-mtime "--depfile d"; do
        fails 64 "does not go with --check: nothing is built" cag-build --check $o f.kvc
        fails 64 "does not go with --recode: nothing is built" cag-build --recode f16 $o -o g.kvc f.kvc
    done
    fails 64 "-o does not go with --refresh" cag-build --refresh -o g.kvc f.kvc
    fails 64 "refresh one cache at a time" cag-build --refresh --depfile d f.kvc g.kvc
}

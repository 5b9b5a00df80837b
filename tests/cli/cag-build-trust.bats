#!/usr/bin/env bats
# A cache that was damaged, carried, received or whose sources went away: what
# is seen, what is said, and that the command that is told repairs it.

load build_helper
setup() {
    begin
    cp "$model" m.gguf
}

build() { cag-build -q -m m.gguf -o k.kvc "$@"; }

# Three bytes of a stored chunk change.
spoil() {
    local off
    off=$(cag-inspect --json "$1" | jq '.sections[] | select(.name == "KV") | .off')
    printf '\x55\x66\x77' | dd of="$1" bs=1 seek=$((off + 8)) conv=notrunc status=none
}

@test "damage in K and V: every use names the command that repairs, and it does" {
    facts 3 >a.md
    for codec in f16z f16 f32; do
        ok build --codec $codec a.md
        cp k.kvc good.kvc
        spoil k.kvc
        fails 65 "section KV is damaged" cag-ask k.kvc hi
        says "repair it: cag-build --refresh --verify full k.kvc"
        # without --verify full nothing looks, with it all do
        ok cag-build --check k.kvc
        fails 65 "repair it: cag-build --refresh --verify full k.kvc" cag-build --check --verify full k.kvc
        run --separate-stderr cag-build --check --json --verify full k.kvc </dev/null
        [ "$status" -eq 65 ]
        [ "$(jq -r '.state' <<<"$output")" = damaged ]
        [ "$(jq -r '.error' <<<"$output")" != null ]
        cp k.kvc bad.kvc
        ok cag-build --refresh --verify full k.kvc
        says "k.kvc: is damaged (section KV is damaged: layer 0, chunk 0"
        says "it is made anew"
        cmp good.kvc k.kvc
        cp bad.kvc k.kvc
        ok build --codec $codec --verify full a.md
        cmp good.kvc k.kvc
        # the suggested command, as a user pastes it
        cp bad.kvc "it's.kvc"
        run --separate-stderr cag-ask "it's.kvc" hi </dev/null
        command=${stderr##*repair it: }
        eval "$command"
        ok cag-ask -q -n 3 "it's.kvc" hi
        rm "it's.kvc"
    done
    ok cag-build --check --verify full k.kvc
    [ -z "$output$stderr" ]
}

@test "cron heals what rotted: --refresh --verify full, from one night to the next" {
    facts 2 >a.md
    ok build a.md
    night() { cag-build -q --lock-timeout 60 --refresh --verify full k.kvc; }
    run night
    [ "$status" -eq 0 ] && [ -z "$output" ]
    cp k.kvc good.kvc
    stat -c %i k.kvc >before
    run night
    [ "$(stat -c %i k.kvc)" = "$(cat before)" ]
    spoil k.kvc
    run night
    [ "$status" -eq 0 ]
    cmp good.kvc k.kvc
    ok cag-ask -q -n 3 k.kvc hi
    run night
    [ "$status" -eq 0 ] && [ -z "$output" ]
}

@test "deleted sources are stale where their directory is there" {
    mkdir -p docs kb
    echo one >only.md
    echo two >docs/a.md
    ok build only.md
    ok cag-build -q -m m.gguf -o kb/d.kvc docs
    ok cag-build -q -m m.gguf -o kb/f.kvc docs/a.md
    rm only.md docs/a.md
    fails 1 "only.md: deleted or renamed" cag-build --check k.kvc
    fails 1 "stale: only.md: deleted or renamed" cag-ask -q k.kvc hi
    fails 1 "docs/a.md: deleted or renamed" cag-build --check kb/d.kvc
    fails 1 "docs/a.md: deleted or renamed" cag-build --check kb/f.kvc
    # the directory went too (a share that is not mounted), or only the cache was carried
    rmdir docs
    fails 66 "docs/a.md: not found" cag-build --check kb/d.kvc
    mkdir away
    cp k.kvc away/
    fails 66 "only.md: not found" cag-build --check away/k.kvc
}

@test "a named source that is gone: the command that is told works" {
    mkdir sub
    for i in 1 2 3; do echo "Text $i." >sub/$i.md; done
    ok cag-build -q -m m.gguf -o sub/k.kvc --codec f16 --reserve 300 sub/1.md sub/2.md sub/3.md
    rm sub/2.md
    fails 1 "restore what is gone, or run cag-build -m sub/../m.gguf --codec f16" cag-build --check sub/k.kvc
    run --separate-stderr cag-ask sub/k.kvc hi </dev/null
    command=${stderr##*or run }
    eval "$command"
    ok cag-build --check sub/k.kvc
    [ "$(cag-inspect --json sub/k.kvc | jq -c '[.sources[].name]')" = '["1.md","3.md"]' ]
    [ "$(cag-inspect --json sub/k.kvc | jq -c '[.codec, .reserve]')" = '["f16",300]' ]
    # with instructions of one's own the words that are needed are no command
    ok cag-build -q -m m.gguf -o k.kvc --system "Say {refusal}" sub/1.md sub/3.md
    rm sub/3.md
    fails 1 "the cag-build that made it with the sources that are left: sub/1.md" cag-build --check k.kvc
}

@test "--refresh stays below the cache's directory unless told otherwise" {
    mkdir -p home common/docs
    echo 'The password is 4711.' >home/secret.md
    echo text >common/docs/a.md
    # a cache that names what lies elsewhere: directly, by a pattern, by a link
    ok cag-build -q -m m.gguf -o common/f.kvc home/secret.md
    ok cag-build -q -m m.gguf -o common/d.kvc home
    printf 'sources: ["../home/*.md"]\n' >common/g.yaml
    ok cag-build -q -m m.gguf --manifest common/g.yaml
    ok cag-build -q -m m.gguf -o common/l.kvc common/docs
    ln -s ../../home/secret.md common/docs/link.md
    for k in f d g l; do
        cp common/$k.kvc before
        echo 'And 4712.' >>home/secret.md
        fails 64 "lies outside the cache's directory; --allow-outside" cag-build --refresh common/$k.kvc
        cmp before common/$k.kvc
        ok cag-build -q --refresh --allow-outside common/$k.kvc
    done
    fails 1 "" bash -c 'echo x >>home/secret.md; cag-build --check common/f.kvc'
    says "rebuild: cag-build --refresh --allow-outside common/f.kvc"
    fails 64 "--allow-outside belongs to --refresh" build --allow-outside common/docs
    # below it nothing is asked, from any directory, through a link to it too
    rm common/docs/link.md
    echo text >>common/docs/a.md
    ln -s common far
    ok cag-build -q --refresh far/l.kvc
    (cd home && echo text >>../common/docs/a.md && cag-build -q --refresh ../common/l.kvc)
}

@test "--refresh believes only a cache of the caller's or root's" {
    echo text >a.md
    ok build a.md
    echo more >>a.md
    chmod 666 k.kvc
    fails 64 "k.kvc: can be written by everybody" cag-build --refresh k.kvc
    ok cag-build -q --refresh --force k.kvc
    chmod 644 k.kvc
    echo more >>a.md
    ok cag-build -q --refresh k.kvc
    [ "$(id -u)" -eq 0 ] || skip "needs root to play another user"
    chown 12345 k.kvc
    echo more >>a.md
    fails 64 "k.kvc: belongs to another user" cag-build --refresh k.kvc
    fails 1 "a.md: changed" cag-build --check k.kvc
    ok cag-build -q --refresh --force k.kvc
}

@test "a pipe in the place of a recorded source does not block" {
    mkdir docs
    echo text >docs/a.md
    echo text >b.md
    ok build docs b.md
    rm docs/a.md b.md
    mkfifo docs/a.md b.md
    fails 1 "" timeout 20 cag-build --check k.kvc
    run timeout 20 cag-build --refresh k.kvc
    [ "$status" -ne 0 ] && [ "$status" -ne 124 ]
}

@test "a recorded pattern over the whole disk is given up, not walked" {
    echo text >a.md
    printf 'sources: ["a.md", "[a]*.md"]\n' >p.yaml
    ok cag-build -q -m m.gguf --manifest p.yaml
    mkdir many
    (cd many && for i in {1..300}; do mkdir $i && (cd $i && touch {1..700}); done)
    printf 'sources: ["a.md", "many/**/none.md", "a*.md"]\n' >q.yaml
    echo x >many/1/none.md
    ok cag-build -q -m m.gguf --manifest q.yaml
    fails 66 "too many files to look through, not checked" cag-build --check q.kvc
}

@test "--check --json has an object for every file, and a model that is gone is said" {
    echo text >a.md
    ok build a.md
    echo junk >junk.kvc
    run --separate-stderr cag-build --check --json k.kvc none.kvc junk.kvc </dev/null
    [ "$status" -eq 65 ] || show
    [ "$(jq -c '[.file, .state]' <<<"$output" | tr '\n' ' ')" = \
        '["k.kvc","fresh"] ["none.kvc","missing"] ["junk.kvc","unusable"] ' ]
    [ "$(jq -r 'select(.file == "none.kvc") | .error' <<<"$output")" != null ]
    mv m.gguf elsewhere.gguf
    # it is looked for where a question looks for it
    fails 66 "was not found; tried: recorded path" env CAG_CACHE_DIR="$PWD/none" cag-build --check k.kvc
    CAG_CACHE_DIR="$PWD/none" CAG_MODEL=elsewhere.gguf ok cag-build --check k.kvc
    mkdir -p lib && mv elsewhere.gguf lib/m.gguf
    CAG_CACHE_DIR="$PWD/none" CAG_MODELS="$PWD/lib" ok cag-build --check k.kvc
    CAG_CACHE_DIR="$PWD/none" CAG_MODELS="$PWD/lib" ok cag-inspect --check k.kvc
    cp "$models/llama.F16.gguf" m2.gguf
    CAG_CACHE_DIR="$PWD/other" CAG_MODEL=m2.gguf fails 66 "another model than the cache's" cag-build --check k.kvc
}

@test "--check --manifest: would this rebuild, and why" {
    mkdir docs
    echo one >docs/a.md
    echo two >docs/b.md
    printf 'model: m.gguf\nsources: [docs]\n' >kb.yaml
    check() { run --separate-stderr cag-build --check --manifest kb.yaml "$@" </dev/null; }
    check
    [ "$status" -eq 66 ] || show
    says "kb.kvc: is not built yet"
    ok cag-build -q --manifest kb.yaml
    cp kb.kvc before
    check
    [ "$status" -eq 0 ] && [ -z "$output$stderr" ] || show
    why() {
        check
        [ "$status" -eq 1 ] || show || return 1
        says "kb.kvc: stale: $1"
        says "rebuild: cag-build --manifest kb.yaml"
        cmp before kb.kvc
        # and so it is: the build does not find it fresh, --check alone cannot know
        check --json
        [ "$(jq -r .state <<<"$output")" = stale ]
    }
    printf 'model: m.gguf\nreserve: 100\nsources: [docs]\n' >kb.yaml
    why "reserve: changed"
    ok cag-build --check kb.kvc
    printf 'model: m.gguf\nprompt: {label: "TEXT:"}\nsources: [docs]\n' >kb.yaml
    why "prompt: label: changed"
    printf 'model: m.gguf\ncodec: f16\nsources: [docs]\n' >kb.yaml
    why "codec: changed"
    printf 'model: m.gguf\nexclude: b.md\nsources: [docs]\n' >kb.yaml
    why "docs/b.md: is no source any more"
    printf 'model: m.gguf\nsources: [docs]\n' >kb.yaml
    echo new >docs/c.md
    echo x >>docs/a.md
    why "docs/a.md: changed"
    says "docs/c.md: new file"
    rm docs/c.md
    echo one >docs/a.md
    check
    [ "$status" -eq 0 ] || show
    # options win, as in a build
    check --reserve 50
    [ "$status" -eq 1 ] || show
    fails 64 "goes with no other kind of run" cag-build --check --manifest kb.yaml kb.kvc
}

@test "-n beside a cache: kept, to compute, how long" {
    for i in 1 2 3; do facts 8 >$i.md; done
    plan() { run --separate-stderr cag-build -n -m m.gguf -o k.kvc "$@" </dev/null; [ "$status" -eq 0 ] || show; }
    plan 1.md 2.md
    case "$output" in *"is there"*) show ;; esac
    ok build 1.md 2.md
    cp k.kvc before
    plan 1.md 2.md
    prints "k.kvc is there: nothing to compute"
    not grep -q "to read it" <<<"$output"
    plan 1.md 2.md 3.md
    prints "k.kvc is there: "
    kept=$(sed -n 's/.*is there: \([0-9]*\) tokens kept, \([0-9]*\) to compute.*/\1 \2/p' <<<"$output")
    plan --json 1.md 2.md 3.md
    [ "$(jq -r '"\(.tokens_kept) \(.tokens - .tokens_kept)"' <<<"$output")" = "$kept" ]
    cmp before k.kvc
    ok cag-build --json -m m.gguf -o k.kvc 1.md 2.md 3.md
    [ "$(jq -r '"\(.tokens_kept) \(.tokens - .tokens_kept)"' <<<"$output")" = "$kept" ]
    plan -B 1.md 2.md 3.md
    prints "k.kvc is there: 0 tokens kept"
    plan --precision exact 1.md 2.md 3.md
    prints "k.kvc is there: 0 tokens kept"
}

@test "--mode is applied to a fresh cache" {
    echo text >a.md
    ok build --mode 644 a.md
    ok build --mode 600 a.md
    [ "$(stat -c %a k.kvc)" = 600 ]
    ok cag-build -q --refresh --mode 640 k.kvc
    [ "$(stat -c %a k.kvc)" = 640 ]
    ok build a.md
    [ "$(stat -c %a k.kvc)" = 640 ]
}

@test "where nothing can be written a fresh cache is fresh, a stale one an error" {
    echo text >a.md
    ok build a.md
    as=
    if [ "$(id -u)" -eq 0 ]; then
        command -v setpriv >/dev/null || skip "root, and no setpriv"
        as="setpriv --reuid=65534 --regid=65534 --clear-groups"
        # the runner's own directory is closed to others
        d=$(mktemp -d)
        trap 'rm -rf "$d"' EXIT
        cp -p k.kvc k.kvc.lock a.md m.gguf "$d/"
        chown -R 65534 "$d"
        cd "$d"
        $as test -x "$(command -v cag-build)" || skip "the programs are closed to others"
    fi
    export CAG_CACHE_DIR="$PWD/none"
    rm -f k.kvc.lock
    chmod 555 .
    b=$(command -v cag-build)
    ok $as "$b" -q --refresh k.kvc
    ok $as "$b" -q -m m.gguf -o k.kvc a.md
    echo more >>a.md
    fails 73 "k.kvc" $as "$b" -q --refresh k.kvc
    fails 73 "k.kvc" $as "$b" -q -m m.gguf -B -o k.kvc a.md
    fails 73 "n.kvc" $as "$b" -q -m m.gguf -o n.kvc a.md
    chmod 755 .
}

#!/usr/bin/env bats
# Nothing left out in silence: what a directory takes, what it passes over and
# says so, and what the user leaves out.

load build_helper
setup() { begin; }

plan() { run --separate-stderr cag-build -n -m "$model" "$@" </dev/null; }
names() { cag-inspect --json "$1" | jq -r '.sources[].name' | tr '\n' ' '; }
build() { cag-build -q -m "$model" -o k.kvc "$@"; }

@test "letter case, .markdown and .rst count; the rest is counted and named" {
    mkdir docs
    for f in a.md b.rst C.MD d.markdown README f.TXT h.html i.pdf; do
        echo "Text of $f." >docs/$f
    done
    plan docs
    [ "$status" -eq 0 ] || show
    prints "3 files skipped: not .md, .markdown, .rst or .txt (README, h.html, i.pdf)"
    ok cag-build -m "$model" -o k.kvc docs
    says "3 files skipped: not .md"
    [ "$(names k.kvc)" = "C.MD a.md b.rst d.markdown f.TXT " ]
    ok build --json -B docs
    [ "$(jq .skipped <<<"$output")" = 3 ]
    touch docs/j.js
    plan docs
    prints "4 files skipped: not .md, .markdown, .rst or .txt (README, h.html, i.pdf, ...)"
    ok build docs
    [ -z "$stderr" ]
    # nothing skipped, nothing said
    plan docs/a.md
    case "$output" in *skipped*) show ;; esac
}

@test "a text that cannot be seen is an error, in directories, patterns, --refresh" {
    mkdir docs nfs
    echo 'The code is 4711.' >nfs/s.md
    ln -s ../nfs/s.md docs/s.md
    echo 'Opens at 8.' >docs/c.md
    ok build docs
    ok cag-build --check k.kvc
    mv nfs gone
    fails 66 "docs/s.md: cannot read source (a link to ../nfs/s.md): No such file" build docs
    printf 'sources:\n  - docs/*.md\n' >m.yaml
    fails 66 "docs/s.md: cannot read source" cag-build -q -m "$model" --manifest m.yaml -o x.kvc
    fails 66 "docs/s.md: cannot read source" cag-build -q --refresh k.kvc
    fails 66 "docs/s.md: cannot read source" cag-build -n -m "$model" docs
    ok cag-inspect --sources k.kvc
    prints "s.md"
    # what no text's name has is skipped, seen or not
    rm docs/s.md
    ln -s nowhere docs/x.pdf
    ok build docs
    long=$(printf 'd%.0s' {1..250})
    (cd docs && for i in {1..17}; do mkdir "$long" && cd "$long" || exit 1; done && echo deep >deep.md)
    run --separate-stderr build docs </dev/null
    [ "$status" -eq 66 ] || show
    says "File name too long"
}

@test "no permission is an error, not another kind of file" {
    [ "$(id -u)" -ne 0 ] || command -v setpriv >/dev/null || skip "root, and no setpriv"
    mkdir docs
    echo text >docs/a.md
    chmod 644 docs
    chmod 777 .
    as=
    [ "$(id -u)" -ne 0 ] || as="setpriv --reuid=65534 --regid=65534 --clear-groups"
    run --separate-stderr $as env CAG_CACHE_DIR="$PWD/c" "$(command -v cag-build)" -n -m "$model" docs </dev/null
    [ "$status" -ne 0 ] || show
    case "$status" in 66) says "docs/a.md: cannot read source" ;; esac
    chmod 755 docs
}

@test "'**' means what git means" {
    mkdir -p docs/a/b docs/.git
    echo top >docs/top.md
    echo one >docs/a/one.md
    echo two >docs/a/b/two.md
    echo no >docs/.git/no.md
    echo no >docs/a/b/no.txt
    printf 'sources:\n  - docs/**/*.md\n' >g.yaml
    ok cag-build -q -m "$model" --manifest g.yaml
    [ "$(names g.kvc)" = "a/b/two.md a/one.md top.md " ]
    echo new >docs/a/b/new.md
    fails 1 "" cag-build --check g.kvc
    says "docs/a/b/new.md: new file"
    ok cag-build -q --refresh g.kvc
    [ "$(names g.kvc)" = "a/b/new.md a/b/two.md a/one.md top.md " ]
    if command -v git >/dev/null; then
        git init -q . && git add -f docs/top.md docs/a
        [ "$(git ls-files ':(glob)docs/**/*.md' | sed 's,docs/,,' | tr '\n' ' ')" = "$(names g.kvc)" ]
    fi
}

@test "--include and --exclude: patterns as of gitignore, recorded for --refresh" {
    mkdir -p docs/old docs/x/draft
    for f in a.md b.adoc old/o.md x/y.md x/draft/z.md x/draft1.md; do
        echo "Text of $f." >docs/$f
    done
    ok build docs
    cp k.kvc plain.kvc
    ok build --exclude 'draft*' --exclude /old/ docs
    [ "$(names k.kvc)" = "a.md x/y.md " ]
    plan --exclude 'draft*' --exclude /old/ docs
    prints "1 file skipped"
    prints "3 excluded"
    # fresh; an excluded file that is new changes nothing, another one does
    ok build --exclude 'draft*' --exclude /old/ docs
    ok cag-build --check k.kvc
    echo new >docs/x/draft2.md
    ok cag-build --check k.kvc
    echo new >docs/x/n.md
    fails 1 "" cag-build --check k.kvc
    ok cag-build -q --refresh k.kvc
    [ "$(names k.kvc)" = "a.md x/n.md x/y.md " ]
    fails 64 "the cache records it" cag-build -q --refresh --exclude a.md k.kvc
    # other patterns are another build; none gives the bytes there always were
    rm docs/x/draft2.md docs/x/n.md
    ok build docs
    cmp plain.kvc k.kvc
    # include, from a manifest too, with the same bytes
    ok build --include '*.adoc' --include 'old/**' docs
    [ "$(names k.kvc)" = "b.adoc old/o.md " ]
    printf 'include: ["*.adoc", "old/**"]\nsources: [docs]\n' >m.yaml
    ok cag-build -q -m "$model" --manifest m.yaml
    cmp k.kvc m.kvc
    printf 'exclude: "*"\nsources: [docs]\n' >n.yaml
    fails 66 "docs: no file is left below this directory by --include and --exclude" cag-build -m "$model" --manifest n.yaml
    printf 'exclude: ["x.md", "a*"]\nsources: ["docs/*.md"]\n' >n.yaml
    fails 66 "no file of this pattern is left by --exclude" cag-build -m "$model" --manifest n.yaml
    fails 64 "does not begin with '!'" build --exclude '!x' docs
    printf 'exclude: ["!x"]\nsources: [docs]\n' >n.yaml
    fails 78 "n.yaml:1:11: exclude: a pattern cannot begin with '!'" cag-build -m "$model" --manifest n.yaml
}

@test "several bad files are named in one run" {
    mkdir docs
    for i in 1 2 3; do printf 'caf\xe9' >docs/$i.md; done
    echo fine >docs/4.md
    run --separate-stderr cag-build -m "$model" -o k.kvc docs </dev/null
    [ "$status" -eq 65 ] || show
    says "docs/1.md: byte 3: invalid UTF-8"
    says "docs/2.md: invalid UTF-8"
    says "docs/3.md: invalid UTF-8"
    says "2 more cannot be used"
}

@test "an output that the build would read next time is refused" {
    mkdir -p src/sub docs
    echo text >src/a.md
    for o in src/out.md src/sub/x.TXT ./src/../src/o.rst; do
        fails 64 "the next build would read this file as a source (src)" build -o $o src
    done
    fails 64 "would read this file" build --depfile src/dep.txt -o k.kvc src
    printf 'output: src/k.md\nsources: ["src/*.md"]\n' >m.yaml
    fails 64 "would read this file" cag-build -q -m "$model" --manifest m.yaml
    ok build -o src/k.kvc src
    ok build -o src/.hidden.md src
    ok build -o src/out.md --exclude out.md src
    ok build -o src/out2.md src/a.md
    rm src/k.kvc
    fails 64 "would read this file" build --include '*.kvc' --include a.md -o src/n.kvc src
}

@test "a title for many files is not used, and that is said" {
    mkdir docs
    echo one >docs/a.md
    printf 'sources:\n  - path: docs/*.md\n    title: Mine\n  - path: docs\n    title: Dir\n' >m.yaml
    ok cag-build -m "$model" --manifest m.yaml
    says "docs/*.md: the title 'Mine' is not used: it names a single file, not a pattern"
    says "docs: the title 'Dir' is not used: it names a single file, not a directory"
}

@test "a byte order mark before a manifest is none of its text" {
    echo text >a.md
    printf '\xef\xbb\xbfsources: [a.md]\n' >m.yaml
    ok cag-build -q -m "$model" --manifest m.yaml
    printf '\xef\xbb\xbfnokey: 1\nsources: [a.md]\n' >m.yaml
    fails 78 "m.yaml:1:1: unknown key" cag-build -q -m "$model" --manifest m.yaml
}

@test "what does not fit: few lines, the largest first, and what to leave out" {
    mkdir docs
    for i in {1..40}; do facts $((i % 5 + 1)) >docs/f$i.md; done
    facts 30 >docs/big.md
    fails 65 "does not fit" cag-build -m "$model" -o k.kvc -c 2048 --reserve 100 docs
    [ "$(grep -c tokens <<<"$stderr")" -lt 15 ]
    says "in 33 more sources (-n lists them)"
    grep -m1 'tokens  ' <<<"$stderr" | grep -q 'big.md'
    says "without the "
    rm docs/f*
    echo small >docs/a.md
    fails 65 "" cag-build -m "$model" -o k.kvc -c 1024 --reserve 100 docs
    says "without big.md it fits"
    ok cag-build -q -m "$model" -o k.kvc -c 1024 --reserve 100 --exclude big.md docs
    facts 30 >docs/b2.md
    plan -c 1024 --reserve 100 docs
    prints "without big.md and b2.md it fits"
}

@test "the depfile names files as they were given, and make connects them" {
    command -v make >/dev/null || skip "no make"
    mkdir docs
    echo 'echo 5 EUR' >gen.sh
    sh gen.sh >docs/price.md
    printf 'kb.kvc:\n\tcag-build -q -m %s --depfile kb.d -o $@ docs\n-include kb.d\ndocs/price.md: gen.sh\n\tsh gen.sh > $@\n' "$model" >Makefile
    (umask 022 && make -s)
    [ "$(stat -c %a kb.d)" = 644 ]
    grep -q '^ docs/price.md$' kb.d
    touch -d '-2 hours' docs/price.md
    touch -d '-1 hour' kb.kvc
    echo 'echo 7 EUR' >gen.sh
    make -s
    grep -q 7 docs/price.md
    ok cag-inspect --text kb.kvc
    prints "7 EUR"
}

@test "a word that cannot be meant: the hint says what to type" {
    printf 'a\n' >a.md
    ok cag-build -q -m "$model" -o kb.kvc a.md
    fails 64 "'kb.kvc' is a cache, not a text; to rebuild it: cag-build --refresh kb.kvc (--check: is it fresh?)" cag-build kb.kvc
    fails 64 "as in: cag-build -m MODEL -o FILE.kvc docs/" cag-build -o kb.kvc
    fails 64 "no output: name the cache with -o FILE.kvc" cag-build a.md
    fails 65 "this is a .kvc cache" cag-build -m "$model" -o x.kvc kb.kvc
}

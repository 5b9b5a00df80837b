#!/usr/bin/env bats
# What is left when a run is killed, a disk is full, or a file changes under
# the feet of its reader.  CAG_TEST_LONG: 200 kills instead of 10.

bats_require_minimum_version 1.5.0

setup_file() {
    export MODELS="$BATS_TEST_DIRNAME/../golden/models"
    export TOOLS="$BATS_TEST_DIRNAME/../tools"
    export PATH="${CAG_BIN:-$BATS_TEST_DIRNAME/../../build/release}:$PATH"
    export HOME="$BATS_FILE_TMPDIR/home" LC_ALL=C.UTF-8 TERM=dumb
    unset "${!CAG_TEST_N@}" CAG_MODEL CAG_MODELS XDG_CACHE_HOME
    export M="$MODELS/qwen3"
    mkdir -p "$HOME" "$BATS_FILE_TMPDIR/base/docs"
    cd "$BATS_FILE_TMPDIR/base" || return 1
    printf 'The Sparrow-7 flies 47 minutes.\n' >docs/a.md
    printf 'Maya Sen leads Project Atish.\n' >docs/b.md
    cag-build -q -m "$M" -o kb.kvc docs
    # a big one, so that there is time to pull it away
    for i in $(seq 220); do echo "Line $i says $((i * i)) and $((i * 7919))."; done >big.md
    cag-build -q -m "$M" --codec f32 -o big.kvc big.md
}

setup() {
    cp -r "$BATS_FILE_TMPDIR/base" "$BATS_TEST_TMPDIR/w"
    cd "$BATS_TEST_TMPDIR/w" || return 1
}

sha() {
    sha256sum <"$1" | cut -d' ' -f1
}

# No temporary of ours is left, in the directory or below it.
clean() {
    [ -z "$(find . -name '.*.tmp')" ] || { find . -name '.*.tmp'; return 1; }
}

# One line from the tool (but for warnings), that holds the word.
one_line() {
    sed -i '/^[a-z-]*: warning: /d' err
    [ "$(wc -l <err)" -eq 1 ] || { cat err; return 1; }
    grep -q "^$1: .*$2" err || { cat err; return 1; }
}

@test "kill -9 at random moments: the old file or the new one, and the next run cleans up" {
    old=$(sha kb.kvc)
    cp kb.kvc old.kvc
    for i in $(seq 120); do echo "Line $i: $((i * 31)) is it."; done >docs/c.md
    cag-build -q -m "$M" -o new.kvc docs
    new=$(sha new.kvc)
    n=$([ "${CAG_TEST_LONG:-}" ] && echo 200 || echo 10)
    killed=0
    for i in $(seq "$n"); do
        cp old.kvc kb.kvc
        cag-build -q -B -t 1 -m "$M" -o kb.kvc docs &
        pid=$!
        sleep "0.$(printf %03d $((RANDOM % 120)))"
        kill -9 "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || killed=$((killed + 1))
        is=$(sha kb.kvc)
        [ "$is" = "$old" ] || [ "$is" = "$new" ]
        cag-inspect -t kb.kvc
        cag-build -q -m "$M" -o kb.kvc docs
        [ "$(sha kb.kvc)" = "$new" ]
        clean
    done
    [ "$killed" -gt 0 ]
}

@test "SIGTERM and SIGINT: 143 and 130, the old file, no temporary" {
    old=$(sha kb.kvc)
    for i in $(seq 150); do echo "Line $i: $((i * 31)) is it."; done >docs/c.md
    for sig in TERM INT; do
        mkfifo go
        # -q: a build that had ended would say nothing; its file would differ
        perl -e '$SIG{INT} = "DEFAULT"; exec @ARGV' \
            cag-build -q -B -m "$M" -o kb.kvc docs - <go &
        pid=$!
        exec 7>go
        while ! [ -e kb.kvc.lock ] || ! kill -0 "$pid"; do sleep 0.01; done
        sleep 0.05
        kill -"$sig" "$pid"
        exec 7>&-
        status=0
        wait "$pid" || status=$?
        rm go
        [ "$status" -eq "$([ $sig = TERM ] && echo 143 || echo 130)" ]
        [ "$(sha kb.kvc)" = "$old" ]
        clean
    done
}

@test "a small file system: nothing half-written, the space is missed before the prefill" {
    unshare -rm sh -c 'mount -t tmpfs -o size=64k none /mnt' 2>/dev/null ||
        skip "cannot mount a tmpfs here"
    unshare -rm sh -ec '
        mkdir small
        mount -t tmpfs -o size=4m none small
        cag-build -q -m "$M" -o small/kb.kvc docs
        sum=$(sha256sum <small/kb.kvc)
        head -c 2600000 /dev/zero >small/full
        status=0
        cag-build -q -B -m "$M" -o small/kb.kvc docs 2>err || status=$?
        [ $status -eq 73 ]
        [ "$(sha256sum <small/kb.kvc)" = "$sum" ]
        [ -z "$(find small -name ".*.tmp")" ]
        rm small/full
        cag-build -q -B -m "$M" -o small/kb.kvc docs
        # room for the cache, but for no checkpoint beside it
        mount -o remount,size=48m small
        head -c 24m /dev/zero >small/full
        cag-build -B -b 64 -t 1 --checkpoint --checkpoint-interval 0.001 -m "$M" \
            -o small/big.kvc big.md 2>warn
        grep "^cag-build: warning: no checkpoint: .*a checkpoint and the cache" warn
        cag-inspect -t small/big.kvc
    '
    one_line cag-build 'free'
}

@test "a file cut while cag-inspect -t reads it: one line, 74" {
    status=0
    perl "$TOOLS/cut_mapped.pl" big.kvc 8192 cag-inspect -t --threads 1 big.kvc 2>err || status=$?
    [ "$status" -ne 99 ] || skip "the machine was too fast"
    # cut before the header was read it is a damaged file, else a lost page
    [ "$status" -eq 74 ] || [ "$status" -eq 65 ]
    one_line cag-inspect ''
}

@test "a file cut while cag-ask holds it: one line, 74" {
    mkfifo in
    cag-ask --stale ignore -t 1 -n 2 -i big.kvc <in >out 2>err &
    pid=$!
    exec 7>in
    # it has opened the cache once it answers
    echo 'Who?' >&7
    for i in $(seq 400); do [ -s out ] && break; sleep 0.02; done
    truncate -s 8192 big.kvc
    # it may have met the cut already, in the rest of its first answer
    (echo 'Why?' >&7) 2>/dev/null || true
    exec 7>&-
    status=0
    wait "$pid" || status=$?
    [ "$status" -eq 74 ]
    # seen before the next question, or met as a lost page
    one_line cag-ask 'changed in place\|cut short'
}

@test "a file replaced under cag-ask: batch and interactive use keep the old one" {
    id=$(cag-inspect --digest kb.kvc | cut -c1-64)
    printf 'All is different now.\n' >docs/a.md
    cag-build -q -m "$M" -o next.kvc docs
    mkfifo in rows
    cag-ask --stale ignore -n 2 --batch - kb.kvc <rows >out.jsonl 2>err &
    batch=$!
    exec 8>rows
    cag-ask --stale ignore -n 2 -i kb.kvc <in >out 2>>err &
    talk=$!
    exec 7>in
    echo '{"question":"Who leads?"}' >&8
    echo 'Who leads?' >&7
    for i in $(seq 400); do [ -s out ] && [ -s out.jsonl ] && break; sleep 0.02; done
    mv next.kvc kb.kvc
    echo '{"question":"Who leads, then?"}' >&8
    echo 'Who leads?' >&7
    exec 7>&- 8>&-
    wait "$batch" "$talk"
    [ "$(jq -r .content_id out.jsonl | sort -u)" = "$id" ]
    [ "$(wc -l <out.jsonl)" -eq 2 ]
    # the same question, the same answer: from the old file both times
    [ "$(sed -n 1p out)" = "$(sed -n 2p out)" ]
    [ "$(cag-inspect --digest kb.kvc | cut -c1-64)" != "$id" ]
}

@test "two builders and fifty readers: everybody sees one whole file" {
    mkdir docs2
    printf 'The Sparrow-8 flies 48 minutes.\n' >docs2/a.md
    cag-build -q -m "$M" -o two.kvc docs2
    ids="$(cag-inspect --digest kb.kvc | cut -c1-64) $(cag-inspect --digest two.kvc | cut -c1-64)"
    for d in docs docs2; do
        (for i in 1 2 3 4; do
            cag-build -q -B -t 1 --lock-timeout 60 -m "$M" -o kb.kvc $d || echo "builder: $?" >>bad
        done) &
    done
    for r in $(seq 50); do
        (
            if [ $((r % 2)) = 0 ]; then
                cag-inspect -q -t kb.kvc 2>>bad || echo "reader $r" >>bad
                id=$(cag-inspect --digest kb.kvc 2>>bad | cut -c1-64)
            else
                id=$(cag-ask -q -t 1 -n 1 --stale ignore --json kb.kvc 'Who?' 2>>bad | jq -r .content_id)
            fi
            case " $ids " in *" $id "*) ;; *) echo "reader $r: id '$id'" >>bad ;; esac
        ) &
    done
    wait
    [ ! -s bad ] || { cat bad; return 1; }
    clean
}

@test "the lock: 75 at once, or after waiting; readers need none" {
    exec 9>kb.kvc.lock
    flock 9
    run --separate-stderr cag-build -q -B -m "$M" -o kb.kvc docs
    [ "$status" -eq 75 ]
    [[ "$stderr" == *kb.kvc.lock* ]]
    run cag-build -q -B --lock-timeout 0.2 -m "$M" -o kb.kvc docs
    [ "$status" -eq 75 ]
    cag-ask -q -n 1 kb.kvc 'Who?' >/dev/null
    cag-inspect -t kb.kvc
    (sleep 0.3; flock -u 9) &
    cag-build -q -B --lock-timeout 30 -m "$M" -o kb.kvc docs
    wait
    [ -e kb.kvc.lock ]
}

@test "an interrupted build with --checkpoint goes on; the file is the same" {
    for i in $(seq 150); do echo "Line $i: $((i * 31)) is it."; done >docs/c.md
    cag-build -q -m "$M" -o ref.kvc docs
    for i in 1 2 3 4; do
        rm -f kb.kvc
        sig=$([ $((i % 2)) = 0 ] && echo KILL || echo TERM)
        cag-build -q --checkpoint --checkpoint-interval 0.001 -b 64 -t 1 -m "$M" -o kb.kvc docs &
        pid=$!
        sleep "0.$(printf %03d $((i * 20)))"
        kill -"$sig" "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
        [ ! -e kb.kvc.ckpt ] || [ "$(stat -c %a kb.kvc.ckpt)" = 600 ]
        cag-build --json -q --checkpoint -m "$M" -o kb.kvc docs >report.json
        jq -e '.tokens_resumed >= 0' report.json
        cmp kb.kvc ref.kvc
        [ ! -e kb.kvc.ckpt ]
        clean
    done
    run cag-build --checkpoint-interval 3 -m "$M" -o kb.kvc docs
    [ "$status" -eq 64 ]
}

@test "bits flipped at random: cag-ask and cag-inspect -t both refuse, and name the place" {
    size=$(stat -c %s kb.kvc)
    cag-inspect --tensors kb.kvc >sections
    for i in $(seq 12); do
        cp kb.kvc x.kvc
        at=$(((RANDOM * 32768 + RANDOM) % size))
        perl -e 'open F, "+<", "x.kvc" or die; seek F, $ARGV[0], 0; read F, $b, 1;
            seek F, $ARGV[0], 0; print F chr(ord($b) ^ 1 << $ARGV[1])' "$at" $((i % 8))
        status=0
        cag-inspect -t x.kvc 2>err || status=$?
        [ "$status" -eq 65 ] || [ "$status" -eq 69 ]
        one_line cag-inspect ''
        if grep -q padding err; then
            continue
        fi
        status=0
        cag-ask --stale ignore -m "$M" -n 1 x.kvc 'Who?' >out 2>err || status=$?
        [ "$status" -eq 65 ] || [ "$status" -eq 69 ]
        [ ! -s out ]
        one_line cag-ask 'x.kvc'
        [ "$at" -lt 4096 ] || grep -q 'section' err
    done
}

@test "a file cut anywhere: cag-ask and cag-inspect refuse it" {
    size=$(stat -c %s kb.kvc)
    for n in 0 1 7 8 9 100 4095 4096 4097 $((size / 2)) $((size - 4096)) $((size - 1)); do
        head -c "$n" kb.kvc >x.kvc
        status=0
        cag-ask --stale ignore -m "$M" x.kvc 'Who?' >out 2>err </dev/null || status=$?
        [ "$status" -eq 65 ]
        one_line cag-ask 'x.kvc'
        status=0
        cag-inspect x.kvc >out 2>err || status=$?
        [ "$status" -eq 65 ]
        one_line cag-inspect 'x.kvc'
    done
}

@test "recoded into another directory: --check and --refresh work there" {
    mkdir -p far/away
    cag-build -q --recode f16 kb.kvc -o far/away/kb.kvc
    cag-build --check far/away/kb.kvc
    cd far
    cag-build --check away/kb.kvc
    printf 'It flies 48 minutes.\n' >../docs/a.md
    run cag-build --check away/kb.kvc
    [ "$status" -eq 1 ]
    # its sources are not below it: that is read only on demand
    run cag-build -q --refresh away/kb.kvc
    [ "$status" -eq 64 ]
    cag-build -q --refresh --allow-outside away/kb.kvc
    cag-build --check away/kb.kvc
    cag-inspect --text away/kb.kvc | grep -q '48 minutes'
    cag-inspect --sources away/kb.kvc >list
    [ "$(wc -l <list)" -eq 2 ]
    # through a link, and back
    ln -s far/away/kb.kvc ../link.kvc
    cd ..
    cag-build -q --recode f16z link.kvc -o back.kvc
    cag-build --check back.kvc
    cag-ask -q -n 1 back.kvc 'How long?' >/dev/null
}

@test "little memory: 71 and one line, or it works" {
    [ "${CAG_MODE:-release}" = release ] || skip "sanitizers want address space"
    refused=0
    for kb in 13000 17000 21000 25000 29000 33000; do
        for c in "cag-ask -t 2 -n 1 kb.kvc Who?" "cag-inspect --threads 2 -t kb.kvc" \
            "cag-build -q -B -t 2 -m $M -o x.kvc docs"; do
            status=0
            (ulimit -v $kb; $c >out 2>err </dev/null) || status=$?
            # 127: the dynamic linker's, before the program began
            [ "$status" -eq 0 ] || [ "$status" -eq 127 ] && continue
            [ "$status" -eq 71 ] || { echo "$kb: $c: $status"; cat err; return 1; }
            one_line "${c%% *}" ''
            refused=$((refused + 1))
        done
    done
    [ "$refused" -gt 0 ]
    [ ! -e x.kvc ] || cag-inspect -t x.kvc
    clean
}

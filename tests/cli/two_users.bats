#!/usr/bin/env bats
# Two users in a shared directory: what the other one leaves there is not
# believed, opens nothing, and does not stop a build.  cag(7), SECURITY.

load build_helper

setup() {
    begin
    [ "$(id -u)" = 0 ] || skip "needs root to play two users"
    command -v setpriv >/dev/null || skip "no setpriv"
    dir=$(mktemp -d /tmp/cag-two-XXXXXX)
    chmod 1777 "$dir"
    cd "$dir" || return 1
    mkdir -m 700 alice bob
    chown 20001:20001 alice
    chown 20002:20002 bob
    setpriv --reuid=20001 --regid=20001 --clear-groups test -x "$(command -v cag-build)" &&
        setpriv --reuid=20001 --regid=20001 --clear-groups test -r "$model" ||
        skip "the build tree is closed to other users"
    facts 30 >src.md
    chmod 644 src.md
}

teardown() {
    [ -z "$dir" ] || rm -rf "$dir"
}

# alice CMD..., bob CMD...: the user's own home and memory
alice() {
    as 20001 alice "$@"
}

bob() {
    as 20002 bob "$@"
}

as() {
    local id=$1 home=$dir/$2
    shift 2
    timeout 120 setpriv --reuid="$id" --regid="$id" --clear-groups \
        env HOME="$home" CAG_CACHE_DIR="$home/cache" "$@"
}

# mode_is MODE FILE
mode_is() {
    [ "$(stat -c %a "$2")" = "$1" ] || { stat -c '%a %U %n' "$2"; return 1; }
}

@test "a lock is as private as its cache; who may not read it cannot hold it" {
    umask 0
    ok alice cag-build -q -m "$model" -o k.kvc src.md
    mode_is 600 k.kvc
    mode_is 600 k.kvc.lock
    run bob flock -n k.kvc.lock true
    [ "$status" -ne 0 ]
    ok alice cag-build -q -B --mode 640 -m "$model" -o k.kvc src.md
    mode_is 640 k.kvc
    mode_is 640 k.kvc.lock
    # one that an older version left is closed
    chmod 666 k.kvc.lock
    ok alice cag-build -q -B --mode 600 -m "$model" -o k.kvc src.md
    mode_is 600 k.kvc.lock
}

@test "a link or a pipe in the place of a lock ends the build at once" {
    echo precious >alice/file
    chown 20001 alice/file
    for kind in dangling file pipe; do
        case $kind in
        dangling) bob ln -s /nowhere k.kvc.lock ;;
        file) bob ln -s "$dir/alice/file" k.kvc.lock ;;
        pipe) bob mkfifo k.kvc.lock ;;
        esac
        fails 73 "k.kvc.lock" alice cag-build -q --lock-timeout 60 -m "$model" -o k.kvc src.md
        says "remove it"
        [ "$(printf '%s\n' "$stderr" | wc -l)" -eq 1 ]
        rm k.kvc.lock
        [ ! -e k.kvc ]
    done
    [ "$(cat alice/file)" = precious ]
    # the memory of digests: it is not kept then, and nothing hangs
    mkdir -p alice/cache
    ln -s /nowhere alice/cache/fingerprints.lock
    chown -R 20001 alice/cache
    ok alice cag-build -q -m "$model" -o k.kvc src.md
    ok alice cag-ask -q -n 2 k.kvc hi
    rm -f alice/cache/fingerprints
    alice mkfifo alice/cache/fingerprints
    ok alice cag-ask -q -n 2 k.kvc hi
}

@test "another user's checkpoint is no beginning" {
    facts 150 >src.md
    for d in 0.2 0.4 0.8 1.6 3.2; do
        bob env CAG_KERNELS=scalar timeout -s INT "$d" \
            cag-build -q -t 1 -b 16 --checkpoint -m "$model" -o k.kvc src.md 2>/dev/null || true
        [ ! -e k.kvc.ckpt ] || break
        rm -f k.kvc
    done
    [ -s k.kvc.ckpt ]
    chmod 644 k.kvc.ckpt # as a forger would leave it
    cp -p k.kvc.ckpt kept
    rm -f k.kvc.lock
    ok alice cag-build -q -m "$model" -o clean.kvc src.md
    ok alice cag-build -v --checkpoint -m "$model" -o k.kvc src.md
    says "k.kvc.ckpt: belongs to user 20002, neither to you nor to root; its tokens are computed anew"
    not grep -q "kept from an interrupted build" <<<"$stderr"
    cmp k.kvc clean.kvc
    # the same bytes as her own are taken
    rm -f k.kvc k.kvc.ckpt
    mv kept k.kvc.ckpt
    chown 20001:20001 k.kvc.ckpt
    ok alice cag-build -v --checkpoint -m "$model" -o k.kvc src.md
    says "kept from an interrupted build"
    cmp k.kvc clean.kvc
}

@test "a received cache begins no cache of one's own" {
    chmod 777 "$dir" # she may replace it
    ok bob cag-build -q --mode 644 -m "$model" -o k.kvc src.md
    rm -f k.kvc.lock
    echo 'And one more.' >>src.md
    ok alice cag-build -v -m "$model" -o k.kvc src.md
    says "belongs to user 20002, neither to you nor to root; its tokens are computed anew"
    [ "$(stat -c %u k.kvc)" = 20001 ]
    mode_is 600 k.kvc
    echo 'And the last one.' >>src.md
    ok alice cag-build -v -m "$model" -o k.kvc src.md
    not grep -q "computed anew" <<<"$stderr"
    [ "$(stat -c %u k.kvc)" = 20001 ]
    # one that others may write
    chmod 666 k.kvc
    echo 'After all, one more.' >>src.md
    ok alice cag-build -v -m "$model" -o k.kvc src.md
    says "may be written by other users (mode 666); its tokens are computed anew"
}

@test "in a directory of a group the owner's mode stays, another's is not taken over, and said" {
    local team=20009
    member() {
        timeout 120 setpriv --reuid="$1" --regid="$1" --groups=$team \
            env CAG_CACHE_DIR="$dir/$2/cache" "${@:3}"
    }
    mkdir team
    chgrp $team team
    chmod 2770 team
    cp src.md team/src.md
    chmod 644 team/src.md
    cd team
    ok member 20001 alice cag-build -q --mode 640 -m "$model" -o k.kvc src.md
    [ "$(stat -c '%a %u %g' k.kvc)" = "640 20001 $team" ]
    echo more >>src.md
    ok member 20001 alice cag-build -m "$model" -o k.kvc src.md
    [ "$(stat -c '%a %u %g' k.kvc)" = "640 20001 $team" ]
    not grep -q "is not taken over" <<<"$stderr"
    ok member 20002 bob cag-ask -q -n 2 k.kvc hi
    # built anew by another member it is his, and what he did not say is not given
    echo still more >>src.md
    ok member 20002 bob cag-build -m "$model" -o k.kvc src.md
    says "k.kvc: belonged to user 20001, whose mode 640 is not taken over: now only you can read it; --mode lets others"
    [ "$(stat -c '%a %u %g' k.kvc)" = "600 20002 $team" ]
    ok member 20002 bob cag-build -q --mode 640 -m "$model" -o k.kvc src.md
    [ "$(stat -c '%a %u %g' k.kvc)" = "640 20002 $team" ]
    ok member 20001 alice cag-ask -q -n 2 k.kvc hi
    cd ..
}

@test "a file that another user made ready gives no mode" {
    chmod 777 "$dir"
    bob sh -c 'umask 0; : >k.kvc; chmod 6777 k.kvc'
    ok alice cag-build -q -m "$model" -o k.kvc src.md
    [ "$(stat -c %u k.kvc)" = 20001 ]
    mode_is 600 k.kvc
    mode_is 600 k.kvc.lock
}

@test "answers: -o keeps the mode, PATH.part is no wider, no link is followed" {
    ok alice cag-build -q -m "$model" -o k.kvc src.md
    printf 'Who?\nWhat?\n' >q.txt
    alice sh -c 'umask 022; : >a.jsonl; chmod 600 a.jsonl; mkfifo alice/pipe'
    alice cag-ask -q -n 2 --batch alice/pipe -o a.jsonl k.kvc &
    exec 7>alice/pipe
    echo 'Who?' >&7
    local i=0
    until [ -s a.jsonl.part ] || [ $i -gt 1000 ]; do
        sleep 0.01
        i=$((i + 1))
    done
    mode_is 600 a.jsonl.part
    exec 7>&-
    wait
    mode_is 600 a.jsonl
    [ "$(wc -l <a.jsonl)" -eq 1 ]
    echo precious >victim
    chown 20001 victim
    bob ln -s "$dir/victim" b.jsonl.part
    fails 73 "is a symbolic link" alice cag-ask -q -n 2 --batch q.txt -o b.jsonl k.kvc
    [ "$(cat victim)" = precious ]
    ln victim c.jsonl.part
    fails 73 "has another name" alice cag-ask -q -n 2 --batch q.txt -o c.jsonl k.kvc
    [ "$(cat victim)" = precious ]
    bob sh -c 'echo "{}" >d.jsonl.part; chmod 666 d.jsonl.part'
    fails 73 "belongs to another user" alice cag-ask -q -n 2 --resume --batch q.txt -o d.jsonl k.kvc
    bob sh -c 'echo "{\"question\":\"Who?\",\"answer\":\"forged\"}" >e.jsonl; chmod 666 e.jsonl'
    fails 73 "belongs to another user" alice cag-ask -q -n 2 --resume --batch q.txt -o e.jsonl k.kvc
}

@test "a plugin beside the program that others could have written is not loaded" {
    mkdir bin
    cp "$(command -v cag-ask)" "$(command -v cag-build)" bin
    echo 'no library' >bin/libcag-cuda.so
    chmod 666 bin/libcag-cuda.so
    ok alice cag-build -q -m "$model" -o k.kvc src.md
    fails 69 "may be written by everybody" alice bin/cag-ask -q -n 2 --device cuda k.kvc hi
    chmod 644 bin/libcag-cuda.so
    chown 20002 bin/libcag-cuda.so
    fails 69 "belongs to user 20002" alice bin/cag-ask -q -n 2 --device cuda k.kvc hi
    chown 20001 bin/libcag-cuda.so
    fails 69 "cannot load the CUDA plugin" alice bin/cag-ask -q -n 2 --device cuda k.kvc hi
}

@test "a source that became a pipe does not stop a refresh" {
    alice cp src.md alice/s.md
    ok alice cag-build -q -m "$model" -o k.kvc alice/s.md
    rm alice/s.md
    alice mkfifo alice/s.md
    fails 66 "is now a pipe or a device" alice cag-build -q --refresh k.kvc
}

@test "no output goes through a link that another user has made" {
    chmod 777 "$dir" # and not sticky: the kernel does not help
    printf 'How long?\n' >q.txt
    printf '{"question":"How long?","answers":["47"]}\n' >gold.jsonl
    chmod 644 q.txt gold.jsonl
    ok alice cag-build -q --mode 644 -m "$model" -o k.kvc src.md
    alice sh -c 'echo precious >alice/own'
    for to in out log dep json svg rows kvc tensors serve; do
        bob ln -s alice/own "by-bob.$to"
        bob ln -s "by-bob.$to" "twice.$to"
    done
    for by in by-bob twice; do
        fails 73 "is a link that user 20002 has made" alice cag-ask -q -n 2 --batch q.txt -o $by.out k.kvc
        fails 73 "is a link that user 20002 has made" alice cag-ask -q -n 2 --log $by.log k.kvc "How long?"
        fails 73 "is a link that user 20002 has made" alice cag-build -q -B --depfile $by.dep -m "$model" -o k2.kvc src.md
        fails 73 "is a link that user 20002 has made" alice cag-build -q -m "$model" -o $by.kvc src.md
        fails 73 "is a link that user 20002 has made" alice cag-bench load -q -r 1 --export-json $by.json k.kvc
        fails 73 "is a link that user 20002 has made" alice cag-bench load -q -r 1 --svg $by.svg k.kvc
        fails 73 "is a link that user 20002 has made" alice cag-bench eval -q -n 2 --questions gold.jsonl --rows $by.rows k.kvc
        fails 73 "is a symbolic link" alice cag-inspect -q --export $by.tensors k.kvc
        fails 73 "is a link that user 20002 has made" alice cag-serve --listen 127.0.0.1:0 --log $by.serve k.kvc
    done
    [ "$(cat alice/own)" = precious ]
    # where one may not write, that is said before the work
    bob mkdir -m 755 only-his
    for log in only-his/log bob/log; do
        fails 73 "Permission denied" alice cag-ask -q -n 2 --log $log k.kvc "How long?"
        [ -z "$output" ]
    done
    # nor is a file written that he has prepared, and can read
    bob sh -c 'umask 0; : >open'
    fails 73 "open: belongs to user 20002, who could read what is written" alice cag-ask -q -n 2 --log open k.kvc "How long?"
    fails 73 "open: belongs to user 20002" alice cag-bench load -q -r 1 --export-json open k.kvc
    fails 73 "open: belongs to user 20002" alice cag-bench eval -q -n 2 --questions gold.jsonl --rows open k.kvc
    fails 73 "open: belongs to user 20002" alice cag-serve --listen 127.0.0.1:0 --log open k.kvc
    [ ! -s open ]
    # nor do the directories on the way belong to a link of his
    bob ln -s alice shared
    bob ln -s shared/../alice again
    for by in shared again; do
        fails 73 "the way to it, $by, goes through a link that user 20002 has made" \
            alice cag-ask -q -n 2 --batch q.txt -o $by/a.out k.kvc
        fails 73 "goes through a link that user 20002" alice cag-ask -q -n 2 --log $by/a.log k.kvc "How long?"
        fails 73 "goes through a link that user 20002" alice cag-build -q -B --depfile $by/a.dep -m "$model" -o k2.kvc src.md
        fails 73 "goes through a link that user 20002" alice cag-build -q -m "$model" -o $by/a.kvc src.md
        fails 73 "goes through a link that user 20002" alice cag-bench load -q -r 1 --export-json $by/a.json k.kvc
        fails 73 "goes through a link that user 20002" alice cag-bench eval -q -n 2 --questions gold.jsonl --rows $by/a.rows k.kvc
        fails 73 "goes through a link that user 20002" alice cag-inspect -q --export $by/a.tensors k.kvc
        fails 73 "goes through a link that user 20002" alice cag-serve --listen 127.0.0.1:0 --log $by/a.serve k.kvc
        fails 73 "goes through a link that user 20002" alice cag-serve --listen unix:$by/sock k.kvc
    done
    run ls alice
    [ "$output" = "cache
own" ] || [ "$output" = own ]
    # one's own lead where one wants
    alice ln -s alice/answers mine
    ok alice cag-ask -q -n 2 --batch q.txt -o mine k.kvc
    [ -s alice/answers ]
    alice ln -s alice/lines mine.log
    ok alice cag-ask -q -n 2 --log mine.log k.kvc "How long?"
    [ "$(wc -l <alice/lines)" = 1 ]
    alice ln -s alice/. home
    ok alice cag-ask -q -n 2 --log home/lines k.kvc "How long?"
    [ "$(wc -l <alice/lines)" = 2 ]
    # and nobody is waited for
    alice mkfifo pipe
    run alice timeout 20 cag-ask -q -n 2 --log pipe k.kvc "How long?"
    [ "$status" = 74 ]
    [[ $output == *"pipe: is a FIFO that nobody reads"* ]]
    run alice timeout 20 cag-bench load -q -r 1 --export-json pipe k.kvc
    [ "$status" = 73 ]
    [[ $output == *"pipe: is a FIFO that nobody reads"* ]]
    run alice timeout 20 cag-ask -q -n 2 --batch q.txt -o pipe k.kvc
    [ "$status" = 73 ]
    [[ $output == *"pipe: is a FIFO that nobody reads"* ]]
    # who comes a little later is in time
    (sleep 0.3; exec cat pipe >rows) &
    ok alice cag-ask -q -n 2 --batch q.txt -o pipe k.kvc
    wait
    [ "$(wc -l <rows)" = 1 ]
}

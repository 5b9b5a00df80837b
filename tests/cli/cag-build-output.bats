#!/usr/bin/env bats
# The file cag-build writes: where, how, and what happens when it cannot.

load build_helper
setup() {
    begin
    facts 2 >s.md
}

build() { cag-build -q -m "$model" "$@"; }

# A build that takes its time: a second or two of prefill, and with
# CAG_KERNELS=scalar (the same bits) more than any signal below waits.
slow() { facts 150 >big.md && echo cag-build -q -B -t 1 -b 16 -m "$model" -o kb.kvc big.md; }

no_temporary() { [ -z "$(find . -name '.*.tmp')" ] || { ls -A; return 1; }; }

@test "outputs that cannot be written: 73, before anything is read" {
    mkdir dir
    ls -A >../before
    fails 73 "dir: is a directory" build -o dir s.md
    fails 73 "nodir/k.kvc: cannot create a file in the directory nodir: No such file" build -o nodir/k.kvc s.md
    fails 73 "s.md/k.kvc: cannot create" build -o s.md/k.kvc s.md
    fails 73 "/dev/full: is not a regular file" build -o /dev/full s.md
    fails 64 "-o must be a file" build -o - s.md
    fails 64 "no output: name the cache with -o" build s.md
    fails 64 "no output: name the cache with -o" build -o "" s.md
    ls -A | diff ../before -
    if [ "$(id -u)" -ne 0 ]; then
        chmod 555 dir
        fails 73 "dir/k.kvc: cannot create a file in the directory dir: Permission denied" build -o dir/k.kvc s.md
    fi
}

@test "what is no cache is not replaced, what is read never" {
    cp s.md keep
    cp "$model" m.gguf
    fails 64 "s.md: the output is what the build reads" build -o s.md s.md
    fails 64 "s.md: the output is what the build reads" build -B -o s.md s.md
    ln s.md hard
    fails 64 "the output is what the build reads" build -B -o hard s.md
    fails 64 "m.gguf: the output is what the build reads" cag-build -B -m m.gguf -o m.gguf s.md
    fails 64 "s.md: the depfile is another file" build -o k.kvc --depfile s.md s.md
    fails 64 "the depfile is another file" build -o k.kvc --depfile k.kvc s.md
    fails 73 "keep: is a file but no cache, so it is not replaced" build -o keep s.md
    cmp keep s.md
    cmp m.gguf "$model"
    [ ! -e k.kvc ]
    : >empty
    ok build -o empty s.md
    fails 73 "keep: is a file but no cache" cag-build --recode f16 empty -o keep
    cmp keep s.md
    ok build -B -o keep s.md       # who insists
    ok cag-inspect -t keep
}

@test "mode: 0600 for a new file, that of the file replaced, or --mode" {
    umask 022
    ok build -o k.kvc s.md
    [ "$(stat -c %a k.kvc)" = 600 ]
    chmod 640 k.kvc
    ok build -B -o k.kvc s.md
    [ "$(stat -c %a k.kvc)" = 640 ]
    ok build -B --mode 0444 -o k.kvc s.md
    [ "$(stat -c %a k.kvc)" = 444 ]
    fails 64 "expected an octal number" build --mode 0999 -o k.kvc s.md
    fails 64 "expected an octal number" build --mode 01777 -o k.kvc s.md
}

@test "an output that is a link is followed, also to a file not there yet" {
    mkdir sub
    ln -s sub/real.kvc k.kvc
    ok build -o k.kvc s.md
    [ -L k.kvc ]
    [ -f sub/real.kvc ]
    ok cag-build --check k.kvc
    ok cag-build --check sub/real.kvc
    echo more >>s.md
    # seen from where the cache really lies, s.md is above it
    fails 64 "s.md: lies outside the cache's directory" cag-build -q --refresh k.kvc
    ok cag-build -q --refresh --allow-outside k.kvc
    [ -L k.kvc ]
    (cd sub && cag-inspect --sources real.kvc | sha256sum -c --quiet)
}

@test "no space left: said before the prefill, or while writing; the old file stays" {
    ok build -o kb.kvc s.md
    cp kb.kvc old
    local cmd rc=0
    cmd=$(slow)
    # files may not grow past 1,000 KiB: the write fails
    (ulimit -f 1000 && exec $cmd) 2>err || rc=$?
    [ "$rc" -eq 74 ]
    grep -q "kb.kvc: cannot write: File too large" err
    cmp kb.kvc old
    no_temporary
    mkdir mnt
    mount -t tmpfs -o size=2m tmpfs mnt 2>/dev/null || skip "cannot mount a tmpfs here"
    cp old mnt/kb.kvc
    run --separate-stderr build -B -o mnt/kb.kvc big.md </dev/null
    cmp mnt/kb.kvc old || status=99
    [ -z "$(find mnt -name '.*.tmp')" ] || status=98
    umount mnt
    [ "$status" -eq 73 ] || show
    says "the file system has"
    says "No space left on device"
}

@test "SIGINT and SIGTERM end a build with 130 and 143 and leave the old file" {
    ok build -o kb.kvc s.md
    cp kb.kvc old
    local cmd pair rc
    cmd=$(slow)
    for pair in INT:130 TERM:143; do
        rc=0
        CAG_KERNELS=scalar timeout --preserve-status -s "${pair%:*}" 0.6 $cmd 2>err || rc=$?
        [ "$rc" -eq "${pair#*:}" ]
        [ ! -s err ]
        cmp kb.kvc old
        no_temporary
    done
    # also while it waits for a pipe
    mkfifo p
    (exec 3>p; sleep 2) &
    rc=0
    timeout --preserve-status -s INT 0.3 cag-build -q -m "$model" -o x.kvc p || rc=$?
    [ "$rc" -eq 130 ]
    [ ! -e x.kvc ]
}

@test "SIGINT with --checkpoint keeps what was computed" {
    # --foreground: else timeout sends the signal twice, and the second ends at once
    local cmd rc=0
    cmd="$(slow) --checkpoint"
    CAG_KERNELS=scalar timeout --foreground --preserve-status -s INT 0.8 $cmd 2>err || rc=$?
    [ "$rc" -eq 130 ]
    [ ! -e kb.kvc ]
    [ -s kb.kvc.ckpt ]
    run --separate-stderr cag-build -q --json --checkpoint -m "$model" -o kb.kvc big.md </dev/null
    [ "$status" -eq 0 ] || show
    [ ! -e kb.kvc.ckpt ]
    cag-inspect -t kb.kvc
}

@test "two builders: the second ends with 75 or waits with --lock-timeout" {
    local cmd first rc=0
    cmd=$(slow)
    $cmd &
    first=$!
    for _ in $(seq 100); do [ ! -e kb.kvc.lock ] || break; sleep 0.02; done
    sleep 0.1
    fails 75 "kb.kvc" build -B -o kb.kvc s.md
    ln -s kb.kvc alias.kvc
    fails 75 "lock" build -B -o alias.kvc s.md
    ok build --lock-timeout 60 -o kb.kvc s.md
    wait "$first"
    [ "$(cag-inspect --json kb.kvc | jq -r '.sources[0].name')" = s.md ]
    no_temporary
}

@test "cron: no HOME, minimal PATH, closed stdin, LANG=C; -q is silent" {
    local exe
    exe=$(command -v cag-build)
    env -i PATH=/usr/bin:/bin LANG=C "$exe" -q -m "$model" -o k.kvc s.md <&- >out 2>&1
    [ ! -s out ]
    env -i PATH=/usr/bin:/bin LANG=C "$exe" -q -m "$model" -o k.kvc s.md <&- >out 2>&1
    [ ! -s out ]
    [ ! -e .cache ]
    # a failure prints one line that makes sense in a mail
    local rc=0
    env -i "$exe" -q -m "$model" -o k.kvc "$PWD/gone.md" <&- >out 2>&1 || rc=$?
    [ "$rc" -eq 66 ]
    [ "$(wc -l <out)" -eq 1 ]
    grep -q "$PWD/gone.md" out
    # nothing is printed to a closed or full stdout without an error
    rc=0
    "$exe" -q --json -m "$model" -o k.kvc s.md >/dev/full 2>err || rc=$?
    [ "$rc" -eq 74 ]
    grep -q "No space left on device" err
    rc=0
    "$exe" -q --json -m "$model" -o k.kvc s.md >&- 2>/dev/null || rc=$?
    [ "$rc" -eq 74 ]
    nice -n 19 "$exe" -q -B -m "$model" -o k.kvc s.md
}

@test "--keep-mtime leaves a fresh file's time alone, the default refreshes it" {
    ok build -o k.kvc s.md
    touch -d '2020-01-01' k.kvc
    ok build --keep-mtime -o k.kvc s.md
    [ "$(stat -c %Y k.kvc)" -eq "$(date -d 2020-01-01 +%s)" ]
    ok build -o k.kvc s.md
    [ "$(stat -c %Y k.kvc)" -gt "$(date -d 2024-01-01 +%s)" ]
}

@test "--depfile is read back by make: odd names, deleted sources, no change" {
    command -v make >/dev/null || skip "no make"
    mkdir 'd ir'
    for f in 'sp ace.md' 'ha#sh.md' 'do$llar.md' 'co:lon.md' 'pi|pe.md' '~tilde.md' 'eq=ual.md' 'd ir/x.md'; do
        echo "$f" >"$f"
    done
    cat >Makefile <<M
kb.kvc: FORCE
	cag-build -q --keep-mtime --depfile kb.d -m $model -o kb.kvc 'sp ace.md' 'ha#sh.md' 'do\$\$llar.md' 'co:lon.md' 'pi|pe.md' ./~tilde.md 'eq=ual.md' 'd ir'
FORCE:
-include kb.d
M
    make -s
    stat -c '%Y %n' kb.kvc kb.d >t1
    sleep 1.1
    make -s
    stat -c '%Y %n' kb.kvc kb.d | diff t1 -
    # without FORCE the depfile alone decides
    sed -i '/FORCE/d' Makefile
    { echo "kb.kvc:"; grep cag-build Makefile; echo "-include kb.d"; } >M2
    make -s -q -f M2
    echo more >>'do$llar.md'
    not make -s -q -f M2
    make -s -f M2
    make -s -q -f M2
    rm 'co:lon.md'
    sed -i "s/ 'co:lon.md'//" M2
    make -s -f M2
    ok cag-build --check kb.kvc
    echo x >'se;mi.md'
    ok cag-build -m "$model" -o x.kvc --depfile x.d 'se;mi.md' s.md
    [ -z "$stderr" ] || says "x.kvc:"
    printf 'all: x.kvc\nx.kvc:\n\t@false\ninclude x.d\n' >M3
    make -s -q -f M3
    touch -d '+1 minute' 'se;mi.md'
    not make -s -q -f M3
}

@test "progress: units on a terminal, one line for SIGUSR1, nothing in a pipe" {
    facts 30 >m.md
    cag-build -m "$model" -o k.kvc m.md 2>err
    [ "$(wc -l <err)" -eq 1 ]
    not grep -q $'\r' err
    script -qec "TERM=xterm cag-build -B -b 64 -m $model -o k.kvc m.md" /dev/null >tty </dev/null
    grep -q $'\r' tty
    tr '\r' '\n' <tty | grep -E 'prefill +[0-9]+% +[0-9]+/[0-9]+ tokens'
    tr '\r' '\n' <tty | grep -E 'write +[0-9]+% .*[KM]iB'
    script -qec "TERM=dumb cag-build -B -m $model -o k.kvc m.md" /dev/null >tty </dev/null
    tr -d '\n' <tty | tr '\r' '\n' | { ! grep -q prefill; }
    local cmd
    cmd=$(slow)
    CAG_KERNELS=scalar $cmd 2>err &
    sleep 0.6
    kill -USR1 $!
    sleep 0.1
    kill -TERM $!
    wait $! || true
    [ "$(wc -l <err)" -eq 1 ]
    grep -E '^cag-build: prefill [0-9]+/[0-9]+ tokens, [0-9]+ s so far$' err
}

@test "progress: no longer than the terminal is wide, whatever that is" {
    facts 60 >m.md
    for columns in 24 40 80; do
        TERM=xterm python3 "$BATS_TEST_DIRNAME/../tools/on_tty.py" sh -c \
            "stty cols $columns; exec cag-build -B -b 16 --checkpoint --checkpoint-interval 0.2 -m $model -o k.kvc m.md" \
            >tty </dev/null
        grep -q 'prefill' tty
        # what stands between two carriage returns is one line of the screen;
        # the last column stays free, where a terminal would go to the next
        tr '\r' '\n' <tty | sed 's/\x1b\[K//g' | grep '%' |
            awk -v n=$columns 'length >= n { print length ": " $0; bad = 1 } END { exit bad }'
    done
}

@test "without enough memory: a message and 71, no partial file" {
    local cmd rc=0
    case ${CAG_MODE:-release} in
    san | tsan) skip "a sanitizer needs more than that itself" ;;
    esac
    cmd=$(slow)
    (ulimit -v 38000 && exec $cmd) >out 2>err || rc=$?
    [ "$rc" -eq 71 ]
    grep -q "^cag-build: .*out of memory" err
    [ ! -e kb.kvc ]
    no_temporary
}

@test "what only the program reads is not replaced either" {
    facts 2 >a.md
    echo 'Answer from the text.' >sys.txt
    echo '{{ messages[0].content }}' >t.jinja
    printf 'a.md\0' >list
    seq -f 'Which %g?' 12 >q.txt
    printf 'model: %s\nsources: [a.md]\n' "$model" >kb.yaml
    cp -r . ../kept
    for f in --system-file=sys.txt --chat-template-file=t.jinja --questions=q.txt; do
        fails 64 "${f#*=}: the depfile is what the build reads" cag-build -m "$model" -o k.kvc "$f" --depfile "${f#*=}" a.md
        fails 64 "${f#*=}: the output is what the build reads" cag-build -B -m "$model" "$f" -o "${f#*=}" a.md
    done
    fails 64 "list: the depfile is what" cag-build -m "$model" --files0-from list -o k.kvc --depfile list
    fails 64 "kb.yaml: the depfile is what" cag-build --manifest kb.yaml --depfile kb.yaml
    fails 64 "kb.yaml: the output is what" cag-build -B --manifest kb.yaml -o ./kb.yaml
    diff -r . ../kept
}

@test "the model is not replaced, also with -B" {
    facts 2 >a.md
    cp -r "$models/qwen3" m
    cp -r m kept
    ln -s m/model.safetensors alias
    for o in m/config.json ./m/../m/model.safetensors alias m/tokenizer.json; do
        fails 64 "the output is what the build reads" cag-build -q -B -m m -o $o a.md
        fails 64 "the depfile is another file of this build" cag-build -q -m m -o k.kvc --depfile $o a.md
    done
    ok cag-build -q -m m -o m/kb.kvc a.md
    fails 73 "is a file but no list of dependencies" cag-build -q -m m -o k.kvc --depfile m/kb.kvc a.md
    rm m/kb.kvc m/kb.kvc.lock
    diff -r m kept
}

@test "--depfile replaces nothing that it has not written" {
    facts 4 >a.md
    for f in Makefile notes.txt; do
        printf 'all: kb.kvc\n\tcag-build\n' >$f
        fails 73 "$f: is a file but no list of dependencies" \
            cag-build -q -m "$model" -o kb.kvc --depfile $f a.md
        [ "$(wc -l <$f)" = 2 ]
    done
    [ ! -e kb.kvc ]
    : >kb.d # as a build system may have made it
    ok cag-build -q -m "$model" -o kb.kvc --depfile kb.d a.md
    ok cag-build -q -m "$model" -o renamed.kvc --depfile kb.d a.md
    grep -q ^renamed.kvc: kb.d
}

@test "--checkpoint replaces no file but its own" {
    facts 4 >a.md
    echo precious >kb.kvc.ckpt
    fails 73 "kb.kvc.ckpt: is a file and no checkpoint, so it is not replaced: move it away" \
        cag-build --checkpoint -m "$model" -o kb.kvc a.md
    [ "$(cat kb.kvc.ckpt)" = precious ]
    [ ! -e kb.kvc ]
    # without the option nothing is written there, and nothing removed
    ok cag-build -q -m "$model" -o kb.kvc a.md
    [ "$(cat kb.kvc.ckpt)" = precious ]
    cp kb.kvc kb.kvc.ckpt
    fails 73 "kb.kvc.ckpt: is a cache and no checkpoint, so it is not replaced" \
        cag-build --checkpoint -B -m "$model" -o kb.kvc a.md
    cmp kb.kvc kb.kvc.ckpt
    # nor through a link, wherever it leads
    rm kb.kvc.ckpt
    for to in a.md nowhere; do
        ln -s $to kb.kvc.ckpt
        fails 73 "kb.kvc.ckpt: is a symbolic link and no checkpoint" \
            cag-build --checkpoint -B -m "$model" -o kb.kvc a.md
        rm kb.kvc.ckpt
    done
    [ ! -e nowhere ]
    # a damaged one of ours is passed over
    head -c 5000 kb.kvc >kb.kvc.ckpt
    ok cag-build --checkpoint -B -m "$model" -o kb.kvc a.md
    says "kb.kvc.ckpt: ignored"
}

@test "a build that fails leaves nothing behind" {
    facts 40 >a.md
    facts 150 >big.md
    head -c 3000 "$model" >broken.gguf
    echo '{{ x' >bad.jinja
    mkfifo pipe
    ok cag-build -q -m "$model" -o kb.kvc a.md
    rm kb.kvc.lock
    head -c 9000 kb.kvc >torn.kvc
    before=$(ls -A)
    leaves_nothing() {
        run "$@" </dev/null
        [ "$status" -ne 0 ]
        [ "$(ls -A)" = "$before" ] || { echo "$*"; ls -A; return 1; }
    }
    leaves_nothing cag-build -m broken.gguf -o n.kvc a.md
    leaves_nothing cag-build -m a.md -o n.kvc a.md
    leaves_nothing cag-build -m none.gguf -o n.kvc a.md
    leaves_nothing cag-build -m "$model" -o n.kvc none.md
    leaves_nothing cag-build -m "$model" -o n.kvc broken.gguf
    leaves_nothing cag-build -m "$model" -o n.kvc -c 128 a.md
    leaves_nothing cag-build -m "$model" -o n.kvc --max-memory 1K a.md
    leaves_nothing cag-build -m "$model" -o n.kvc --chat-template-file bad.jinja a.md
    leaves_nothing cag-build -m "$model" -o n.kvc --device cuda:99 --depfile n.d a.md
    leaves_nothing cag-build -m "$model" -o n.kvc --depfile none/n.d a.md
    leaves_nothing cag-build -m "$model" -o n.kvc --checkpoint -c 128 a.md
    leaves_nothing timeout 0.3 cag-build -m "$model" -o n.kvc pipe
    leaves_nothing env CAG_KERNELS=scalar timeout -s INT 0.3 cag-build -t 1 -b 16 -m "$model" -o n.kvc big.md
    leaves_nothing cag-build --recode f16 torn.kvc -o n.kvc
    leaves_nothing cag-build --recode f16 none.kvc -o n.kvc
    leaves_nothing cag-build --refresh torn.kvc
    leaves_nothing cag-build --refresh none.kvc
    (ulimit -f 8; leaves_nothing cag-build -m "$model" -o n.kvc --depfile n.d a.md)
}

@test "numbers agree with those of cag-inspect, and end where they mean nothing" {
    facts 5 >m.md
    ok cag-build -m "$model" -o kb.kvc m.md
    [[ "$stderr" =~ ([0-9]+)\ bytes\ a\ token ]]
    cag-inspect kb.kvc | grep -q " ${BASH_REMATCH[1]} bytes a token$"
    ok cag-build -m "$model" -o kb.kvc --json -B m.md
    # no time has more than six digits after the point
    run ! grep -E '"[a-z_]*seconds[a-z_]*":[0-9]+\.[0-9]{7}' <<<"$output"
    # a rebuild that computes nothing reads nothing, at no rate
    run ! grep " 0 tokens/s" <<<"$stderr"
}

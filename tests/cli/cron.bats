#!/usr/bin/env bats
# Without a terminal, a home or an environment: what cron and systemd give a
# job.  examples/cron is run as it stands.

bats_require_minimum_version 1.5.0

setup() {
    bin=$(cd "${CAG_BIN:-$BATS_TEST_DIRNAME/../../build/release}" && pwd)
    models=$(cd "$BATS_TEST_DIRNAME/../golden/models" && pwd)
    examples=$(cd "$BATS_TEST_DIRNAME/../../examples/cron" && pwd)
    cd "$BATS_TEST_TMPDIR" || return 1
    mkdir kb
    echo "The Sparrow-7 flies 47 minutes." >kb/a.md
    echo "Maya Sen leads Project Atish." >kb/b.md
}

# What cron has: nothing but these two.  No HOME, stdin closed.
bare() { env -i PATH=/usr/bin:/bin LANG=C SHELL=/bin/sh "$@" <&-; }
build() { bare "$bin/cag-build" -q -m "$models/qwen3" "$@"; }

# bats' run adds an environment of its own to nothing; both streams count.
silent() {
    run "$@"
    printf '%s\n' "$output"
    [ "$status" -eq 0 ] && [ "$output" = "" ]
}

# gone PID: it ends within two seconds; nobody may be there to reap it
gone() {
    for _ in $(seq 100); do
        grep -qs '^State:.*[RSDT]' "/proc/$1/status" || return 0
        sleep 0.02
    done
    return 1
}

@test "-q says nothing when all is well, without HOME and stdin" {
    silent build -o kb/a.kvc kb/a.md
    silent build -o kb/a.kvc kb/a.md
    silent bare "$bin/cag-build" -q --check kb/a.kvc
    silent bare "$bin/cag-build" -q --refresh kb/a.kvc
    silent bare "$bin/cag-inspect" -q -t kb/a.kvc
    echo More. >>kb/a.md
    silent bare "$bin/cag-build" -q --refresh kb/a.kvc
    printf 'Why?\nHow long?\n' >questions
    silent bare "$bin/cag-ask" -q -n 5 --batch questions -o answers kb/a.kvc
    [ "$(wc -l <answers)" = 2 ]
    run --separate-stderr bare "$bin/cag-ask" -q -n 5 kb/a.kvc "How long?"
    [ "$status" -eq 0 ]
    [ "$output" != "" ]
    [ "$stderr" = "cag-ask: cut after 5 tokens" ] # not all is well
    # nothing was left in any corner
    [ "$(find . -name '.*' -type f)" = "" ]
}

@test "a failure says what, in lines that make sense in a mail" {
    build -o kb/a.kvc kb/a.md
    rm kb/a.md
    run bare "$bin/cag-build" -q --refresh kb/a.kvc
    [ "$status" -eq 66 ]
    [[ $output == *a.md* ]]
    run grep -v '^cag-build: ' <<<"$output"
    [ "$output" = "" ]
    echo Other. >kb/a.md
    run bare "$bin/cag-build" --check kb/a.kvc
    [ "$status" -eq 1 ]
    [[ $output == *a.md*"cag-build --refresh kb/a.kvc" ]]
}

@test "a closed stdout is an error where there is something to say" {
    build -o kb/a.kvc kb/a.md
    run bash -c '"$@" >&-' - "$bin/cag-ask" -q -n 5 kb/a.kvc "How long?"
    [ "$status" -eq 74 ]
    run bash -c '"$@" <&- >&- 2>&-' - "$bin/cag-build" -q -m "$models/qwen3" -o kb/b.kvc kb/b.md
    [ "$status" -eq 0 ]
    "$bin/cag-inspect" -t kb/b.kvc
    [ "$(cat kb/b.md)" = "Maya Sen leads Project Atish." ]
}

@test "a held lock: 75 at once, or after --lock-timeout, or success" {
    command -v flock >/dev/null || skip "no flock(1)"
    build -o kb/a.kvc kb/a.md
    echo More. >>kb/a.md
    cp kb/a.kvc old
    run flock kb/a.kvc.lock env PATH=/usr/bin:/bin "$bin/cag-build" -q -m "$models/qwen3" -o kb/a.kvc kb/a.md
    [ "$status" -eq 75 ]
    [[ $output == "cag-build: kb/a.kvc"* ]]
    run flock kb/a.kvc.lock "$bin/cag-build" -q --lock-timeout 0.2 --refresh kb/a.kvc
    [ "$status" -eq 75 ]
    cmp kb/a.kvc old
    # released while it waits
    flock kb/a.kvc.lock sh -c ': >held; sleep 0.5' 3>&- &
    for _ in $(seq 300); do [ -e held ] && break; sleep 0.01; done
    silent bare "$bin/cag-build" -q --lock-timeout 60 --refresh kb/a.kvc
    run cmp kb/a.kvc old
    [ "$status" -eq 1 ]
    # questions never wait for a build
    run flock kb/a.kvc.lock "$bin/cag-ask" -q -n 5 kb/a.kvc "How long?"
    [ "$status" -eq 0 ]
}

@test "nice, ionice and timeout do what they say" {
    silent bare nice -n 19 ionice -c 3 timeout 60 "$bin/cag-build" -q -m "$models/qwen3" -o kb/a.kvc kb/a.md
    cp kb/a.kvc old
    cat >kb/slow.yaml <<'END'
sources:
  - path: b.md
    filter: [sh, -c, "nice >nice; echo $$ >pid; exec sleep 60"]
END
    run bare nice -n 7 timeout 1 "$bin/cag-build" -q -m "$models/qwen3" --manifest kb/slow.yaml -o kb/a.kvc
    [ "$status" -eq 124 ]
    # relative to where the tests themselves stand
    [ "$(cat nice)" = "$(($(nice) + 7))" ]
    cmp kb/a.kvc old
    [ -z "$(find . -name '*.tmp')" ]
    # the filter is gone too, also when its builder was killed
    gone "$(cat pid)"
    rm pid
    env -i PATH=/usr/bin:/bin "$bin/cag-build" -q -m "$models/qwen3" \
        --manifest kb/slow.yaml -o kb/a.kvc 3>&- &
    builder=$!
    for _ in $(seq 300); do [ -s pid ] && break; sleep 0.01; done
    kill -KILL $builder
    gone "$(cat pid)"
    cmp kb/a.kvc old
}

@test "the lines of examples/cron/crontab run as cron runs them" {
    mkdir -p bin home/kb
    ln -s "$bin"/cag-* bin/
    cp kb/a.md kb/b.md home/kb
    for f in a b; do build -o home/kb/$f.kvc home/kb/$f.md; done
    sed "s|^PATH=|PATH=$PWD/bin:|" "$examples/crontab" >tab
    path=$(sed -n 's/^PATH=//p' tab)
    grep -E '^[0-9]' tab | sed -E 's/^([^ ]+ +){5}//' >commands
    [ "$(wc -l <commands)" = 2 ]
    echo More. >>home/kb/a.md
    while IFS= read -r line; do
        run env -i HOME="$PWD/home" LOGNAME=x PATH="$path" SHELL=/bin/sh /bin/sh -c "$line" <&-
        [ "$status" -eq 0 ]
        [ "$output" = "" ]
    done <commands
    "$bin/cag-build" --check home/kb/a.kvc home/kb/b.kvc
}

@test "examples/cron/cag-refresh.service runs, and systemd takes it" {
    mkdir -p bin
    ln -s "$bin"/cag-* bin/
    build -o kb/a.kvc kb/a.md
    echo More. >>kb/a.md
    command=$(sed -n "s/^ExecStart=\/bin\/sh -c '\(.*\)'\$/\1/p" "$examples/cag-refresh.service")
    [ "$command" != "" ]
    cd kb
    silent env -i CAG_CACHE_DIR="$BATS_TEST_TMPDIR" PATH="$BATS_TEST_TMPDIR/bin:/usr/bin:/bin" /bin/sh -c "$command"
    "$bin/cag-build" --check a.kvc
    command -v systemd-analyze >/dev/null || skip "no systemd-analyze"
    cp "$examples"/cag-refresh.* .
    run systemd-analyze verify --man=no ./cag-refresh.timer ./cag-refresh.service
    printf '%s\n' "$output"
    [ "$status" -eq 0 ] && [ "$output" = "" ]
}

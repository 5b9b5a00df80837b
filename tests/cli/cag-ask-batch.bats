#!/usr/bin/env bats
# cag-ask --batch: rows in, rows out, and what happens when it is interrupted.

bats_require_minimum_version 1.5.0
load ask_helper

setup_file() {
    ask_setup_file
    for i in $(seq 120); do
        printf '{"id":%d,"question":"Question %d?","max_tokens":%d}\n' $i $i $((i % 7 + 1))
    done >rows.jsonl
    cag-ask -q --batch rows.jsonl qwen.kvc | steady >want.jsonl
}
setup() {
    cd "$work"
    rm -rf o o.part
}

# ----------------------------------------------------------------- the rows

@test "text in, text out: a line for each question, as asked alone" {
    printf 'How long?\n\n  \nWho leads?\r\nlast without newline' >q.txt
    expect 0 cag-ask -q -n 5 --batch q.txt qwen.kvc
    [ "$(wc -l <"$out")" = 3 ]
    for q in "How long?" "Who leads?" "last without newline"; do
        cag-ask -q -n 5 qwen.kvc "$q" | tr '\n\r' ' ' | sed 's/ $/\n/'
    done >alone
    cmp alone "$out"
    expect 0 cag-ask -q -n 5 --batch - qwen.kvc <q.txt
    cmp alone "$out"
    expect 0 cag-ask -q -n 5 --batch q.txt --json qwen.kvc
    [ "$(jq -r .question "$out" | tail -n 1)" = "last without newline" ]
    [ "$(jq -s 'map(.line) == [1, 4, 5]' "$out")" = true ]
}

@test "a JSONL row carries its own fields along" {
    printf '%s\n' '{"id":"a","question":"How long?","tags":["x",1,null],"deep":{"b":2.5}}' \
        '{"custom_id":17,"question":"Who?"}' >q.jsonl
    expect 0 cag-ask -q -n 3 --batch q.jsonl qwen.kvc
    jq -se '(.[0] | .schema == 1 and .id == "a" and .line == 1 and .tags == ["x",1,null] and
            .deep.b == 2.5 and (.answer | type) == "string" and .refused == false and
            .finish_reason == "length" and .usage.generated_tokens == 3 and
            (.content_id | length) == 64 and (.seconds | type) == "number" and
            (has("error") | not)) and
        (.[1] | .custom_id == 17 and (has("id") | not))' "$out"
    [ "$(jq -r .answer "$out" | head -n 1)" = "$(cag-ask -q -n 3 qwen.kvc "How long?")" ]
    expect 0 cag-ask -q -n 3 --output-format text --batch q.jsonl qwen.kvc
    [ "$(head -n 1 "$out")" = "$(cag-ask -q -n 3 qwen.kvc "How long?")" ]
}

@test "max_tokens and stop of a row" {
    full=$(cag-ask -q -n 12 llama.kvc "Who leads?")
    jq -nc --arg s "${full:4:2}" '{question:"Who leads?",max_tokens:2},
        {question:"Who leads?",stop:$s}, {question:"Who leads?",stop:["never",$s]},
        {question:"Who leads?",max_tokens:0}, {question:"Who leads?",max_tokens:"9"},
        {question:"Who leads?",stop:[]}, {question:"Who leads?",stop:[""]},
        {question:"Who leads?",stop:3}, {question:5}, {id:1}' >q.jsonl
    expect 2 cag-ask -q -n 12 --batch q.jsonl llama.kvc
    jq -se --arg full "$full" '.[0].usage.generated_tokens == 2 and
        .[1].finish_reason == "stop" and .[1].answer == .[2].answer and
        (.[1].answer | length) < ($full | length) and
        (.[3].error | contains("max_tokens")) and (.[4].error | contains("max_tokens")) and
        .[5].answer == $full and
        (.[6].error | contains("stop")) and (.[7].error | contains("stop")) and
        (.[8].error | contains("must be a string")) and
        (.[9].error | contains("no \"question\""))' "$out"
}

@test "one output row for each row that is not blank, bad ones with the reason" {
    {
        echo '{"id":1,"question":"good"}'
        echo '{bad'
        echo '[1,2]'
        echo 'null'
        echo
        echo '{"id":"x","question":"good","more":true}'
        printf '{"id":2,"question":"%s"}\n' "$(head -c 2000000 /dev/zero | tr '\0' 'w')"
        echo '{"id":3,"question":""}'
        printf '{"id":4,"question":"caf\xe9"}\n'
        echo '{"id":5,"question":"a","question":"b"}'
        echo '{"id":6,"question":"nul \u0000"}'
        printf '{"id":7,"question":"end"}'
    } >q.jsonl
    expect 2 cag-ask -n 3 --batch q.jsonl qwen.kvc
    [ "$(jq -sc 'map(.line)' "$out")" = '[1,2,3,4,6,7,8,9,10,11,12]' ]
    [ "$(jq -sc 'map(has("error"))' "$out")" = \
        '[false,true,true,true,false,true,true,true,true,true,false]' ]
    jq -se '.[5].id == 2 and (.[5].error | contains("line 7: the question does not fit")) and
        (.[6].error == "line 8: the question is empty") and .[6].id == 3 and
        (.[7].error | contains("UTF-8 at byte"))' "$out"
    says "q.jsonl: line 2:" "q.jsonl: line 7:" "q.jsonl: 8 of 11 rows failed"
    # quiet, and still told that rows failed
    expect 2 cag-ask -q -n 3 --batch q.jsonl qwen.kvc
    [ "$(cat "$err")" = "cag-ask: q.jsonl: 8 of 11 rows failed" ]
    expect 2 cag-ask -q --max-errors 7 -n 3 --batch q.jsonl qwen.kvc
    expect 0 cag-ask -q --max-errors 8 -n 3 --batch q.jsonl qwen.kvc
    [ ! -s "$err" ]
    expect 2 cag-ask -q --fail-fast -n 3 --batch q.jsonl qwen.kvc
    [ "$(wc -l <"$out")" = 2 ]
    # as text: an empty line for a bad row
    printf 'one\n\xff\ntwo\n' >q.txt
    expect 2 cag-ask -q -n 3 --batch q.txt qwen.kvc
    [ "$(wc -l <"$out")" = 3 ]
    [ -z "$(sed -n 2p "$out")" ]
}

@test "--dry-run checks every row, ids given twice too, and answers none" {
    printf '%s\n' '{"id":1,"question":"a"}' '{"id":"1","question":"b"}' \
        '{"id":1,"question":"c"}' '{bad' '{"question":"no id"}' '{"question":"no id"}' >q.jsonl
    expect 2 cag-ask --dry-run --batch q.jsonl qwen.kvc
    [ "$(jq -sc 'map(.line)' "$out")" = '[3,4]' ]
    [ "$(jq -r .error "$out" | head -n 1)" = \
        "line 3: the id was given before, on line 1" ]
    says "6 rows checked, 2 bad"
    expect 0 cag-ask --dry-run --batch rows.jsonl qwen.kvc
    [ ! -s "$out" ]
    says "120 rows checked, 0 bad"
    # nothing is answered or written, and no weights are needed
    mkdir -p no-weights
    cp qwen.kvc no-weights/
    expect 0 cag-ask -q --dry-run --batch rows.jsonl -o o no-weights/qwen.kvc
    [ ! -e o ]
    [ ! -e o.part ]
}

@test "input that is missing, a directory, or empty" {
    expect 66 cag-ask --batch missing.jsonl qwen.kvc
    refused "missing.jsonl"
    expect 66 cag-ask --batch . qwen.kvc
    refused "directory"
    expect 0 cag-ask --batch - qwen.kvc </dev/null
    refused "no questions"
    expect 0 cag-ask -q --batch - qwen.kvc <&-
}

# ---------------------------------------------------------------- the order

@test "rows are equal for -j 1, 3, 16 and any threads; --unordered is a permutation" {
    for j in 1 3 16; do
        cag-ask -q -j $j -t $((j % 3 + 1)) --batch rows.jsonl qwen.kvc | steady >got
        cmp want.jsonl got
    done
    cag-ask -q --unordered -j 16 --batch rows.jsonl qwen.kvc | steady | sort >got
    sort want.jsonl | cmp - got
    cag-ask -q --no-cache --batch rows.jsonl qwen.kvc |
        steady -e 's/"cached_tokens":[0-9]*/"cached_tokens":X/' >got
    sed 's/"cached_tokens":[0-9]*/"cached_tokens":X/' want.jsonl | cmp - got
}

@test "an answer does not depend on its neighbours" {
    for seed in 1 2 3; do
        shuf --random-source=<(yes $seed) rows.jsonl >shuffled
        cag-ask -q --batch shuffled qwen.kvc | steady | jq -cS 'del(.line)' | sort >got
        jq -cS 'del(.line)' want.jsonl | sort | cmp - got
    done
}

@test "a sampled row depends on seed and row number only" {
    ask() { cag-ask -q --temperature 1.5 --seed "$1" -j "$2" --batch rows.jsonl qwen.kvc | steady; }
    ask 7 1 >a
    ask 7 16 | cmp a -
    ask 8 16 >b
    run ! cmp -s a b
    # equal questions are sampled each on its own
    yes '{"question":"same"}' | head -n 20 >same
    n=$(cag-ask -q --temperature 2 --seed 1 -n 8 --batch same qwen.kvc | jq -r .answer | sort -u | wc -l)
    [ "$n" -gt 10 ]
}

@test "equal greedy questions are answered once" {
    for i in $(seq 50); do echo "one"; echo "two"; done >same
    for j in 1 16; do
        cag-ask -u -j $j -n 4 --batch same qwen.kvc >got 2>err
        [ "$(sort -u got | wc -l)" -le 2 ]
        [ "$(wc -l <got)" = 100 ]
        grep -q '100 answered.* 8 tokens' err
    done
}

@test "--resume of text rows is refused, with the way out" {
    printf 'one\ntwo\n' >q.txt
    expect 64 cag-ask --batch q.txt -o o --resume qwen.kvc
    refused "q.txt" "--output-format jsonl"
    expect 0 cag-ask -q --batch q.txt -o o --resume --output-format jsonl qwen.kvc
    [ "$(jq -sc 'map(.question)' o)" = '["one","two"]' ]
}

# --------------------------------------------------------------- coprocesses

@test "with - each row is answered as it arrives" {
    for more in "" "-j 16" "--unordered" "--output-format jsonl"; do
        coproc ASK { exec cag-ask -q -n 3 $more --batch - qwen.kvc; }
        pid=$ASK_PID
        for q in one two three; do
            echo "$q" >&"${ASK[1]}"
            read -r -t 20 answer <&"${ASK[0]}"
            [ -n "$answer" ]
        done
        # half a line is no row yet
        printf 'fo' >&"${ASK[1]}"
        run ! read -r -t 0.3 answer <&"${ASK[0]}"
        echo ur >&"${ASK[1]}"
        read -r -t 20 answer <&"${ASK[0]}"
        eval "exec ${ASK[1]}>&-"
        wait $pid
    done
}

@test "memory does not grow with the rows" {
    case ${CAG_MODE:-release} in san | tsan) skip "a sanitizer keeps what is freed" ;; esac
    n=5000
    [ -n "$CAG_TEST_LONG" ] && n=50000
    mkfifo in
    cag-ask -q -n 2 --batch - llama.kvc <in >rows.out &
    pid=$!
    exec 8>in
    rm in
    seq 1 1000 >&8
    wait_rows() { for i in $(seq 1200); do [ "$(wc -l <rows.out)" -ge "$1" ] && return; sleep 0.05; done; return 1; }
    wait_rows 1000
    before=$(awk '/^RssAnon|^VmSwap/ { s += $2 } END { print s }' /proc/$pid/status)
    seq 1001 $n >&8
    wait_rows $n
    after=$(awk '/^RssAnon|^VmSwap/ { s += $2 } END { print s }' /proc/$pid/status)
    exec 8>&-
    wait $pid
    echo "$before KiB after 1000 rows, $after KiB after $n"
    [ $((after - before)) -lt 2048 ]
}

# ------------------------------------------------------------------- -o FILE

@test "-o: rows go to FILE.part, FILE appears when all are there" {
    expect 0 cag-ask --batch rows.jsonl -o o qwen.kvc
    [ ! -s "$out" ]
    steady o | cmp want.jsonl -
    [ ! -e o.part ]
    says "120 answered, 0 failed"
    # through a link, and over an old file
    echo old >real
    ln -sf real link
    cag-ask -q --batch rows.jsonl -o link qwen.kvc
    [ -L link ]
    steady real | cmp want.jsonl -
    # a pipe or device is written as it is
    [ ! -c /dev/null ] || cag-ask -q --batch rows.jsonl -o /dev/null qwen.kvc
    [ -c /dev/null ]
    cag-ask -q --batch rows.jsonl -o /dev/stdout qwen.kvc | steady | cmp want.jsonl -
    # a file that stdout is already writing to is continued, not replaced
    echo earlier >all.log
    ln all.log linked
    cag-ask -q --batch rows.jsonl -o /dev/fd/1 qwen.kvc >>all.log
    [ "$(head -n 1 linked)" = earlier ]
    tail -n +2 linked | steady | cmp want.jsonl -
    cag-ask -q --batch rows.jsonl -o - qwen.kvc | steady | cmp want.jsonl -
}

@test "-o that cannot be written" {
    expect 73 cag-ask --batch rows.jsonl -o missing/o qwen.kvc
    refused "missing/o"
    mkdir -p dir
    expect 73 cag-ask --batch rows.jsonl -o dir qwen.kvc
    refused "dir" "directory"
    [ -w /dev/full ] || skip "no /dev/full"
    expect 74 cag-ask --batch rows.jsonl -o /dev/full qwen.kvc
    refused "No space left"
    rc=0
    cag-ask -q --batch rows.jsonl qwen.kvc >/dev/full 2>err || rc=$?
    [ $rc = 74 ]
    [ "$(wc -l <err)" = 1 ]
    (
        ulimit -f 4
        expect 74 cag-ask --batch rows.jsonl -o o qwen.kvc
        refused "o.part" "File too large"
    )
    # what was written is used when there is room again
    expect 0 cag-ask --batch rows.jsonl -o o --resume qwen.kvc
    steady o | cmp want.jsonl -
}

@test "an output that is no text, or what the batch reads, is not replaced" {
    cp rows.jsonl q.jsonl
    ln -s q.jsonl alias
    for o in q.jsonl alias; do
        expect 64 cag-ask --batch q.jsonl -o $o qwen.kvc
        refused "$o" "the output is what the batch reads"
    done
    cmp rows.jsonl q.jsonl
    cp qwen.kvc c.kvc
    expect 73 cag-ask --batch q.jsonl -o c.kvc qwen.kvc
    refused "c.kvc" "is a file but no text"
    expect 73 cag-ask --log c.kvc qwen.kvc Who?
    refused "c.kvc" "is a file but no text"
    cmp c.kvc qwen.kvc
    [ ! -e c.kvc.part ]
}

@test "FILE.part is never another file's contents, whatever is called so" {
    # what the batch reads, also through standard input
    echo 'Who leads?' >q.part
    expect 64 cag-ask --batch q.part -o q qwen.kvc
    refused "q.part" "it is what the batch reads"
    expect 64 cag-ask --batch - -o q qwen.kvc <q.part
    refused "q.part" "it is what the batch reads"
    [ "$(cat q.part)" = 'Who leads?' ] && [ ! -e q ]
    # the cache, and the model
    cp qwen.kvc c.part
    sum=$(sha256sum <c.part)
    expect 64 cag-ask --batch rows.jsonl -o c c.part
    refused "c.part" "it is the cache"
    expect 73 cag-ask --batch rows.jsonl -o c qwen.kvc
    refused "c.part" "is there" "--resume"
    [ "$(sha256sum <c.part)" = "$sum" ]
    # links
    echo precious >victim
    for make in 'ln -s victim' 'ln -s nowhere' 'ln victim'; do
        for resume in '' --resume; do
            [ -L named.part ] || [ -e named.part ] || case $make in
                *nowhere) ln -s nowhere named.part ;; *) $make named.part ;;
            esac
            expect 73 cag-ask --batch rows.jsonl -o named $resume qwen.kvc
            refused "named.part"
        done
        rm named.part
    done
    [ "$(cat victim)" = precious ] && [ ! -e nowhere ] && [ ! -e named ]
    # rows of an interrupted run, when --resume was forgotten
    head -n 40 want.jsonl >o.part
    expect 73 cag-ask --batch rows.jsonl -o o qwen.kvc
    refused "o.part" "go on with --resume"
    head -n 40 want.jsonl | cmp o.part -
    # a private output stays private
    rm -f o.part && echo old >o && chmod 600 o
    expect 0 cag-ask -n 1 --batch q.part -o o qwen.kvc
    [ "$(stat -c %a o)" = 600 ]
    rm -f q.part c.part o victim
}

@test "bad rows keep FILE.part; --resume asks only them again" {
    sed '5s/.*/{bad/' rows.jsonl >q.jsonl
    expect 2 cag-ask --batch q.jsonl -o o qwen.kvc
    [ ! -e o ]
    [ "$(wc -l <o.part)" = 120 ]
    says "the rows are in" "o.part"
    expect 0 cag-ask --batch rows.jsonl -o o --resume qwen.kvc
    steady o | cmp want.jsonl -
    says "1 answered, 0 failed, 119 from an earlier run"
}

@test "--resume takes rows by id, question and options, wherever they stand" {
    cag-ask -q --batch rows.jsonl -o o qwen.kvc
    sum=$(sha256sum <o)
    expect 0 cag-ask --batch rows.jsonl -o o --resume qwen.kvc
    says " 0 answered, 0 failed, 120 from an earlier run"
    [ "$(sha256sum <o)" = "$sum" ]
    # a row in front, one changed, one gone
    sed -e '1i{"id":"new","question":"New?"}' -e '7s/Question/What of/' -e '9d' rows.jsonl >q.jsonl
    expect 0 cag-ask --batch q.jsonl -o o --resume qwen.kvc
    says " 2 answered, 0 failed, 118 from an earlier run"
    cag-ask -q --batch q.jsonl qwen.kvc | steady >fresh
    steady o | cmp fresh -
    # other options, another cache: nothing is taken
    expect 0 cag-ask -n 9 --batch q.jsonl -o p --resume qwen.kvc
    expect 0 cag-ask --stop zz --batch q.jsonl -o o --resume qwen.kvc
    says " 120 answered, 0 failed, 0 from an earlier run"
    cag-build -q -m "$MODELS/qwen3" -o two.kvc kb.md rows.jsonl
    expect 0 cag-ask --stop zz --batch q.jsonl -o o --resume two.kvc
    says " 120 answered, 0 failed, 0 from an earlier run"
}

@test "killed at any moment and resumed: every row once, in order" {
    rounds=12 rows=400
    [ -n "$CAG_TEST_LONG" ] && rounds=200 rows=50000
    for i in $(seq $rows); do
        printf '{"id":%d,"question":"Question %d?","max_tokens":%d}\n' $i $i $((i % 7 + 8))
    done >many.jsonl
    cag-ask -q --batch many.jsonl qwen.kvc | steady >want
    RANDOM=42
    for i in $(seq $rounds); do
        [ -e o ] && rm o
        cag-ask -q --batch many.jsonl -o o --resume qwen.kvc 2>/dev/null 3>&- &
        sleep 0.$((RANDOM % 30 + 5))
        kill -KILL $! 2>/dev/null || true
        wait $! || true # "timeout" would not: what it kills may hold its lock yet
        # a torn last line
        [ ! -s o.part ] || [ $((i % 3)) != 0 ] || truncate -s -$((RANDOM % 40)) o.part
    done
    [ -e o ] || cag-ask -q --batch many.jsonl -o o --resume qwen.kvc
    steady o | cmp want -
    [ ! -e o.part ]
}

@test "a changed question costs no earlier answer, also when killed" {
    cag-ask -q --batch rows.jsonl -o o qwen.kvc
    mv o o.part
    (sed -n '1s/Question/Changed/p' rows.jsonl; sed -n 2,5p rows.jsonl) >head
    mkfifo in
    cag-ask -q --batch in -o o --resume qwen.kvc 2>err &
    pid=$!
    exec 8>in
    rm in
    cat head >&8
    for i in $(seq 200); do [ "$(wc -l <o.part)" -gt 120 ] && break; sleep 0.05; done
    kill -9 $pid
    exec 8>&-
    wait $pid || true
    # all 120, and the new one behind them
    head -n 120 o.part | steady | cmp want.jsonl -
    [ "$(tail -n +121 o.part | jq -r .question)" = "$(head -n 1 head | jq -r .question)" ]
    sed '1s/Question/Changed/' rows.jsonl >new.jsonl
    expect 0 cag-ask --batch new.jsonl -o o --resume qwen.kvc
    says " 0 answered, 0 failed, 120 from an earlier run"
    [ "$(ls -A | grep -c '^\.\|part')" = 0 ]
    steady o | tail -n +2 | cmp <(tail -n +2 want.jsonl) -
}

@test "--resume reads an earlier output where it lies: memory is flat" {
    case ${CAG_MODE:-release} in san | tsan) skip "a sanitizer keeps what is freed" ;; esac
    mkfifo in
    memory() {
        cag-ask -q -n 2 --batch in -o o --output-format jsonl --resume llama.kvc &
        pid=$!
        exec 8>in
        echo one >&8
        for i in $(seq 400); do tail -c 999 o.part | grep -q '"question":"one"' && break; sleep 0.05; done
        kib=$(awk '/^RssAnon|^VmSwap/ { s += $2 } END { print s }' /proc/$pid/status)
        exec 8>&-
        wait $pid
        rm o
    }
    memory
    before=$kib
    text=$(printf 'answer%.0s ' {1..100})
    seq 20000 | sed "s/.*/{\"question\":\"&\",\"options\":\"0123456789abcdef\",\"answer\":\"$text\"}/" >o.part
    memory
    echo "$before KiB, $kib KiB with 14 MB of earlier rows"
    rm in
    [ $((kib - before)) -lt 3072 ]
}

@test "a torn FILE.part is repaired, a foreign one left alone" {
    cag-ask -q --batch rows.jsonl -o o qwen.kvc
    for bytes in 1 50 5000; do
        head -c -$bytes o >o.part
        cp o saved
        rm o
        cag-ask -q --batch rows.jsonl -o o --resume qwen.kvc
        steady o | cmp want.jsonl -
    done
    # whatever stands between rows
    (
        head -n 3 o
        printf '\0garbage\n{"question":"Question 1?","answer":"forged"}\n{"'
    ) >o.part
    rm o
    cag-ask -q --batch rows.jsonl -o o --resume qwen.kvc
    steady o | cmp want.jsonl -
    printf '\0garbage\n{"question":"Question 1?","answer":"forged"}\n{"' >o.part
    cp o.part saved
    expect 73 cag-ask --batch rows.jsonl -o o --resume qwen.kvc
    refused "o.part" "holds no rows"
    cmp o.part saved
}

@test "two runs do not write one file" {
    mkfifo in
    cag-ask -q --batch in -o o qwen.kvc &
    pid=$!
    exec 8>in
    rm in
    echo one >&8
    for i in $(seq 200); do [ -s o.part ] && break; sleep 0.05; done
    expect 75 cag-ask --batch rows.jsonl -o o qwen.kvc
    refused "o.part" "another run"
    exec 8>&-
    wait $pid
    [ "$(wc -l <o)" = 1 ]
}

@test "progress counts rows, of how many, on a terminal and for SIGUSR1" {
    yes 'Who leads?' | head -12 >q
    expect 0 cag-ask -n 3 -j 4 --progress always --batch q -o a qwen.kvc
    grep -qE '^cag-ask: 0/12 rows$' "$err"
    grep -qE '^cag-ask: 12/12 rows' "$err"
    run ! grep -E 'prefill| B |bytes' "$err"
    # of a pipe nobody knows the length
    expect 0 cag-ask -n 3 -j 4 --progress always --batch - qwen.kvc < <(cat q)
    grep -qE '^cag-ask: [0-9]+ rows' "$err"
}

@test "a row's own sampling, length and stop are obeyed" {
    printf '{"question":"Write","temperature":1.5,"seed":%d,"max_tokens":8}\n' 1 2 1 >q
    cag-ask -q --batch q qwen.kvc >o
    [ "$(jq -r .answer o | sort -u | wc -l)" -ge 2 ]
    # a seed, a row: the same again, and at any place of -j
    cag-ask -q -j 1 --batch q qwen.kvc | steady >o1
    steady o | cmp o1 -
    # each field by itself is what the option of that name is
    while IFS='|' read -r field option; do
        printf '{"question":"Write",%s}\n' "$field" >q
        printf '{"question":"Write"}\n' >plain
        cag-ask -q -n 12 --batch q qwen.kvc | jq -c '[.answer,.usage,.options]' >o1
        cag-ask -q -n 12 $option --batch plain qwen.kvc | jq -c '[.answer,.usage,.options]' | cmp o1 -
    done <<'END'
"temperature":0.9,"seed":5|--temperature 0.9 --seed 5
"temperature":0.9,"seed":5,"top_p":0.5|--temperature 0.9 --seed 5 --top-p 0.5
"temperature":0.9,"seed":5,"top_k":3|--temperature 0.9 --seed 5 --top-k 3
"temperature":0.9,"seed":5,"min_p":0.2|--temperature 0.9 --seed 5 --min-p 0.2
"max_tokens":3|-n 3
"temperature":null,"top_p":null,"seed":null,"think":null,"max_tokens":null,"n":1|
END
    # and they are copied to the answer, as they were written
    printf '{"question":"Write","temperature":0.10,"x":1.0}\n' >q
    cag-ask -q -n 2 --batch q qwen.kvc | grep -qF '"temperature":0.10,"x":1.0'
}

@test "a field that cannot be obeyed makes a bad row, and only that" {
    while read -r field; do
        printf '{"question":"Why?",%s}\n{"question":"Who?"}\n' "$field" >q
        expect 2 cag-ask -q -n 2 --batch q qwen.kvc
        [ "$(jq -r 'has("answer")' "$out" | paste -sd' ')" = "false true" ]
        [ "$(head -n 1 "$out" | jq -r .error_code)" = format ]
        head -n 1 "$out" | jq -r .error | grep -qF "line 1: ${field%%:*} must be"
    done <<'END'
"temperature":-1
"temperature":"hot"
"temperature":1e300
"temperature":true
"top_p":0
"top_p":1.01
"min_p":-0.1
"top_k":-1
"top_k":2.5
"seed":-1
"seed":18446744073709551616
"seed":"7"
"max_tokens":0
"max_tokens":2.5
"think":1
"n":3
END
}

@test "JSON that is not a row a line says how to make it so" {
    printf '[{"id":1,"question":"Where?"}]\n' >array
    printf '[\n{"question":"Where?"}\n]\n' >lines
    printf '  [ {"question":"Where?"} ]\n' >blanks
    for f in array lines blanks; do
        expect 65 cag-ask --batch $f qwen.kvc
        refused "$f" "line 1" "jq -c '.[]' $f"
        jq -c '.[]' $f >fixed
        expect 0 cag-ask -q -n 2 --batch fixed qwen.kvc
    done
    printf '\n{\n  "question": "Where?"\n}\n' >pretty
    expect 65 cag-ask --batch pretty qwen.kvc
    refused "pretty" "line 2" "jq -c . pretty"
    # blanks, and a byte order mark, before the brace
    printf '\xef\xbb\xbf \t{"id":1,"question":"Where?"}\n  {"id":2,"question":"Why?"}\n' >q
    expect 0 cag-ask -q -n 2 --batch q qwen.kvc
    [ "$(jq -r .id "$out" | paste -sd' ')" = "1 2" ]
    # text may begin with a bracket
    printf '[sic] Who leads?\n' >q
    expect 0 cag-ask -q -n 2 --batch q qwen.kvc
}

@test "numbers keep their text, and ids that differ are two" {
    printf '{"id":%s,"question":"Why?","w":[1.50,{"a":9007199254740993}],"s":"18446744073709551615.0"}\n' \
        18446744073709551615 18446744073709551616 1e2 -0 1.10 9223372036854775807 >q
    expect 0 cag-ask -q -n 2 --batch q -o o qwen.kvc
    grep -o '"id":[^,]*' o | cmp - <(grep -o '"id":[^,]*' q)
    [ "$(grep -cF '"w":[1.50,{"a":9007199254740993}],"s":"18446744073709551615.0"' o)" = 6 ]
    expect 0 cag-ask --dry-run --batch q qwen.kvc
    # and --resume finds each
    expect 0 cag-ask -n 2 --batch q -o o --resume qwen.kvc
    says " 0 answered, 0 failed, 6 from an earlier run"
}

@test "fields that are called as ours are kept, in \"input\"" {
    printf '{"question":"Why?","answer":"42","options":["a","b"],"mine":1}\n' >q
    expect 0 cag-ask -q -n 2 --batch q -o o qwen.kvc
    [ "$(jq -c '[.input,.mine]' o)" = '[{"answer":"42","options":["a","b"]},1]' ]
    [ "$(jq -r .answer o)" != 42 ]
    # a row that was put out, asked again, is not wrapped
    expect 0 cag-ask -q -n 2 --batch o qwen.kvc
    [ "$(jq -c 'has("input"), .mine' "$out" | paste -sd' ')" = "false 1" ]
}

@test "an id given twice is told by the run, too" {
    printf '{"id":1,"question":"Why?"}\n{"id":"1","question":"Why?"}\n{"id":1,"question":"Who?"}\n' >q
    expect 0 cag-ask -n 2 --batch q -o o qwen.kvc
    says "q: line 3: the id was given before, on line 1"
    [ "$(grep -c 'given before' "$err")" = 1 ]
}

@test "a line that is too long is a bad row" {
    (
        echo '{"id":1,"question":"Why?"}'
        printf '{"id":2,"question":"'
        head -c 140000000 /dev/zero | tr '\0' x
        printf '"}\n{"id":3,"question":"Who?"}\n'
    ) >q
    expect 2 cag-ask -n 2 --batch q -o o qwen.kvc
    [ "$(jq -c '[.id, .line, .error_code]' o.part | paste -sd' ')" = '[1,1,null] [null,2,"limit"] [3,3,null]' ]
    says "q: line 2: the line is longer than 128 MiB"
    rm q o.part
}

@test "a bad first record of a table is a row as any other" {
    for bad in '1' '1,"a"b' '1,a,b'; do
        printf 'id,question\n%s\n2,Who?\n' "$bad" >q.csv
        rm -f o o.part
        expect 2 cag-ask -q -n 2 --batch q.csv -o o qwen.kvc
        [ "$(jq -r 'select(.error).line' o.part)" = 2 ]
        [ "$(jq -r 'select(.answer).id' o.part)" = 2 ]
        printf 'id,question\n1,mended\n2,Who?\n' >q.csv
        expect 0 cag-ask -q -n 2 --batch q.csv --resume -o o qwen.kvc
        [ "$(jq -r .id o | paste -sd,)" = 1,2 ]
    done
    # lines: a first one that is too long, where JSON is asked for
    { head -c 20000000 /dev/zero | tr '\0' x; printf '\nWho?\n'; } >long
    expect 2 cag-ask -q -n 2 --output-format jsonl --batch long qwen.kvc
    [ "$(jq -r 'has("error")' "$out" | paste -sd,)" = true,false ]
    # so many columns are a mistake
    { seq -s, 5000; echo; } >wide.csv
    expect 65 cag-ask -q -n 2 --batch wide.csv qwen.kvc
    says "the header has 5000 columns, at most 4096"
}

@test "a .csv is rows; --question-field says where the question is" {
    printf 'id,Frage,note\r\n7,"Who leads, really?",a\r\n\r\n8,"Say ""hi""\nand why?","x\ny"\n9,Why?\n10,,e\n11,Wh"y,e\n' >q.csv
    expect 2 cag-ask -n 2 --question-field Frage --batch q.csv qwen.kvc
    [ "$(jq -c '[.line,.id,.question,.note]' "$out" | sed -n 1,2p | paste -sd' ')" = \
        '[2,"7","Who leads, really?","a"] [4,"8","Say \"hi\"\nand why?","x\ny"]' ]
    [ "$(jq -c '.error_code' "$out" | paste -sd' ')" = 'null null "format" "format" "format"' ]
    says "q.csv: line 7: CSV: 2 values, the header has 3" "line 9: CSV: a quote in a value"
    # as the same rows in JSON, field for field
    printf '{"id":"7","Frage":"Who leads?"}\n' >q.jsonl
    printf 'id,Frage\n7,Who leads?\n' >q.csv
    cag-ask -q -n 2 --question-field Frage --batch q.jsonl qwen.kvc | steady | sed 's/"line":1/"line":2/' >want
    cag-ask -q -n 2 --question-field Frage --batch q.csv qwen.kvc | steady | cmp want -
    # the same with tabs
    printf 'id\tFrage\tnote\n7\tWho leads, really?\ta\n8\t"Say ""hi""\tand why?"\tb\n' >q.tsv
    expect 0 cag-ask -n 2 --question-field Frage --batch q.tsv qwen.kvc
    [ "$(jq -r .Frage "$out" | sed -n 1p)" = 'Who leads, really?' ]
    [ "$(jq -c .Frage "$out" | sed -n 2p)" = '"Say \"hi\"\tand why?"' ]
    # no table is written
    for name in a.csv A.TSV; do
        expect 64 cag-ask --batch q.tsv -o $name qwen.kvc
        grep -q "written as JSON Lines" "$err"
    done
    # a header that cannot be one ends it, and so does a missing column
    for head in 'id,id,question' 'id,,question' 'id,"a"b,question'; do
        printf '%s\n1,2,Why?\n' "$head" >q.csv
        expect 65 cag-ask -n 2 --batch q.csv qwen.kvc
        refused "CSV: "
    done
    printf 'id,q\n1,Why?\n' >q.csv
    expect 65 cag-ask -n 2 --batch q.csv qwen.kvc
    refused 'no column is called "question"; there are: id, q; --question-field NAME'
    # a quote that is never closed
    printf 'question\n"Why?\nWho?\n' >q.csv
    expect 2 cag-ask -n 2 --batch q.csv qwen.kvc
    [ "$(wc -l <"$out")" = 1 ]
    expect 64 cag-ask --question-field q qwen.kvc hi
}

@test "answers, a log and a saved chat never become sources of their cache" {
    mkdir docs outside
    cp kb.md docs
    cag-build -q -m "$MODELS/qwen3" -o dir.kvc docs
    printf 'output: pat.kvc\nsources: ["docs/*.md"]\nexclude: "log-*"\n' >pat.yaml
    cag-build -q -m "$MODELS/qwen3" --manifest pat.yaml
    echo 'Who leads?' >q.txt
    expect 64 cag-ask -n 2 --batch q.txt -o docs/answers.txt dir.kvc
    refused "docs/answers.txt: the cache's next build would read this file as a source ("
    expect 64 cag-ask -n 2 --log docs/log.md dir.kvc hi
    refused "docs/log.md: the cache's next build"
    expect 64 cag-ask -n 2 --log docs/log.md pat.kvc hi
    refused "docs/log.md: the cache's next build"
    [ "$(ls docs)" = kb.md ]
    printf '/chat\nhi\n/save docs/talk.txt\n' | cag-ask -i -n 2 dir.kvc >/dev/null 2>said || true
    grep -q "docs/talk.txt: the cache's next build" said
    # names that no build would take are fine
    expect 0 cag-ask -n 2 --batch q.txt -o docs/answers.jsonl dir.kvc
    expect 0 cag-ask -q -n 2 --log docs/log-1.md pat.kvc hi
    rm docs/log-1.md
    expect 0 cag-ask -n 2 --batch q.txt -o outside/answers.txt dir.kvc
    expect 0 cag-build --check dir.kvc pat.kvc
}

@test "answers that were cut are counted" {
    printf 'How long?\nWho leads?\n' >q.txt
    expect 0 cag-ask -n 3 --batch q.txt qwen.kvc
    grep -q '^cag-ask: 2 of 2 answers were cut, after 3 tokens where their rows do not say otherwise; -n allows more$' "$err"
    # rows of JSON say it themselves
    expect 0 cag-ask -n 3 --json --batch q.txt qwen.kvc
    [ ! -s "$err" ]
    expect 0 cag-ask -q -n 3 --batch q.txt qwen.kvc
    [ ! -s "$err" ]
    expect 0 cag-ask -u -n 3 --json --batch q.txt qwen.kvc
    grep -q '2 of 2 answers were cut' "$err"
}

@test "a source that was named is not replaced by answers, nor written to by a log" {
    mkdir named && cd named
    cp "$work/kb.md" .
    cag-build -q -m "$MODELS/qwen3" -o k.kvc kb.md
    echo 'Who leads?' >q.txt
    ln kb.md hard.md
    ln -s kb.md soft.md
    sha256sum kb.md >../before
    for name in kb.md hard.md soft.md ./kb.md; do
        expect 64 cag-ask -q -n 2 --batch q.txt -o $name k.kvc
        refused "is a source of the cache"
        expect 64 cag-ask -q -n 2 --log $name k.kvc 'Who leads?'
    done
    sha256sum -c --quiet ../before
    cag-ask -q k.kvc -n 2 'Who leads?' >/dev/null
}

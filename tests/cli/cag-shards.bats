#!/usr/bin/env bats
# A batch that is spread over many runs: cag-ask --shard, cag-inspect --shards.

bats_require_minimum_version 1.5.0
load ask_helper

setup_file() {
    ask_setup_file
    unset CAG_SHARDS JOB_COMPLETION_INDEX "${!SLURM_@}"
    # every fifth is sampled: by its line, whoever answers it
    for i in $(seq 60); do
        printf '{"id":%d,"question":"Question %d?","max_tokens":%d,"temperature":%d}\n' \
            $i $i $((i % 7 + 1)) $((i % 5 == 0))
    done >rows.jsonl
    cag-ask -q --batch rows.jsonl qwen.kvc | steady >want.jsonl
}
setup() {
    cd "$work"
    rm -rf a.* answers.* x dir
}

shard() { cag-ask -q --batch rows.jsonl --shard "$1" -o "${2:-a.%i.jsonl}" --resume qwen.kvc; }
shards() { # N [PATTERN]
    local i
    for ((i = 0; i < $1; i++)); do shard $i/$1 "$2" || return; done
}
# all rows, in the order of the questions
joined() { cat "$@" | grep -v '"complete":true' | steady | jq -cs 'sort_by(.line)[]'; }
complete() { # FILES: as the unspread batch, each row once
    joined "$@" | cmp - <(jq -c . want.jsonl)
    cag-inspect --shards "$@" >x
    grep -q '^complete: 60 of 60 rows' x
}

@test "shards are the rows by number modulo N, and together the batch" {
    for n in 1 3 7; do
        shards $n
        complete a.?.jsonl
        for ((i = 0; i < n; i++)); do
            [ "$(jq -s "map(select(.line)) | all(.[]; (.line - 1) % $n == $i)" a.$i.jsonl)" = true ]
        done
        rm a.*
    done
    # more shards than rows: a file without rows is complete too
    head -n 2 rows.jsonl >few.jsonl
    for i in 0 1 2; do
        expect 0 cag-ask --batch few.jsonl --shard $i/3 -o a.%i.jsonl qwen.kvc
        says "shard $i of 3 is complete: $((i < 2)) of 2 rows"
    done
    expect 0 cag-inspect --shards 'a.*.jsonl'
    # and again, from what is there
    cp a.2.jsonl a.2.jsonl.part
    expect 0 cag-ask -q --batch few.jsonl --shard 2/3 -o a.%i.jsonl --resume qwen.kvc
    expect 0 cag-inspect --shards 'a.*.jsonl'
    # to standard output as well
    expect 0 cag-ask -q --batch rows.jsonl --shard 59/60 qwen.kvc
    [ "$(jq -s 'map(.line // .complete) == [60, true]' "$out")" = true ]
}

@test "the last line says of what the file is a part" {
    expect 0 cag-ask --batch rows.jsonl --shard 1/4 -o a.%i.jsonl qwen.kvc
    says "shard 1 of 4 is complete: 15 of 60 rows, cache " ", options "
    id=$(cag-inspect --digest qwen.kvc)
    tail -n 1 a.1.jsonl | jq -e --arg id "$id" '.schema == 1 and .complete and .shard == 1 and
        .shards == 4 and .rows == 15 and .failed == 0 and .input_rows == 60 and
        .content_id == $id and (.options | length) == 16 and (.questions | length) == 16 and
        (has("line") | not)'
    # the same bytes each time, and untouched by threads
    cp a.1.jsonl x
    rm a.1.jsonl
    cag-ask -q -t 1 -j 3 --batch rows.jsonl --shard 1/4 -o a.%i.jsonl qwen.kvc
    cmp <(steady x) <(steady a.1.jsonl)
}

@test "a shard with bad rows is not complete until they are mended" {
    sed '2s/.*/{bad/' rows.jsonl >q.jsonl
    expect 0 cag-ask -q --batch q.jsonl --shard 0/2 -o a.%i.jsonl qwen.kvc
    expect 2 cag-ask -q --batch q.jsonl --shard 1/2 -o a.%i.jsonl qwen.kvc
    [ ! -e a.1.jsonl ]
    not grep -q complete a.1.jsonl.part
    expect 1 cag-inspect --shards 'a.*.jsonl'
    grep -q '^a.1.jsonl.part: 30 rows, 1 failed, not done$' "$out"
    grep -q '^missing: shard 1 of 2$' "$out"
    expect 0 cag-ask -q --max-errors 1 --batch q.jsonl --shard 1/2 -o a.%i.jsonl --resume qwen.kvc
    expect 0 cag-inspect --shards 'a.*.jsonl'
    grep -q '^complete: 60 of 60 rows, 1 failed, ' "$out"
    # with the row mended, shard 0 is one of other questions
    expect 0 cag-ask -q --batch rows.jsonl --shard 1/2 -o a.%i.jsonl --resume qwen.kvc
    expect 1 cag-inspect --shards 'a.*.jsonl'
    grep -q 'of other questions' "$out"
    expect 0 cag-ask --batch rows.jsonl --shard 0/2 -o a.%i.jsonl --resume qwen.kvc
    says " 0 answered, 0 failed, 30 from an earlier run"
    complete a.0.jsonl a.1.jsonl
}

@test "records of a CSV are counted, not their lines" {
    (
        echo question
        for i in $(seq 9); do printf '"What is\n%d?"\n' $i; done
    ) >q.csv
    for i in 0 1 2; do
        cag-ask -q -n 2 --batch q.csv --shard $i/3 -o a.%i.jsonl qwen.kvc
        [ "$(wc -l <a.$i.jsonl)" = 4 ]
    done
    expect 0 cag-inspect --shards 'a.*.jsonl'
}

@test "killed and restarted with another N: each row once" {
    rounds=10 rows=300
    [ -n "$CAG_TEST_LONG" ] && rounds=100 rows=20000
    for i in $(seq $rows); do
        printf '{"id":%d,"question":"Question %d?","max_tokens":%d}\n' $i $i $((i % 7 + 8))
    done >many.jsonl
    cag-ask -q --batch many.jsonl qwen.kvc | steady | jq -c . >want
    RANDOM=7
    for round in $(seq $rounds); do
        n=$((RANDOM % 5 + 1)) pids=
        for ((i = 0; i < n; i++)); do
            cag-ask -q -t 1 --batch many.jsonl --shard $i/$n -o a.%i.jsonl --resume qwen.kvc 2>/dev/null &
            pids="$pids $!"
        done
        sleep 0.$((RANDOM % 40 + 5))
        kill -9 $pids 2>/dev/null || true
        wait $pids || true
        # torn last lines
        for f in a.*.part; do
            [ ! -s "$f" ] || [ $((RANDOM % 3)) != 0 ] || truncate -s -$((RANDOM % 40)) "$f"
        done
    done
    for n in 3 2 4; do
        for ((i = 0; i < n; i++)); do
            cag-ask -q --batch many.jsonl --shard $i/$n -o a.%i.jsonl --resume qwen.kvc
        done
        expect 0 cag-inspect --shards 'a.*.jsonl'
        cat "$out"
        [ "$(ls a.*.jsonl | wc -l)" = $n ]
        cat a.*.jsonl | grep -v '"complete":true' | steady | jq -cs 'sort_by(.line)[]' | cmp - want
    done
}

@test "--resume takes the rows that other shards answered" {
    shards 4 'answers.%i-of-%n.jsonl'
    cp rows.jsonl saved
    for i in 0 1 2; do
        expect 0 cag-ask --batch rows.jsonl --shard $i/3 -o answers.%i-of-%n.jsonl --resume qwen.kvc
        says " 0 answered, 0 failed, 20 from an earlier run"
    done
    complete answers.?-of-3.jsonl
    complete answers.?-of-4.jsonl
    # a row more at the top, and all are somewhere else
    sed -i '1i{"id":0,"question":"First?","max_tokens":2}' rows.jsonl
    grep -v '"temperature":1' rows.jsonl >q.jsonl
    total=0
    for i in 0 1 2; do
        cag-ask --batch q.jsonl --shard $i/3 -o answers.%i-of-%n.jsonl --resume qwen.kvc 2>x
        n=$(sed -n 's/.* rows: \([0-9]*\) answered.*/\1/p' x)
        total=$((total + n))
    done
    mv saved rows.jsonl
    [ "$total" = 1 ]
    # what is no file of a shard, a link, or somebody's text is passed over
    rm answers.*
    shards 2
    mkdir a.7.jsonl
    ln -s a.1.jsonl a.8.jsonl
    echo 'dear diary' >a.9.jsonl
    expect 0 cag-ask --batch rows.jsonl --shard 0/1 -o a.%i.jsonl --resume qwen.kvc
    [ "$(cat a.9.jsonl)" = 'dear diary' ] && [ -L a.8.jsonl ] && [ -d a.7.jsonl ]
}

@test "fewer shards than before: what is nobody's becomes FILE.part" {
    shards 4
    cp a.3.jsonl x
    # another's file, though it is called like one
    cp rows.jsonl a.2024.jsonl
    shards 2
    [ ! -e a.2.jsonl ] && [ ! -e a.3.jsonl ]
    cmp a.3.jsonl.part x
    cmp a.2024.jsonl rows.jsonl
    rm a.2024.jsonl
    complete a.0.jsonl a.1.jsonl
    cag-inspect --shards 'a.*.jsonl' | grep -q '^a.3.jsonl.part: 15 rows, not done$'
    # and back: nothing is asked again that is in a file
    expect 0 cag-ask --batch rows.jsonl --shard 3/4 -o a.%i.jsonl --resume qwen.kvc
    says " 0 answered, 0 failed, 15 from an earlier run"
    # one that cannot give way is named
    rm a.*
    shards 3
    cp a.2.jsonl a.2.jsonl.part
    expect 0 cag-ask --batch rows.jsonl --shard 0/2 -o a.%i.jsonl --resume qwen.kvc
    says "a.2.jsonl is of a run with more shards" "move it away"
    [ -e a.2.jsonl ]
}

@test "--shards says what is missing, doubled, damaged or of something else" {
    shards 6
    expect 0 cag-inspect --shards 'a.*.jsonl'
    grep -q '^a.5.jsonl: shard 5 of 6, 10 rows$' "$out"
    complete a.?.jsonl
    rm a.1.jsonl a.3.jsonl a.4.jsonl
    expect 1 cag-inspect --shards 'a.*.jsonl'
    grep -q '^missing: shards 1, 3-4 of 6$' "$out"
    grep -q '^not complete: 30 of 60 rows' "$out"
    expect 1 cag-inspect --json --shards 'a.*.jsonl'
    jq -e '(.complete | not) and .missing == [1, 3, 4] and .rows == 30 and .input_rows == 60 and
        (.files | length) == 3 and .files[0].wrong == []' "$out"
    shards 6
    cp a.2.jsonl a.copy.jsonl
    expect 1 cag-inspect --shards 'a.*.jsonl'
    grep -q '^a.copy.jsonl: shard 2 of 6, 10 rows, 10 that are there before (the first: line 3)$' "$out"
    grep -q '^not complete: 60 of 60 rows' "$out"
    # a plain batch that is no shard doubles them as well
    mv want.jsonl a.copy.jsonl
    expect 1 cag-inspect --shards 'a.*.jsonl'
    grep -q '^a.copy.jsonl: 60 rows, not done, 60 that are there before' "$out"
    mv a.copy.jsonl want.jsonl
    # a row is gone, a row is too many, the end is torn
    cp a.0.jsonl x
    for damage in '2d' '$p' '1{h;d};$G'; do
        sed "$damage" x >a.0.jsonl
        expect 1 cag-inspect --shards 'a.*.jsonl'
        grep -q '^a.0.jsonl: .*damaged' "$out"
    done
    head -c -1 x >a.0.jsonl
    expect 1 cag-inspect --shards 'a.*.jsonl'
    grep -q '^a.0.jsonl: 10 rows, not done' "$out"
    cp x a.0.jsonl
    # other options, cache, number, questions
    rm a.5.jsonl
    cag-ask -q --min-p 0.5 --batch rows.jsonl --shard 5/6 -o a.%i.jsonl qwen.kvc
    expect 1 cag-inspect --shards 'a.*.jsonl'
    grep -q '^a.5.jsonl: .*of other options' "$out"
    grep -q '^missing: shard 5 of 6$' "$out"
    rm a.5.jsonl
    cag-ask -q --batch rows.jsonl --shard 5/6 -o a.%i.jsonl llama.kvc
    expect 1 cag-inspect --json --shards 'a.*.jsonl'
    jq -e '.files[5].wrong == ["cache", "options"]' "$out"
    rm a.5.jsonl
    cag-ask -q --batch rows.jsonl --shard 5/7 -o a.%i.jsonl qwen.kvc
    expect 1 cag-inspect --shards 'a.*.jsonl'
    grep -q '^a.5.jsonl: shard 5 of 7, .*of another number of shards' "$out"
    rm a.5.jsonl
    head -n 59 rows.jsonl >q.jsonl
    cag-ask -q --batch q.jsonl --shard 5/6 -o a.%i.jsonl qwen.kvc
    expect 1 cag-inspect --shards 'a.*.jsonl'
    grep -q '^a.5.jsonl: .*of other questions' "$out"
}

@test "--shards: what cannot be judged" {
    expect 66 cag-inspect --shards 'a.*.jsonl'
    expect 66 cag-inspect --shards a.0.jsonl
    expect 65 cag-inspect --shards kb.md
    grep -q "kb.md: row 1 is none of cag-ask's" "$err"
    expect 64 cag-inspect --shards
    expect 64 cag-inspect --shards -t a.0.jsonl
    cp want.jsonl a.0.jsonl
    expect 1 cag-inspect --shards a.0.jsonl
    grep -q '^no file is complete$' "$out"
    expect 1 cag-inspect --json --shards a.0.jsonl
    jq -e '(.complete | not) and .files[0].wrong == ["open"] and (has("missing") | not)' "$out"
    # numbers of a last line that cannot be
    for edit in 's/"shard":0/"shard":9/' 's/"shards":1,/"shards":99999999999,/' \
        's/"rows":60/"rows":-1/' 's/"failed":0/"failed":61/' 's/"options":"/&x/'; do
        rm -f a.0.jsonl && shards 1
        sed -i "\$$edit" a.0.jsonl
        expect 65 cag-inspect --shards a.0.jsonl
    done
}

@test "auto: Slurm's array, Kubernetes' index" {
    auto() { # VARIABLE=VALUE...
        rm -f a.*
        expect 0 env "$@" cag-ask --batch rows.jsonl --shard auto -o a.%i-%n.jsonl qwen.kvc
        echo a.*
    }
    s=SLURM_ARRAY_TASK
    [ "$(auto ${s}_ID=3 ${s}_COUNT=8 ${s}_MIN=0 ${s}_MAX=7)" = a.3-8.jsonl ]
    [ "$(auto ${s}_ID=3 ${s}_COUNT=8 ${s}_MIN=1 ${s}_MAX=8 ${s}_STEP=1)" = a.2-8.jsonl ]
    [ "$(auto ${s}_ID=9 ${s}_COUNT=3 ${s}_MIN=1 ${s}_MAX=9 ${s}_STEP=4)" = a.2-3.jsonl ]
    # one task of eight again, by hand
    [ "$(auto ${s}_ID=3 ${s}_COUNT=1 ${s}_MIN=3 ${s}_MAX=3 CAG_SHARDS=8)" = a.3-8.jsonl ]
    [ "$(auto JOB_COMPLETION_INDEX=4 CAG_SHARDS=5)" = a.4-5.jsonl ]
    while IFS=: read -r words vars; do
        expect 64 env $vars cag-ask --batch rows.jsonl --shard auto qwen.kvc
        grep -qF -- "$words" "$err"
        [ ! -s "$out" ]
    done <<END
neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX:CAG_SHARDS=5
set CAG_SHARDS to the job's completions:JOB_COMPLETION_INDEX=4
no range:${s}_ID=5 ${s}_COUNT=3 ${s}_MIN=1 ${s}_MAX=7
no range:${s}_ID=4 ${s}_COUNT=3 ${s}_MIN=1 ${s}_MAX=9 ${s}_STEP=4
are not set:${s}_ID=5
shard 5 of 5:JOB_COMPLETION_INDEX=5 CAG_SHARDS=5
CAG_SHARDS is 'many', expected a whole number:JOB_COMPLETION_INDEX=5 CAG_SHARDS=many
END
}

@test "wrong uses of --shard, one line each" {
    echo Why? >q.txt
    while read -r line; do
        expect 64 cag-ask $line qwen.kvc
        [ ! -s "$out" ]
        [ "$(wc -l <"$err")" -le 2 ] || { cat "$err"; return 1; }
    done <<'END'
--batch rows.jsonl --shard 3/3
--batch rows.jsonl --shard 3
--batch rows.jsonl --shard -1/3
--batch rows.jsonl --shard 1/0
--batch rows.jsonl --shard 0x1/3
--batch rows.jsonl --shard 1/3/4
--batch rows.jsonl --shard 1/99999999
--batch rows.jsonl --shard 1/99999999999999999999
--batch rows.jsonl --shard 1/2 -o same.jsonl
--batch rows.jsonl --shard 1/2 -o a.%n.jsonl
--batch rows.jsonl --shard 1/2 -o a.%i.%x
--batch rows.jsonl --shard 1/2 -o a.%i.%
--batch rows.jsonl --shard 1/2 -o dir%i/a.jsonl
--batch rows.jsonl --shard 1/2 --output-format text
--shard 1/2 Why?
--batch q.txt --shard 0/2
END
    # percent signs: only with --shard, and doubled
    expect 0 cag-ask -q --batch q.txt -o 'a.%i' qwen.kvc
    [ -e a.%i ]
    expect 0 cag-ask -q --json --batch q.txt --shard 0/2 -o 'a.%%%i%n' qwen.kvc
    [ -e a.%02 ]
    # a directory of any name
    mkdir dir
    expect 0 cag-ask -q --json --batch q.txt --shard 0/1 -o 'dir/one' qwen.kvc
    # rows of the shard alone are checked
    expect 0 cag-ask --batch rows.jsonl --shard 1/3 --dry-run qwen.kvc
    says "20 rows checked, 0 bad"
    [ ! -s "$out" ]
}

#!/usr/bin/env bats
# examples/parallel, slurm and k8s: a batch over many processes.  Slurm itself is
# in tests/tools/check_slurm.sh, the API's schema in check_k8s.sh.

bats_require_minimum_version 1.5.0
load ask_helper

setup_file() {
    ask_setup_file
    unset CAG_SHARDS CAG_LOCAL JOB_COMPLETION_INDEX "${!SLURM_@}"
    export examples="$BATS_TEST_DIRNAME/../../examples" USER="${USER:-test}"
    for i in $(seq 40); do
        printf '{"id":%d,"question":"Question %d?","max_tokens":%d}\n' $i $i $((i % 7 + 1))
    done >rows.jsonl
    cag-ask -q --batch rows.jsonl qwen.kvc | steady | jq -c . >want
}
setup() {
    cd "$work"
    rm -rf answers.* a b node
}

joined() { cat "$@" | grep -v '"complete":true' | steady | jq -cs 'sort_by(.line)[]'; }

@test "parallel: N processes, killed, and again with another N" {
    command -v parallel >/dev/null || skip "GNU parallel is not here"
    expect 0 sh "$examples/parallel/ask-shards.sh" 4 rows.jsonl qwen.kvc -j 2
    grep -q '^complete: 40 of 40 rows' "$out"
    joined answers.*.jsonl | cmp - want
    [ "$(awk 'NR > 1 { s += $7 } END { print NR - 1, s }' answers.log)" = "4 0" ]
    # a process that is killed is tried again by parallel, and goes on
    rm answers.*
    mkdir a
    cat >a/cag-ask <<END
#!/bin/sh
[ -e "$work/b" ] || { : >"$work/b"; "$(command -v cag-ask)" "\$@" & sleep 0.1; kill -KILL \$!; wait \$!; exit 137; }
exec "$(command -v cag-ask)" "\$@"
END
    chmod +x a/cag-ask
    PATH="$work/a:$PATH" expect 0 sh "$examples/parallel/ask-shards.sh" 3 rows.jsonl qwen.kvc -j 1
    [ -e b ]
    joined answers.*.jsonl | cmp - want
    # with fewer: answers.2.jsonl is nobody's now
    expect 0 sh "$examples/parallel/ask-shards.sh" 2 rows.jsonl qwen.kvc
    joined answers.?.jsonl | cmp - want
    # damage is found before a row is asked
    cp qwen.kvc a/bad.kvc
    printf X | dd of=a/bad.kvc bs=1 seek=$(($(stat -c %s a/bad.kvc) - 20000)) conv=notrunc status=none
    rm answers.*
    expect 65 sh "$examples/parallel/ask-shards.sh" 2 rows.jsonl a/bad.kvc
    [ ! -e answers.0.jsonl.part ]
    expect 64 sh "$examples/parallel/ask-shards.sh" 2
}

@test "slurm: what a task does, on its own copy" {
    task() {
        SLURM_ARRAY_TASK_ID=$1 SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_MIN=0 \
            SLURM_ARRAY_TASK_MAX=2 SLURM_ARRAY_TASK_STEP=1 SLURM_CPUS_PER_TASK=1 \
            CAG_LOCAL="$work/node" sh "$examples/slurm/ask.sbatch" rows.jsonl qwen.kvc "$MODELS/qwen3"
    }
    # two at once on a node without a copy: one makes it
    task 0 & task 1 &
    wait %1 && wait %2
    copy=node/$(cag-inspect --digest qwen.kvc).kvc
    cmp "$copy" qwen.kvc
    [ "$(stat -c %a node)" = 700 ]
    [ "$(ls node/*.kvc* | wc -l)" = 2 ]
    # a copy that was damaged is made again
    printf X | dd of="$copy" bs=1 seek=$(($(stat -c %s "$copy") - 20000)) conv=notrunc status=none
    expect 0 task 2
    cmp "$copy" qwen.kvc
    expect 0 cag-inspect --shards 'answers.*.jsonl'
    joined answers.?.jsonl | cmp - want
    # one task again, by hand
    rm answers.1.jsonl
    SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_COUNT=1 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_MAX=1 \
        CAG_SHARDS=3 CAG_LOCAL="$work/node" sh "$examples/slurm/ask.sbatch" \
        rows.jsonl qwen.kvc "$MODELS/qwen3"
    expect 0 cag-inspect --shards 'answers.*.jsonl'
    # a stale cache answers nothing
    echo more >>kb.md
    expect 1 task 0
    sed -i '$d' kb.md
}

@test "k8s: the commands of the job, for every index" {
    job="$examples/k8s/job.yaml"
    mkdir a b
    cp qwen.kvc a/handbook.kvc
    cp rows.jsonl a/questions.jsonl
    cp -r "$MODELS/qwen3" a/model.gguf
    command_of() { sed -n "/name: $1\$/,/command:/s/^ *command: //p" "$job" | jq -r '.[]'; }
    mapfile -t verify < <(command_of verify)
    mapfile -t ask < <(command_of ask)
    [ "${verify[0]} ${ask[0]}" = "cag-inspect cag-ask" ]
    n=$(sed -n 's/^  completions: \([0-9]*\).*/\1/p' "$job")
    [ "$n" = "$(sed -n '/name: CAG_SHARDS/,/value/s/.*value: "\(.*\)"/\1/p' "$job")" ]
    chmod -w a
    for ((i = 0; i < n; i++)); do
        expect 0 "${verify[@]//\/cache\//a/}"
        ask_here=("${ask[@]//\/cache\//a/}")
        expect 0 env JOB_COMPLETION_INDEX=$i CAG_SHARDS=$n CAG_THREADS=1 \
            "${ask_here[@]/\/answers\//b/}"
    done
    chmod +w a
    expect 0 cag-inspect --shards 'b/answers.*.jsonl'
    joined b/*.jsonl | cmp - want
}

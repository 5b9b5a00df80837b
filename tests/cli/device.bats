#!/usr/bin/env bats
# --device where there is no GPU: one clear line, and nothing else changes.

setup() {
    export PATH="$CAG_BIN:$PATH"
    cd "$BATS_TEST_DIRNAME/../.."
    root=$PWD
    model=$root/tests/golden/models/llama.Q4_0.gguf
    cd "$BATS_TEST_TMPDIR"
    unset CAG_DEVICE CAG_CUDA_PLUGIN
    export CAG_CACHE_DIR=$BATS_TEST_TMPDIR/cache
    echo "The gate opens at nine." > gate.txt
}

@test "a plugin that is not there is named, exit 69" {
    CAG_CUDA_PLUGIN=/nowhere/x.so run cag-build -m "$model" -o kb.kvc \
        --device cuda gate.txt
    [ "$status" -eq 69 ]
    [ "${#lines[@]}" -eq 1 ]
    [[ "$output" == *"/nowhere/x.so"*"--device cuda"* ]]
    [ ! -e kb.kvc ]
}

@test "a file that is no plugin is named, exit 69" {
    echo no > x.so
    CAG_CUDA_PLUGIN=$PWD/x.so run cag-build -m "$model" -o kb.kvc \
        --device cuda:3 gate.txt
    [ "$status" -eq 69 ]
    [[ "$output" == *"x.so"*"--device cuda:3: cannot load"* ]]
}

@test "auto uses the CPU, and -u says why" {
    [ ! -e /proc/driver/nvidia/version ] || skip "there is a GPU"
    cag-build -q -m "$model" -o kb.kvc gate.txt
    run cag-ask -u -n 1 --device auto kb.kvc "When?"
    [ "$status" -eq 0 ]
    [[ "$output" == *"; cpu (there is no NVIDIA driver), "* ]]
    run cag-ask -u -n 1 --device cpu kb.kvc "When?"
    [[ "$output" == *"; cpu (as asked), "* ]]
    # --devices gives the same reason
    run cag-inspect --devices
    [ "$status" -eq 0 ]
    [[ "$output" == *"cuda"*"there is no NVIDIA driver"* ]]
}

@test "auto warns when the plugin that was named cannot be used" {
    cag-build -q -m "$model" -o kb.kvc gate.txt
    CAG_CUDA_PLUGIN=/nowhere/x.so run cag-ask -n 1 kb.kvc "When?"
    [ "$status" -eq 0 ]
    [[ "$output" == *"warning: using the CPU, not the GPU: "* ]]
}

@test "cag-inspect --devices says what is known of GPUs" {
    CAG_CUDA_PLUGIN=/nowhere/x.so run cag-inspect --devices
    [ "$status" -eq 0 ]
    [[ "$output" == *"cuda"*"/nowhere/x.so: cannot read"* ]]
    CAG_CUDA_PLUGIN=/nowhere/x.so run cag-inspect --devices --json
    [[ "$output" == *'"cuda":["/nowhere/x.so: cannot read'* ]]
}

@test "an unknown device is a usage error" {
    run cag-build -m "$model" -o kb.kvc --device gpu gate.txt
    [ "$status" -eq 64 ]
    [[ "$output" == *"unknown device 'gpu'"* ]]
}

@test "make check-cuda ends at once where there is no GPU, with one line" {
    [ -x "$CAG_BIN/check_cuda" ] || skip "check_cuda is not built"
    [ ! -e /proc/driver/nvidia/version ] || skip "there is a GPU"
    CAG_CUDA_PLUGIN=/nowhere/x.so OUT=$PWD/out \
        run sh "$root/tests/cuda/check_cuda.sh"
    [ "$status" -eq 69 ]
    [ "${#lines[@]}" -eq 1 ]
    [[ "$output" == *"/nowhere/x.so"* || "$output" == *"cannot read"* ]]
    [ ! -e out/tiny.json ]
}

@test "the steps of make check-cuda take less than nine minutes" {
    budget=$(sh "$root/tests/cuda/check_cuda.sh" --budget)
    [ "$budget" -gt 60 ]
    [ "$budget" -lt 540 ]
}

# A tree of steps that all pass: $tree/check_cuda.sh runs them, $tree/sys comes
# first in PATH.
fake_tree() {
    local f
    tree=$BATS_TEST_TMPDIR/tree
    mkdir -p "$tree/sys"
    cp "$root/tests/cuda/check_cuda.sh" "$tree"
    cat >"$tree/check_cuda" <<'END'
#!/bin/sh
for last; do :; done
[ "$last" = --probe ] || echo '[{"step":"sum"}]' >"$last"
echo "ran $*"
END
    for f in test_cuda_kernels test_cuda_attention test_cuda_speed probe_cuda; do
        printf '#!/bin/sh\necho "ran %s"\n' $f >"$tree/$f"
    done
    printf '#!/bin/sh\necho "ran $0"\n' >"$tree/sys/python3"
    printf '#!/bin/sh\nshift 6\nexec "$@"\n' >"$tree/sys/compute-sanitizer"
    chmod +x "$tree"/* "$tree"/sys/*
}

# fake STEP: what a step does instead, from stdin
fake() {
    { echo '#!/bin/sh'; cat; } >"$tree/$1"
}

run_tree() {
    PATH=$tree/sys:$PATH OUT=$tree/out LIMIT=2 run sh "$tree/check_cuda.sh"
}

@test "check_cuda.sh: one file has all that the steps said" {
    fake_tree
    run_tree
    [ "$status" -eq 0 ]
    [ "$(ls "$tree/out")" = results.txt ]
    [ "$(grep -c ': passed$' <<<"$output")" -eq "$(grep -c '^\(step\|peer\|sanitize\) ' "$tree/check_cuda.sh")" ]
    [[ "$output" != *FAILED* && "$output" != *skipped* ]]
    results=$(cat "$tree/out/results.txt")
    [ "$(grep -c '"step":"sum"' <<<"$results")" -eq 4 ]
    [[ "$results" == *"ran test_cuda_kernels"*"ran test_cuda_speed"*"--tiny --step 15"* ]]
}

@test "check_cuda.sh: a step that hangs, dies or is cut off fails" {
    local name
    fake_tree
    for name in check_cuda test_cuda_kernels test_cuda_attention \
        test_cuda_speed probe_cuda sys/compute-sanitizer; do
        cp "$tree/$name" "$tree/kept"
        fake $name <<<'case "$*" in *--probe) exit 0;; esac; sleep 30'
        run_tree
        [ "$status" -eq 1 ]
        [[ "$output" == *"FAILED "*": did not end in "*" s, see "* ]]
        fake $name <<<'case "$*" in *--probe) exit 0;; esac; echo "not ok 1 - x"; exit 1'
        run_tree
        [ "$status" -eq 1 ]
        [[ "$output" == *"FAILED "*": status 1, see "* ]]
        grep -q '^not ok 1 - x' "$tree/out/results.txt"
        cp "$tree/kept" "$tree/$name"
    done
    # nor is what is not there passed
    mv "$tree/test_cuda_kernels" "$tree/kept"
    run_tree
    [ "$status" -eq 1 ]
    [[ "$output" == *"FAILED kernels: there is no "* ]]
    mv "$tree/kept" "$tree/test_cuda_kernels"
    # a peer is not ours
    fake sys/python3 <<<'[ "$1" = -c ] || sleep 30'
    run_tree
    [ "$status" -eq 0 ]
    [[ "$output" == *"transformers: cut off after 65 s"* ]]
}

@test "check_cuda.sh: a sanitizer that does not know the device is skipped" {
    fake_tree
    fake sys/compute-sanitizer <<<'echo "========= Error: Device not supported"; exit 1'
    run_tree
    [ "$status" -eq 0 ]
    [ "$(grep -c 'check: skipped, compute-sanitizer: Device not supported' <<<"$output")" -eq 2 ]
    [[ "$output" != *FAILED* ]]
}

@test "what check-cuda runs works on a CPU" {
    [ -x "$CAG_BIN/check_cuda" ] || skip "check_cuda is not built"
    run "$CAG_BIN/check_cuda" --tiny --device cpu out.json
    [ "$status" -eq 0 ]
    [ "$(grep -o '"step"' out.json | wc -l)" -ge 20 ]
    [[ "$(cat out.json)" == *'"least_cosine":1.0'* ]]
    [[ "$(cat out.json)" == *'"questions":64,'*'"first_token_s":'* ]]
    for step in "cpu against gpu" "f16 cache" batch codes split; do
        grep -q "\"step\":\"$step\"" out.json
    done
    [[ "$(cat out.json)" == *'"step":"sum","checked":'*'"n_cut_off":0,"skipped":0,"n_failed":0'* ]]
}

@test "check_cuda fails where it compared nothing, or not in time" {
    [ -x "$CAG_BIN/check_cuda" ] || skip "check_cuda is not built"
    run "$CAG_BIN/check_cuda" --tiny --device cpu --budget 0 out.json
    [ "$status" -eq 1 ]
    [[ "$(cat out.json)" == *'"skipped_needs_s":6.0'* ]]
    [[ "$(cat out.json)" == *'"checked":0,'* ]]
    run "$CAG_BIN/check_cuda" --tiny --device cpu --step 0 out.json
    [ "$status" -eq 1 ]
    [[ "$(cat out.json)" == *'"cut_off":true,"failed":"not compared in time"'* ]]
}

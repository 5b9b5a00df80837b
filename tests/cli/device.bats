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
    [[ "$output" == *"; cpu, "*"; cpu: "* ]]
    run cag-ask -u -n 1 --device cpu kb.kvc "When?"
    [[ "$output" == *"cpu: as asked"* ]]
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

@test "the steps of make check-cuda take less than four minutes" {
    budget=$(sh "$root/tests/cuda/check_cuda.sh" --budget)
    [ "$budget" -gt 60 ]
    [ "$budget" -lt 240 ]
}

@test "what check-cuda runs works on a CPU" {
    [ -x "$CAG_BIN/check_cuda" ] || skip "check_cuda is not built"
    run "$CAG_BIN/check_cuda" --tiny --device cpu out.json
    [ "$status" -eq 0 ]
    [ "$(grep -o '"step"' out.json | wc -l)" -ge 10 ]
    [[ "$(cat out.json)" == *'"least_cosine":1.0'* ]]
    [[ "$(cat out.json)" == *'"questions":64,'*'"first_token_s":'* ]]
    run "$CAG_BIN/check_cuda" --tiny --device cpu --budget 0 out.json
    [ "$status" -eq 0 ]
    [[ "$(cat out.json)" == *'"skipped_needs_s":1.0'* ]]
}

#!/usr/bin/env bats
# The tools with a plugin that has a GPU: libcag-cuda.so over the host shim
# (tests/cuda), opened with dlopen as the real one is.  CAG_SHIM says what
# device it plays, CAG_SHIM_COUNTS what was done with it.

load ask_helper

setup_file() {
    export CAG_BIN="${CAG_BIN:-$BATS_TEST_DIRNAME/../../build/release}"
    export plugin="$CAG_BIN/shim/libcag-cuda.so"
    unset CAG_SHIM CAG_SHIM_COUNTS CAG_CUDA_PLUGIN
    ask_setup_file
    printf '{"id":%s,"question":"%s"}\n' 1 "Who leads?" 2 "How long?" \
        3 "What is it?" >rows.jsonl
}

setup() {
    [ -e "$plugin" ] || skip "the shim's plugin is not built: make tests"
    cd "$work"
    export CAG_CUDA_PLUGIN="$plugin" CAG_DEVICE=cuda
}

# count NAME: what the shim counted
count() { sed -n "s/^$1 //p" "$BATS_TEST_TMPDIR/counts"; }

# counted COMMAND...: run it, status 0, nothing left on the device
counted() {
    CAG_SHIM_COUNTS="$BATS_TEST_TMPDIR/counts" expect 0 "$@"
    [ "$(count live)" = 0 ] || { cat "$BATS_TEST_TMPDIR/counts"; return 1; }
}

@test "the GPU answers as the CPU does, from caches of either" {
    local device kvc
    counted cag-build -q -m "$MODELS/qwen3" -o gpu.kvc kb.md
    [ "$(count launches)" -ge 8 ]
    for kvc in qwen.kvc gpu.kvc; do
        for device in cpu cuda; do
            expect 0 cag-ask -n 8 --device $device $kvc "How long does it fly?"
            cp "$out" $device.txt
            expect 0 cag-ask -n 8 --device $device --json $kvc "Who leads?"
            steady "$out" | sed 's/,"options":"[0-9a-f]*"//' > $device.json
        done
        [ -s cpu.txt ]
        cmp cpu.txt cuda.txt
        cmp cpu.json cuda.json
    done
    expect 0 cag-inspect gpu.kvc
    grep -q 'cuda' "$out"
}

@test "a second look at the passages alone, on the GPU and split" {
    local look layers
    for look in mask auto; do
        expect 0 cag-ask -n 6 --device cpu --focus $look qwen.kvc "Who leads?"
        cp "$out" cpu.txt
        [ -s cpu.txt ]
        for layers in all 1; do
            counted cag-ask -n 6 --focus $look --gpu-layers $layers qwen.kvc \
                "Who leads?"
            [ "$(count launches)" -ge 8 ]
            cmp cpu.txt "$out"
        done
    done
}

@test "codec q8h is answered from on the GPU, as codes" {
    local device
    cag-build -q --codec q8h --max-loss 1 --device auto -m "$MODELS/qwen3" \
        -o q8h.kvc kb.md
    for device in cpu auto; do
        expect 0 cag-ask -n 8 -u --device $device q8h.kvc "Who leads?"
        cp "$out" $device.txt
    done
    says "cuda, sm_89"
    cmp cpu.txt auto.txt
    for device in cpu cuda; do
        expect 0 cag-ask -n 5 -j 3 --device $device --batch rows.jsonl \
            --output-format text q8h.kvc
        cp "$out" $device.txt
    done
    cmp cpu.txt cuda.txt
    # it is built on the CPU only
    expect 69 cag-build --codec q8h --device cuda -m "$MODELS/qwen3" -o x.kvc kb.md
    grep -q 'codec q8h is not built on device cuda; use --device cpu' "$err"
    [ ! -e x.kvc ]
}

@test "a batch answers as the CPU does, and as one question at a time" {
    local device
    for device in cpu cuda; do
        expect 0 cag-ask -n 5 -j 3 --device $device --batch rows.jsonl \
            --output-format text llama.kvc
        cp "$out" $device.txt
    done
    [ "$(wc -l <cpu.txt)" = 3 ]
    cmp cpu.txt cuda.txt
    expect 0 cag-ask -n 5 --no-lookup llama.kvc "Who leads?"
    [ "$(cat "$out")" = "$(head -n 1 cuda.txt)" ]
}

@test "a greedy answer sends ids back, one wait and one launch a token" {
    counted cag-ask -n 20 --no-lookup qwen.kvc "How long does it fly?"
    [ "$(count replays)" -ge 15 ]
    [ "$(count syncs)" -le $(($(count replays) + 8)) ]
    [ "$(count bytes_back)" -lt 8192 ]
    # sampling needs the logits
    counted cag-ask -n 8 --temperature 0.9 --seed 5 qwen.kvc "Who leads?"
    cp "$out" once.txt
    [ "$(count bytes_back)" -gt 8192 ]
    counted cag-ask -n 8 --temperature 0.9 --seed 5 qwen.kvc "Who leads?"
    cmp once.txt "$out"
}

@test "a batch of any length allocates what its parallel rows take" {
    local i
    for i in 12 30; do
        seq -f 'Who is number %g?' $i >many.txt
        counted cag-ask -n 2 -j 6 --batch many.txt llama.kvc
        [ "$(wc -l <"$out")" = $i ]
        count allocs >allocs.$i
        [ "$(count allocs)" = "$(count frees)" ]
    done
    cmp allocs.12 allocs.30
}

@test "a GPU lost in a batch: what is answered is kept, --resume goes on" {
    local i
    echo '{"id":1,"question":"A long one?","max_tokens":40}' >lost.jsonl
    for i in 2 3 4 5 6; do
        echo "{\"id\":$i,\"question\":\"Number $i?\",\"max_tokens\":2}"
    done >>lost.jsonl
    expect 0 cag-ask --batch lost.jsonl -o whole.jsonl -j 2 llama.kvc
    rm -f lost.out*
    CAG_SHIM=fail=cudaGraphLaunch:14:700 \
        expect 69 cag-ask --batch lost.jsonl -o lost.out -j 2 llama.kvc
    says "cudaGraphLaunch gave cudaErrorIllegalAddress (700)" \
        "the device is lost to this process"
    [ ! -e lost.out ]
    # row 1 was running; those that were answered behind it are there
    [ "$(wc -l <lost.out.part)" -ge 3 ]
    not grep '"id":1,' lost.out.part
    cp lost.out.part part
    steady whole.jsonl >whole
    steady part | while IFS= read -r row; do
        grep -qxF -- "$row" whole || { echo "not a row of the whole: $row"; exit 1; }
    done
    expect 0 cag-ask --batch lost.jsonl -o lost.out -j 2 --resume -u llama.kvc
    says "$(wc -l <part) from an earlier run"
    steady lost.out | cmp - whole
    [ ! -e lost.out.part ]
    # rows on stdout, too
    CAG_SHIM=fail=cudaGraphLaunch:14:700 \
        expect 69 cag-ask --batch lost.jsonl -j 2 llama.kvc
    cmp <(steady "$out") <(steady part)
    # lines of text have nothing but their order
    CAG_SHIM=fail=cudaGraphLaunch:14:700 expect 69 cag-ask --batch lost.jsonl \
        -j 2 --output-format text llama.kvc
    [ ! -s "$out" ]
}

@test "-u names the device, why, and its memory" {
    counted cag-ask -n 3 -u llama.kvc "Who leads?"
    says "cuda, sm_89; cuda:0 host shim 0, compute capability 8.9" \
        "driver 13.0" "MiB of its memory in use (weights " " KiB, cache " \
        " KiB, sessions " " KiB, scratch 44"
    expect 0 cag-ask -n 3 -u --device auto llama.kvc "Who leads?"
    says "cuda, sm_89; cuda:0 host shim 0"
    expect 0 cag-bench decode -r 1 --warmup 0 -n 2 -o json --gpu-layers 1 llama.kvc
    for word in weight cache scratch; do
        grep -q "\"device_${word}_bytes\"" "$out"
    done
    grep -q '"device": *"cpu+cuda"' "$out"
}

@test "auto falls back to the CPU with one line that says why" {
    local shim says
    expect 0 cag-ask -n 3 --device cpu llama.kvc "Who leads?"
    cp "$out" cpu.txt
    while IFS='|' read -r shim says; do
        CAG_SHIM=$shim expect 0 cag-ask -n 3 --device auto llama.kvc "Who leads?"
        cmp cpu.txt "$out"
        says "warning: using the CPU, not the GPU: " "$says"
        [ "$(grep -c 'not the GPU' "$err")" = 1 ]
    done <<'END'
memory=70|the model with its scratch needs 
memory=70|6 MiB of 70 MiB are free
driver=12040|the driver supports CUDA 12.4, the plugin needs 13.0
sm=70|host shim 0 has compute capability 7.0, the kernels need 7.5
END
    # another GPU may work where the first does not
    CAG_SHIM="devices=3 fail=cudaSetDevice:1:46" \
        expect 0 cag-ask -n 3 -u --device auto llama.kvc "Who leads?"
    cmp cpu.txt "$out"
    says "cuda:1 host shim 1"
    [ "$(grep -c 'not the GPU' "$err")" = 0 ]
    # the model fits, the cache does not
    expect 0 cag-ask -n 3 --device cpu qwen.kvc "Who leads?"
    cp "$out" cpu.qwen
    CAG_SHIM=memory=129 expect 0 cag-ask -n 3 --device auto qwen.kvc "Who leads?"
    cmp cpu.qwen "$out"
    says "warning: using the CPU, not the GPU: the cache needs 1 MiB of the" \
        "MiB of 129 MiB are free"
    CAG_SHIM=memory=129 expect 71 cag-ask -n 3 qwen.kvc "Who leads?"
    refused "the cache needs 1 MiB of the GPU's memory"
    # no driver, no device: nothing to complain about
    for shim in driver=0 devices=0; do
        CAG_SHIM=$shim expect 0 cag-ask -n 3 --device auto llama.kvc "Who leads?"
        cmp cpu.txt "$out"
        [ "$(grep -c 'GPU' "$err")" = 0 ]
    done
}

@test "a GPU that was asked for and cannot be used ends with one line" {
    local status shim says
    while IFS='|' read -r status shim says; do
        CAG_SHIM=$shim expect $status cag-ask llama.kvc "Who leads?"
        refused "--device cuda: $says"
    done <<'END'
69|driver=0|there is no NVIDIA driver
69|driver=12040|the driver supports CUDA 12.4, the plugin needs 13.0
69|devices=0|the driver sees no GPU
69|sm=70|host shim 0 has compute capability 7.0, the kernels need 7.5
71|memory=70|the model with its scratch needs 
END
    # one that is lost on the way
    CAG_SHIM=fail=cudaStreamSynchronize:2:700 expect 69 cag-ask llama.kvc "Who?"
    refused "cudaStreamSynchronize gave cudaErrorIllegalAddress (700)" \
        "the device is lost to this process"
    CAG_DEVICE=cuda:2 expect 69 cag-ask llama.kvc "Who leads?"
    refused "there is no cuda:2, the driver sees 1 GPU"
    CAG_SHIM="devices=3" CAG_DEVICE=cuda:2 \
        expect 0 cag-ask -u -n 1 llama.kvc "Who leads?"
    says "cuda:2 host shim 2"
}

@test "--max-memory bounds what is taken of the GPU" {
    expect 71 cag-ask --max-memory 4M llama.kvc "Who leads?"
    refused "--device cuda: the model with its scratch needs" \
        "--max-memory leaves 4 MiB of 4 MiB"
    expect 0 cag-ask -t 1 -n 2 -u --max-memory 20M --device auto llama.kvc "Who leads?"
    says "warning: using the CPU, not the GPU: " "--max-memory leaves"
    counted cag-ask -n 2 --max-memory 200M llama.kvc "Who leads?"
    expect 71 cag-build --max-memory 8M -m "$MODELS/llama" -o x.kvc kb.md
    grep -q 'MiB' "$err"
}

@test "--gpu-layers: the first layers stay on the CPU, the answer is the same" {
    local n
    expect 0 cag-ask -n 8 --device cpu qwen.kvc "Who leads?"
    cp "$out" cpu.txt
    for n in 1 2 99 all auto; do
        counted cag-ask -n 8 -u --gpu-layers $n qwen.kvc "Who leads?"
        cmp cpu.txt "$out"
        [ $n = 1 ] || says "; cuda, sm_89; cuda:0 host shim 0, compute"
    done
    counted cag-ask -n 8 -u --gpu-layers 1 qwen.kvc "Who leads?"
    says "; cpu+cuda, " "+sm_89; cuda:0 host shim 0, compute capability 8.9" \
        ": layers 1-1 of 2, the CPU has the others" "MiB of its memory in use"
    # sessions, batches, guesses, sampling
    expect 0 cag-ask -n 5 -j 3 --device cpu --batch rows.jsonl \
        --output-format text qwen.kvc
    cp "$out" cpu.rows
    counted cag-ask -n 5 -j 3 --gpu-layers 1 --batch rows.jsonl \
        --output-format text qwen.kvc
    cmp cpu.rows "$out"
    printf 'Who leads?\nAnd how long?\n' >talk
    expect 0 cag-ask -i -n 6 --device cpu qwen.kvc <talk
    cp "$out" cpu.talk
    counted cag-ask -i -n 6 --gpu-layers 1 qwen.kvc <talk
    cmp cpu.talk "$out"
    # a cache of both, read by either; an option of the CPU's has no meaning
    counted cag-build -q --gpu-layers 1 -m "$MODELS/qwen3" -o split.kvc kb.md
    expect 0 cag-inspect split.kvc
    grep -q 'cpu+cuda, .*+cuda-bf16\.1@1' "$out"
    for n in cpu cuda; do
        expect 0 cag-ask -n 8 --device $n --gpu-layers 1 split.kvc "Who leads?"
        cmp cpu.txt "$out"
    done
    # what was computed otherwise is no beginning of this one
    echo "More." >>kb2.md
    counted cag-build --gpu-layers 1 -m "$MODELS/qwen3" -o split.kvc kb.md kb2.md
    expect 0 cag-build --codec q8h --max-loss 1 --device auto --gpu-layers 1 \
        -m "$MODELS/qwen3" -o q.kvc kb.md
    counted cag-ask -n 8 --gpu-layers 1 q.kvc "Who leads?"
    cp "$out" q.txt
    expect 0 cag-ask -n 8 --device cpu q.kvc "Who leads?"
    cmp q.txt "$out"
}

@test "--gpu-layers auto takes as many as fit" {
    local n
    expect 0 cag-ask -n 8 --device cpu qwen.kvc "Who leads?"
    cp "$out" cpu.txt
    for n in 118 122; do
        CAG_SHIM=memory=$n expect 0 cag-ask -n 8 -u --gpu-layers auto qwen.kvc \
            "Who leads?"
        says ": layers 1-1 of 2, the CPU has the others"
        cmp cpu.txt "$out"
        CAG_SHIM=memory=$n expect 71 cag-ask -n 8 qwen.kvc "Who leads?"
        refused "the model with its scratch needs"
    done
    CAG_SHIM=memory=105 expect 71 cag-ask --gpu-layers auto qwen.kvc "Who leads?"
    refused "even one layer, with the output, scratch and its K and V, needs" \
        "MiB of 105 MiB are free"
    CAG_SHIM=memory=90 expect 71 cag-ask --gpu-layers 1 qwen.kvc "Who leads?"
    refused "1 of 2 layers with their scratch needs"
    CAG_SHIM=memory=90 expect 0 cag-ask -n 8 --device auto --gpu-layers auto \
        qwen.kvc "Who leads?"
    says "warning: using the CPU, not the GPU: even one layer"
    cmp cpu.txt "$out"
    for n in 0 -1 some 1.5 ''; do
        expect 64 cag-ask --gpu-layers "$n" qwen.kvc "Who leads?"
        expect 64 cag-build --gpu-layers "$n" -m "$MODELS/qwen3" -o n.kvc kb.md
        expect 64 cag-bench --gpu-layers "$n" qwen.kvc
    done
    printf 'model: %s\nsources: [kb.md]\ngpu-layers: 1\n' "$MODELS/qwen3" >m.yaml
    counted cag-build -q --manifest m.yaml -o m.kvc
    expect 0 cag-inspect m.kvc
    grep -q 'cpu+cuda' "$out"
    sed -i 's/layers: 1/layers: none/' m.yaml
    expect 78 cag-build -q --manifest m.yaml -o m.kvc
    grep -q "m.yaml:3:13: .*expected all, auto or a number" "$err"
}

@test "cag-inspect --devices lists what is there" {
    CAG_SHIM="devices=2 sm=75" expect 0 cag-inspect --devices
    grep -q "plugin $plugin" "$out"
    grep -q "cuda:0 host shim 0, compute capability 7.5, 1024 MiB" "$out"
    grep -q "cuda:1 host shim 1" "$out"
    CAG_SHIM="sm=61" expect 0 cag-inspect --devices --json
    grep -q "6.1, 1024 MiB (too old for the kernels)" "$out"
    CAG_SHIM="driver=11080" expect 0 cag-inspect --devices
    grep -q "the driver supports CUDA 11.8, the plugin needs 13.0" "$out"
}

@test "an installed plugin is found in ../lib/cag" {
    local dir=$BATS_TEST_TMPDIR/tree
    mkdir -p "$dir/bin" "$dir/lib/cag"
    cp "$CAG_BIN/cag-inspect" "$dir/bin"
    ln -s "$plugin" "$dir/lib/cag/libcag-cuda.so"
    unset CAG_CUDA_PLUGIN
    expect 0 "$dir/bin/cag-inspect" --devices
    grep -q "plugin $dir/bin/../lib/cag/libcag-cuda.so" "$out"
    grep -q "cuda:0 host shim 0" "$out"
}

@test "what check-cuda runs works with the plugin" {
    [ -x "$CAG_BIN/check_cuda" ] || skip "check_cuda is not built"
    cd "$BATS_TEST_TMPDIR"
    counted "$CAG_BIN/check_cuda" --plugin "$plugin" --probe
    CAG_SHIM=driver=0 expect 69 "$CAG_BIN/check_cuda" --plugin "$plugin" --probe
    [ "$(wc -l <"$err")" = 1 ]
    counted "$CAG_BIN/check_cuda" --plugin "$plugin" --tiny --step 30 \
        --budget 33 out.json
    grep -q '"least_cosine":0.999' out.json
    grep -q '"device":"cuda:0 host shim 0' out.json
}

#!/bin/sh
# The CUDA backend on a machine that has a GPU, in under four minutes: `make
# check-cuda`.  Runs a tree that was built elsewhere: build/release/gpu, as
# `make gpu-tree` leaves it (its own copy of this script runs it, too), or what
# make cuda tests built.  Needs the driver and cuBLAS, not nvcc.  Results go to
# $OUT (build/check-cuda), the most important first, each step written as it
# ends.  Exit 69: there is no GPU.
#
# No step can take longer than what stands before it; the seconds sum up to
# less than 240.
set -u
here=$(dirname "$0")
bin=${CAG_BIN:-build/release}
[ -x "$bin/gpu/check_cuda" ] && bin=$bin/gpu
[ -x "$here/check_cuda" ] && bin=$here
out=${OUT:-build/check-cuda}
plugin=${CAG_CUDA_PLUGIN:-$bin/libcag-cuda.so}
status=0

if [ "${1:-}" = --budget ]; then         # what the steps may take together
    sed -n 's/^step \([0-9]*\) .*/\1/p' "$0" | awk '{ n += $1 } END { print n }'
    exit
fi
mkdir -p "$out" || exit 73
if [ ! -x "$bin/check_cuda" ]; then
    echo "check-cuda: $bin/check_cuda is missing: make tests" >&2
    exit 69
fi
# cuBLAS where the linker does not look: a toolkit's, or that of torch
for dir in /usr/local/cuda/lib64 $(python3 -c 'import nvidia, glob
for p in nvidia.__path__: print(*glob.glob(p + "/c*/lib"))' 2>/dev/null); do
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$dir
done
export LD_LIBRARY_PATH

# step SECONDS NAME COMMAND...: run it; its output is in $out/NAME.log
step() {
    seconds=$1 name=$2
    shift 2
    if [ ! -x "$(command -v "$1")" ]; then
        echo "$name: skipped, there is no $1"
        return 0
    fi
    timeout -k 2 $((seconds - 2)) "$@" > "$out/$name.log" 2>&1
    code=$?
    case $code in
    0)   echo "$name: passed" ;;
    69)  echo "$name: skipped, $(tail -n 1 "$out/$name.log")" ;;
    124) echo "$name: cut off after $seconds s, see $out" ;;
    *)   echo "FAILED $name: status $code, see $out/$name.log"
         status=1 ;;
    esac
    return $code
}
check() { "$bin/check_cuda" --plugin "$plugin" "$@"; }

# the first opens the device: without one nothing else is tried
check --probe || exit 69
sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
tiny="$bin/check_cuda --plugin $plugin --tiny"

step 15 tiny $tiny --budget 12 "$out/tiny.json"
step 15 kernels "$bin/test_cuda_kernels"
step 15 attention "$bin/test_cuda_attention"
step 10 probe "$bin/probe_cuda" 1024
bandwidth=$(sed -n 's/.*"copy_gb_per_s":\([0-9.]*\).*/\1/p' "$out/probe.log" 2>/dev/null)
step 100 full "$bin/check_cuda" --plugin "$plugin" --budget 95 --bandwidth "${bandwidth:-0}" "$out/full.json"
step 22 memcheck "$sanitizer" --tool memcheck --error-exitcode 9 $tiny --budget 18 "$out/memcheck.json"
step 22 racecheck "$sanitizer" --tool racecheck --error-exitcode 9 $tiny --budget 18 "$out/racecheck.json"
step 35 transformers python3 "$here/peer.py" 30
[ -f "$out/full.log" ] && cat "$out/full.log"
[ -f "$out/transformers.log" ] && cat "$out/transformers.log"
exit $status

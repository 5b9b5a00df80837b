#!/bin/sh
# The CUDA backend on a machine that has a GPU, in under four minutes: `make
# check-cuda`.  Needs nothing but a tree that was built elsewhere (make cuda
# tests), not nvcc.  Results go to $OUT (build/check-cuda) as JSON, the most
# important first, each step written as it ends.  Exit 69: there is no GPU.
set -u
bin=${CAG_BIN:-build/release}
out=${OUT:-build/check-cuda}
plugin=${CAG_CUDA_PLUGIN:-$bin/libcag-cuda.so}

mkdir -p "$out" || exit 73
if [ ! -x "$bin/check_cuda" ]; then
    echo "check-cuda: $bin/check_cuda is missing: make tests" >&2
    exit 69
fi
check() { "$@" --plugin "$plugin"; }

check "$bin/check_cuda" --tiny --budget 60 "$out/tiny.json"
status=$?
[ $status -eq 69 ] && exit 69
check "$bin/check_cuda" --budget 130 "$out/full.json" || status=1

# the same small shapes under the tools that see races and stray addresses
sanitizer=$(command -v compute-sanitizer ||
    ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
if [ -n "$sanitizer" ]; then
    for tool in memcheck racecheck; do
        check timeout 40 "$sanitizer" --tool $tool --error-exitcode 9 \
            "$bin/check_cuda" --tiny --budget 40 "$out/$tool.json" \
            > "$out/$tool.log" 2>&1
        case $? in
        0)   echo "$tool: clean" ;;
        124) echo "$tool: not finished in 40 s" ;;
        *)   echo "FAILED $tool: see $out/$tool.log"; status=1 ;;
        esac
    done
else
    echo "memcheck, racecheck: skipped, no compute-sanitizer"
fi
exit $status

#!/bin/sh
# The CUDA backend on a machine that has a GPU: `make check-cuda`.  Runs a tree
# that was built elsewhere: build/release/gpu, as `make gpu-tree` leaves it (its
# own copy of this script runs it, too).  Needs the driver and cuBLAS, not nvcc.
# Everything goes to one file, results.txt in
# $OUT (build/check-cuda), the most important first, each step added as it ends:
# what it printed and the JSON it wrote.
#
# A step that does not end in its seconds has failed, for a kernel may hang; the
# seconds sum up to less than 540, and most steps take far fewer.  Only a peer
# may be cut off.  LIMIT=S caps every step (to try this script).
#
# Exit: 0 all passed, 1 something failed, 69 there is no GPU.
set -u
here=$(dirname "$0")
bin=${CAG_BIN:-build/release}
[ -x "$bin/gpu/check_cuda" ] && bin=$bin/gpu
[ -x "$here/check_cuda" ] && bin=$here
out=${OUT:-build/check-cuda}
plugin=${CAG_CUDA_PLUGIN:-$bin/libcag-cuda.so}
status=0

if [ "${1:-}" = --budget ]; then         # what the steps may take together
    sed -n 's/^\(step\|peer\|sanitize\) \([0-9]*\) .*/\2/p' "$0" | awk '{ n += $1 } END { print n }'
    exit
fi
if [ ! -x "$bin/check_cuda" ]; then
    echo "check-cuda: $bin/check_cuda is missing: make gpu-tree" >&2
    exit 69
fi
# cuBLAS where the linker does not look: a toolkit's, or that of torch
for dir in /usr/local/cuda/lib64 $(python3 -c 'import nvidia, glob
for p in nvidia.__path__: print(*glob.glob(p + "/c*/lib"))' 2>/dev/null); do
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$dir
done
export LD_LIBRARY_PATH

# the first opens the device: without one nothing else is tried
"$bin/check_cuda" --plugin "$plugin" --probe || exit 69
mkdir -p "$out" || exit 73
tmp=$(mktemp -d) || exit 73
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
results=$out/results.txt
echo "check-cuda $(date -u +%Y-%m-%dT%H:%M:%SZ) $(uname -srm)" > "$results" || exit 73
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader \
    >> "$results" 2>/dev/null

# say LINE: to the terminal and to the results
say() {
    echo "$1"
    echo "== $1" >> "$results"
}

# try SECONDS NAME COMMAND...: run it, its output in $tmp/NAME.log; the status
try() {
    seconds=$1 name=$2
    shift 2
    [ -n "${LIMIT:-}" ] && [ "$LIMIT" -lt "$seconds" ] && seconds=$LIMIT
    timeout -k 2 $((seconds > 4 ? seconds - 2 : seconds)) "$@" > "$tmp/$name.log" 2>&1
}

# told CODE NAME LATE: one line on how it ended, LATE if it did not, and what it
# left; later steps read $tmp/NAME.log
told() {
    case $1 in
    0)   say "$2: passed" ;;
    69)  say "$2: skipped, $(tail -n 1 "$tmp/$2.log")" ;;
    124 | 137) say "$3"
         [ "${3%% *}" = FAILED ] && status=1 ;;
    *)   say "FAILED $2: status $1, see $results"
         status=1 ;;
    esac
    cat "$tmp/$2.log" >> "$results"
    if [ -f "$tmp/$2.json" ]; then
        cat "$tmp/$2.json" >> "$results"
        echo >> "$results"
    fi
}

step() {
    if [ ! -x "$3" ]; then
        say "FAILED $2: there is no $3: make gpu-tree"
        status=1
        return
    fi
    try "$@"
    told $? "$2" "FAILED $2: did not end in $1 s, see $results"
}

# what others make of the same; without them nothing is wrong
peer() {
    if [ ! -x "$(command -v "$3")" ]; then
        say "$2: skipped, there is no $3"
        return
    fi
    try "$@"
    told $? "$2" "$2: cut off after $1 s"
}

# sanitize SECONDS NAME TOOL COMMAND...: under compute-sanitizer, where there is
# one that knows the device; cuBLAS asks for what may not be there, and goes on
sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
sanitize() {
    seconds=$1 name=$2 tool=$3
    shift 3
    if [ ! -x "$sanitizer" ]; then
        say "$name: skipped, there is no compute-sanitizer"
        return
    fi
    try "$seconds" "$name" "$sanitizer" --tool "$tool" --report-api-errors no \
        --error-exitcode 9 "$@"
    code=$?
    if [ $code -ne 0 ] && grep -q 'Device not supported' "$tmp/$name.log"; then
        echo "compute-sanitizer: Device not supported" >> "$tmp/$name.log"
        code=69
    fi
    told $code "$name" "FAILED $name: did not end in $seconds s, see $results"
}

tiny="$bin/check_cuda --plugin $plugin --tiny"

step 25 tiny $tiny --budget 22 "$tmp/tiny.json"
step 20 kernels "$bin/test_cuda_kernels"
step 20 attention "$bin/test_cuda_attention"
step 10 probe "$bin/probe_cuda" 1024
bandwidth=$(sed -n 's/.*"copy_gb_per_s":\([0-9.]*\).*/\1/p' "$tmp/probe.log")
step 25 speed "$bin/test_cuda_speed" 20
step 110 full "$bin/check_cuda" --plugin "$plugin" --budget 105 --bandwidth "${bandwidth:-0}" "$tmp/full.json"
sanitize 45 memcheck-attention memcheck "$bin/test_cuda_attention"
sanitize 45 memcheck-kernels memcheck "$bin/test_cuda_kernels"
sanitize 45 racecheck-attention racecheck "$bin/test_cuda_attention"
sanitize 45 racecheck-kernels racecheck "$bin/test_cuda_kernels"
sanitize 40 memcheck memcheck $tiny --step 15 --budget 36 "$tmp/memcheck.json"
sanitize 40 racecheck racecheck $tiny --step 15 --budget 36 "$tmp/racecheck.json"
peer 65 transformers python3 "$here/peer.py" 50
say "results: $results"
exit $status

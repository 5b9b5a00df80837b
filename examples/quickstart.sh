#!/bin/sh
# quickstart.sh - build a cache, ask it, see what it saves.  (make demo)
#
#     sh quickstart.sh [MODEL]
#
# MODEL is a GGUF file, a model directory or a hub id in the Hugging Face
# cache; without it, $MODEL, else the demo model that `make model` fetches.
# The tools are taken from PATH, else from build/ of the source tree.  Caches go
# to $CAG_DEMO_DIR, else to build/demo in the source tree, else to a new
# directory in $TMPDIR; nothing else is written.
set -eu

here=$(dirname "$0")
top=$here/..
[ . -ef "$top" ] && top=.
demo_model=$top/models/SmolLM2-135M-Instruct.Q4_1.gguf
model=${1:-${MODEL:-$demo_model}}
bin= # before the names of tools that are not on the user's PATH
if ! command -v cag-ask >/dev/null 2>&1; then
    bin=$top/build/
    PATH=$(cd "$top" && pwd)/build:$PATH
fi
if [ -n "${CAG_DEMO_DIR:-}" ]; then
    dir=$CAG_DEMO_DIR
elif [ -d "$top/build" ]; then
    dir=$top/build/demo
else
    dir=$(mktemp -d)
fi
mkdir -p "$dir"

say() { printf '%s\n' "$@"; }
title() { printf '\n== %s\n\n' "$1"; }

# show a command as one would type it, then run it; measurements come after
# the answer, whatever the output is connected to
run() {
    printf '$'
    for word in "$@"; do
        case $word in
        *[!A-Za-z0-9_./:=,+-]*) printf " '%s'" "$word" ;;
        *) printf ' %s' "$word" ;;
        esac
    done
    printf '\n'
    "$@" 2>&1
}

now_ms() { echo $(($(date +%s%N) / 1000000)); }
seconds() { printf '%d.%02d s' $(($1 / 1000)) $(($1 % 1000 / 10)); }

title "1. The model reads a page once, and what it computed is kept in a file"
run cag-build -m "$model" -o "$dir/atish.kvc" "$here/knowledge.txt"

title "2. Questions are answered from the file: every one by a new process"
for question in \
    "What is Project Atish?" \
    "How many minutes can Sparrow-7 fly on a full charge?" \
    "Where did the first field test take place?" \
    "What is the total budget of Project Atish?"
do
    run cag-ask -u "$dir/atish.kvc" "$question"
    echo
done
say "The page says nothing about a budget.  A model that follows instructions" \
    "answers that it is not in the knowledge base."
if [ "$model" -ef "$demo_model" ]; then
    say "The demo model has 135 million parameters.  It proves the plumbing: it quotes" \
        "simple facts, embroiders others and invents a budget.  Section 4 names a" \
        "better one."
fi

title "3. A longer text (about 4,000 tokens), with and without the cache"
run cag-build -m "$model" -o "$dir/time.kvc" "$here/docs/time.md"
question="Why were leap seconds introduced?"
echo
start=$(now_ms)
run cag-ask -u --stop ". " "$dir/time.kvc" "$question"
cached=$(($(now_ms) - start))
echo
start=$(now_ms)
run cag-ask -u --stop ". " --no-cache "$dir/time.kvc" "$question"
cold=$(($(now_ms) - start))
echo
printf '%-40s %12s\n' "question to answer, from the cache" "$(seconds $cached)" \
    "question to answer, reading the text" "$(seconds $cold)"

title "4. Go on"
say "Ask something else:" \
    "    ${bin}cag-ask $dir/time.kvc 'What is the tz database?'" \
    "    ${bin}cag-ask -i $dir/atish.kvc" \
    "See what a cache holds, and whether it is still fresh:" \
    "    ${bin}cag-inspect $dir/atish.kvc" \
    "    ${bin}cag-build --check $dir/atish.kvc" \
    "The same with a model that can answer (README, \"Your first real model\"):" \
    "    make demo MODEL=Qwen/Qwen3-0.6B"

#!/bin/sh
# ask-shards.sh - one batch by several processes, started by GNU parallel.
#
#     sh ask-shards.sh N QUESTIONS.jsonl FILE.kvc [OPTION OF parallel...]
#
# The answers go to answers.0.jsonl ... answers.N-1.jsonl, and the log of the
# processes to answers.log.  A run that was ended is started again, with the
# same N or another: rows that were answered are not asked twice.
#
# On one machine a single cag-ask already keeps all processors busy; this is for
# machines with several sockets or GPUs, and, by the options of parallel, for
# several machines that see the same files:
#
#     sh ask-shards.sh 8 questions.jsonl handbook.kvc \
#         --sshlogin node1,node2 --workdir "$PWD" -j 1
set -eu

if [ $# -lt 3 ]; then
    echo "usage: ask-shards.sh N QUESTIONS.jsonl FILE.kvc [OPTION...]" >&2
    exit 64
fi
n=$1 questions=$2 cache=$3
shift 3

# damage is found once, not by each process in the middle of its rows
cag-inspect -q -t "$cache"
# a process that fails is tried again, and goes on where it was
status=0
seq 0 $((n - 1)) | parallel --will-cite --retries 3 --joblog answers.log "$@" \
    cag-ask -q --batch "$questions" --shard "{}/$n" -o answers.%i.jsonl \
    --resume "$cache" || status=$?
# each row once?
cag-inspect --shards 'answers.*.jsonl' || exit
exit "$status"

#!/bin/sh
# ask-all.sh - put the same questions to every cache, and go on where an
# earlier run stopped.
#
#     sh ask-all.sh QUESTIONS.jsonl FILE.kvc...
#
# The answers of handbook.kvc go to handbook.answers.jsonl.  One cache that
# fails does not stop the others; the exit status is that of the last failure.
# A run that is ended, by Ctrl-C or a crash, is simply started again: rows that
# were answered are not asked twice.
set -u

if [ $# -lt 2 ]; then
    echo "usage: ask-all.sh QUESTIONS.jsonl FILE.kvc..." >&2
    exit 64
fi
questions=$1
shift
worst=0
for kb in "$@"; do
    answers=${kb%.kvc}.answers.jsonl
    cag-ask -q --batch "$questions" -o "$answers" --resume "$kb"
    status=$?
    case $status in
    0) ;;
    1) echo "$kb: stale; its sources have changed" >&2 ;;
    2) echo "$kb: some rows failed, see $answers.part" >&2 ;;
    75) echo "$kb: another run is answering, skipped" >&2 ;;
    13?|14?) exit $status ;;                       # Ctrl-C ends them all
    *) echo "$kb: cag-ask ended with $status" >&2 ;;
    esac
    [ $status -eq 0 ] || worst=$status
done
exit $worst

#!/bin/sh
# check_slurm.sh - examples/slurm/ask.sbatch on a real Slurm of one node.
#
# Controller, node and munge are Debian's packages, started here in a directory
# of the test, with ports of its own, and ended by their process ids.  A task is
# killed in the middle and requeued, another is requeued while it runs; in the
# end each row must be there once.  TAP on standard output.
set -eu

: "${CAG_BIN:?the directory of the tools}" "${CAG_DEMO_MODEL:?a model}"
[ "$(id -u)" = 0 ] || { echo "1..0 # skip the daemons of Slurm want root"; exit 0; }
top=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d /tmp/cag-slurm-XXXXXX)
host=$(hostname -s)
export PATH="$CAG_BIN:$PATH" SLURM_CONF="$dir/slurm.conf" CAG_LOCAL="$dir/node"
pids=

finish() {
    for p in $pids; do
        kill "$p" 2>/dev/null || true
    done
    for p in $pids; do
        wait "$p" 2>/dev/null || true
    done
    if [ "${failed:-1}" = 0 ]; then rm -rf "$dir"; else echo "# left in $dir"; fi
}
trap finish EXIT
trap 'exit 130' INT TERM

n=0 failed=0
ok() { # DESCRIPTION STATUS
    n=$((n + 1))
    if [ "$2" = 0 ]; then echo "ok $n - $1"; else
        failed=$((failed + 1))
        echo "not ok $n - $1"
    fi
}
# wait SECONDS COMMAND...: until it succeeds
until_ok() {
    tries=$(($1 * 5))
    shift
    while ! "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        sleep 0.2
    done
}
port() { # a free one
    python3 -c 'import socket
s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

chmod 755 "$dir"
mkdir "$dir/state" "$dir/spool" "$dir/munge" "$dir/work"
dd if=/dev/urandom of="$dir/munge/key" bs=128 count=1 status=none
chmod 600 "$dir/munge/key"
munged -F --key-file="$dir/munge/key" --socket="$dir/munge/socket" \
    --pid-file="$dir/munge/pid" --log-file="$dir/munge/log" \
    --seed-file="$dir/munge/seed" --num-threads=1 2>"$dir/munge/err" &
pids="$pids $!"

cat >"$SLURM_CONF" <<END
ClusterName=one
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(port)
SlurmdPort=$(port)
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket,cred_expire=5
CredType=cred/munge
SlurmUser=root
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
KillWait=5
SlurmdParameters=config_overrides
NodeName=$host NodeAddr=127.0.0.1 CPUs=4 RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP
END
until_ok 10 test -S "$dir/munge/socket"
slurmctld -D 2>"$dir/slurmctld.err" &
pids="$! $pids"
until_ok 20 scontrol ping
slurmd -D 2>"$dir/slurmd.err" &
pids="$! $pids"
up() { sinfo -h -o %T | grep -q idle; }
echo "1..6"
until_ok 30 up && s=0 || s=1
ok "a Slurm of one node is up" $s
[ $s = 0 ] || exit 1

cd "$dir/work"
cp "$top/examples/knowledge.txt" .
cag-build -q -m "$CAG_DEMO_MODEL" -o kb.kvc knowledge.txt
for i in $(seq 96); do
    printf '{"id":%d,"question":"What is said about thing %d?","max_tokens":48}\n' "$i" "$i"
done >questions.jsonl

job=$(sbatch --parsable --array=0-3 --cpus-per-task=1 \
    "$top/examples/slurm/ask.sbatch" questions.jsonl kb.kvc "$CAG_DEMO_MODEL")

rows() { [ "$(wc -l 2>/dev/null <"answers.$1.jsonl.part" || echo 0)" -ge "$2" ]; }
# the process of task $1: the script ends with exec
task_pid() {
    for p in /proc/[0-9]*; do
        if tr '\0' '\n' 2>/dev/null <"$p/environ" | grep -qx "SLURM_ARRAY_TASK_ID=$1" &&
            tr '\0' '\n' <"$p/environ" | grep -qx "SLURM_CONF=$SLURM_CONF" &&
            [ "$(cat "$p/comm")" = cag-ask ]; then
            echo "${p#/proc/}"
        fi
    done
}
until_ok 120 rows 1 2 && s=0 || s=1
kill -9 "$(task_pid 1)" || s=1
ok "a task is killed in the middle of its rows" $s
until_ok 120 rows 2 2 && s=0 || s=1
scontrol requeue "${job}_2" || s=1
ok "another is requeued while it runs" $s
state() { scontrol -o show job "${job}_$1" | grep -q "JobState=$2"; }
until_ok 60 state 1 FAILED && s=0 || s=1
[ ! -e answers.1.jsonl ] && [ -s answers.1.jsonl.part ] || s=1
ok "the killed one has failed and left its rows" $s
before=$(wc -l <answers.1.jsonl.part)
scontrol requeue "${job}_1"

gone() { [ -z "$(squeue -h -j "$job")" ]; }
until_ok 400 gone && s=0 || s=1
cag-inspect --shards 'answers.*.jsonl' | sed 's/^/# /' || s=1
cag-inspect --shards 'answers.*.jsonl' >/dev/null || s=1
ok "each row is there once" $s
cag-ask -q -m "$CAG_DEMO_MODEL" --batch questions.jsonl kb.kvc >whole.jsonl
strip() { sed 's/,"seconds":[0-9.e-]*//' "$@" | grep -v '"complete":true' | jq -cs 'sort_by(.line)[]'; }
strip answers.?.jsonl >a && strip whole.jsonl >b && cmp a b && s=0 || s=1
[ "$before" -gt 0 ] && ls "$CAG_LOCAL"/*.kvc >/dev/null || s=1
ok "and is the answer of one machine, from the node's own copy" $s

for f in answers.*.log; do sed "s/^/# $f: /" "$f"; done
[ $failed = 0 ]

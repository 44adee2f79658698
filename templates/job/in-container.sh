#!/usr/bin/env bash
# Runs in a job's container: `in-container.sh rank COMMAND...` becomes `python3 gpucluster_job rank COMMAND...`. If the image has no
# Python 3.8 or newer, the lines below run the rank; then only the log has the rank's last lines, and not the job's reason.
set -uo pipefail

if python3 -ISc 'import ctypes, sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null; then
  exec python3 -IS "$GPUCLUSTER_JOB_DIR/lib/gpucluster_job" "$@"
fi
case $1 in rank) ;; *) echo "error: this launcher needs python3 3.8 or newer in the image, which has none" >&2; exit 1 ;; esac
shift

for pair in $GPUCLUSTER_RANK_VARIABLES; do
  from=${pair#*=}
  export "${pair%%=*}=${!from}"
done
label="$RANK ${GPUCLUSTER_NODE:-$(hostname --short)}"

failed() { # CODE REASON
  printf '{"at": %s, "code": %d, "label": "%s", "node": "%s", "reason": "%s"}\n' "$(date +%s.%N)" "$1" \
    "${label% *}" "${label#* }" "$2" >"$GPUCLUSTER_FAILURES/${label/ /-}-$$.json"
}

# The same check as check_world in gpucluster_job/ranks/identity.py.
expected=$((NUM_NODES * RANKS_PER_NODE))
if [ "${GPUCLUSTER_PREFLIGHT:-off}" != off ] && [ -z "${MIN_NODES:-}" ] && [ "$WORLD_SIZE" -ne "$expected" ]; then
  reason="this rank got a world size of $WORLD_SIZE, expected $NUM_NODES nodes x $RANKS_PER_NODE ranks = $expected"
  failed 1 "$reason; --preflight off skips this check"
  echo "[$label] error: $reason" >&2
  exit 1
fi

# setsid: the program gets its own session and process group, so that its child processes end with it.
stopped=''
trap 'stopped=1; kill -TERM -- "-$program" 2>/dev/null; { sleep 5; kill -KILL -- "-$program" 2>/dev/null; } &' TERM INT
# shellcheck disable=SC2016
setsid bash -c 'for file in /etc/gpucluster/job-environment.sh "$GPUCLUSTER_JOB_DIR"/{env,secrets}.sh; do
  [ ! -e "$file" ] || source "$file"
done
exec -- "$@"' bash "$@" > >(trap '' TERM INT; exec sed -u "s/^/[$label] /") 2>&1 </dev/null &
program=$!
wait "$program"
code=$?
while kill -0 "$program" 2>/dev/null; do wait "$program"; code=$?; done
kill -KILL -- "-$program" 2>/dev/null
[ "$code" -eq 0 ] || [ -n "$stopped" ] || failed "$code" "its last lines are in the log: the image has no python3"
exit "$code"

# Unpacks a job's folder from stdin, for job.sh or shards.sh, which is appended to this script: one round trip, and the
# log exists before the job does. Arguments: the folder of all jobs' folders, where the script runs; this job's name; and
# the arguments of the other script.
# shellcheck shell=sh disable=SC2086  # $queued and $missing are lists
set -eu
jobs=$1 name=$2 queued=''
shift 2
# Their messages are in English, which the client reads (gpucluster/submission/upload.py). The job gets the account's own
# language.
LC_ALL=C mkdir -p "$jobs/by-id"
cd "$jobs"
LC_ALL=C tar --extract --gzip --no-same-owner --file=- || { rm -rf "$name"; exit 1; }
# Claims the folder, against a client that asks about this upload because its connection broke
# (gpucluster/submission/interrupted.py), and answers it there, too.
(set -C && : >"$name/submitted") 2>/dev/null || { rm -rf "$name"; exit 1; }
answer() {
  LC_ALL=C cat >"$name/submitted.new" || give_up
  mv "$name/submitted.new" "$name/submitted" || give_up
  cat "$name/submitted"
}
# Undoes everything, after the compilation in job.sh ends: no job stays queued, and no folder stays behind.
give_up() { wait; cd "$jobs"; [ -z "$queued" ] || scancel $queued; rm -rf "$name"; exit "${1:-1}"; }
# Takes sbatch's arguments and sets $id.
queue() { id=$(sbatch --parsable "$@") || give_up; id=${id%%;*} id=${id##*[!0-9]} queued="$queued $id"; }
link() { ln -sfn "../$name" "by-id/$id"; }

# Submits one job, after folder.sh. Arguments: the folder of environments, the user's own Python or '', and the names of
# the job's environments. Prints the job's id, the state of its own packages, a line for each job that builds an
# environment, and the jobs that it waits for; or, for a task whose last run was equal, that run.
envs=$1 python=$2
shift 2
runtime() { /usr/bin/python3 -IS "$name/lib/gpucluster_job" "$@"; }

# The runs of other jobs that it waits for.
if [ -e "$name/chain.json" ]; then
  waits=$(runtime chain "$jobs/$name") || give_up "$?"
fi

# A task whose last run was equal, and succeeded or is still queued, does not run again.
if grep -q '"folder"' "$name/task.json" 2>/dev/null; then
  task=$(sed -n 's/^  "folder": "\(.*\)",*$/\1/p' "$name/task.json")
  mkdir -p "$task"
  exec 9>"$task/lock"
  flock 9
  same=$(runtime task "$jobs/$name") || give_up "$?"
  if [ -n "$same" ]; then
    echo "$same"
    give_up 0
  fi
fi

if [ -n "$python" ] && [ ! -x "$python/bin/python" ]; then
  echo "error: python: the cluster has no program $python/bin/python" >&2
  give_up 3
fi

# A separate job builds a missing environment: this job starts after it, and never starts if it fails.
for each; do [ -e "$envs/.wanted/$each/complete" ] || missing="${missing:-} $each"; done
: >"$name/builds"
if [ -n "${missing:-}" ]; then
  # shellcheck disable=SC2024  # the file is the user's own, and not root's
  sudo -n /opt/gpucluster/bin/node-program jobs.environments ensure $missing >"$name/builds" || give_up
fi

# The job's own packages are compared with the environment before nodes are paid for.
packages=none
if [ -e "$name/packages" ]; then packages=$(runtime overlay check "$jobs/$name") || give_up "$?"; fi

# Otherwise the first node compiles the job's runtime, over NFS, while the job waits.
nice /usr/bin/python3 -IS -m compileall -q "$name/lib/gpucluster_job" </dev/null >/dev/null 2>&1 &

# sbatch's arguments override the script, so a dependency in the script is repeated here.
after=${waits:-}$(awk 'NF == 3 { printf ":%s", $2 }' "$name/builds")
own=$(sed -nE 's/^#SBATCH (--dependency=|-d)//p' "$name/job.sbatch" | tail -n 1)
if [ -n "$after" ]; then set -- "--dependency=afterok$after${own:+,$own}" --kill-on-invalid-dep=yes; else set --; fi
queue "$@" "$jobs/$name/job.sbatch"

if [ -e "$name/chain.json" ]; then runtime chain "$jobs/$name" outputs || give_up; fi
link
[ -z "${task:-}" ] || { echo "$id $name" >"$task/job"; exec 9>&-; }
if [ -e "$name/elements" ]; then mkdir "$name/runs"; cp "$name/elements" "$name/runs/$id"; fi
# They are restored or installed on the head node while the nodes boot.
case $packages in missing | stored | later) runtime overlay start "$jobs/$name" ;; esac
wait

{
  echo "$id"
  echo "packages $packages"
  cat "$name/builds"
  [ ! -e "$name/waits" ] || cat "$name/waits"
} | answer

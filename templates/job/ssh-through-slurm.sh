#!/usr/bin/env bash
# horovodrun calls this as ssh: `ssh [options] HOST [options] COMMAND`. It starts the command on that node as a task of this job, so
# that Slurm accounts for the rank, gives it its GPUs, and ends it with the job. Slurm would not know a process started by real ssh.
set -euo pipefail

host=''
while [ $# -gt 0 ]; do
  case $1 in
    -o | -p | -i | -l) shift 2 ;;
    -*) shift ;;
    *)
      [ -z "$host" ] || break
      host=$1
      shift
      ;;
  esac
done
# like ssh, joins the arguments with blanks and gives them to a shell on the other node
exec srun --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 --nodelist="$host" --cpu-bind=none --input=none bash -c "$*"

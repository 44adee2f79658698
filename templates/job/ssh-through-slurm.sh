#!/usr/bin/env bash
# Called as ssh by horovodrun: `ssh [options] HOST [options] COMMAND`. Starts the command on that node as a task of this job, so
# that Slurm accounts for the rank, gives it its GPUs, and ends it with the job. Over real ssh it would be nobody's.
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
# ssh joins its arguments with blanks and gives them to a shell on the other side
exec srun --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 --nodelist="$host" --cpu-bind=none --input=none bash -c "$*"

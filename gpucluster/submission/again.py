"""Runs elements of an array again: a new array with their indexes, the same script and the same folders."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpucluster.errors import RemoteError, UsageError
from gpucluster.following.arrays import Element, failed
from gpucluster.following.jobs import real_folder
from gpucluster.following.known import find
from gpucluster.head import slurm
from gpucluster.head.remote import Remote
from gpucluster.job import SbatchRequest, arrays
from gpucluster.job.load import loads
from gpucluster.job.script import ENVIRONMENTS
from gpucluster.job.spec import JobSpec
from gpucluster.layout import Layout
from gpucluster.submission.submit import secret_values

# An element's log, result and metrics are kept under the id of the array that it last ran in. The secrets come on
# standard input; each element removes its copy when it ends. If Slurm refuses the array, everything is restored. A
# submission of the task takes the same lock, so a running element is not started a second time.
_AGAIN = """
set -eu
folder=$1 indexes=$2 envs=$3
shift 3
while [ "$1" != -- ]; do
  if [ ! -e "$envs/.wanted/$1/complete" ]; then
    echo "error: the environment $1 is missing: build it with 'gpucluster env build $1'" >&2
    exit 3
  fi
  shift
done
shift
cd "$folder"
secrets=$(cat)
task=$(sed -n 's/^  "folder": "\\(.*\\)",*$/\\1/p' task.json 2>/dev/null || :)
[ -z "$task" ] || mkdir -p "$task"
exec 9>"${task:-$folder}/lock"
flock 9
/usr/bin/python3 -IS lib/gpucluster_job task "$folder" $indexes
each() {
  for index in $indexes; do
    last=$(grep -lx "$index" runs/* | sed 's/.*[/]//' | sort -n | tail -n 1)
    "$1"
  done
}
keep() {
  mv -f "$index/log.txt" "$index/log-$last.txt"
  touch "$index/result.json" "$index/metrics.jsonl"
  mv -f "$index/result.json" "$index/result-$last.json"
  mv -f "$index/metrics.jsonl" "$index/metrics-$last.jsonl"
  [ ! -e "$index/started" ] || mv -f "$index/started" "$index/started-$last"
  [ ! -e "$index/log.times" ] || mv -f "$index/log.times" "$index/log-$last.times"
  : >"$index/log.txt"
  [ -z "$secrets" ] || (umask 077; printf '%s\\n' "$secrets" >"$index/secrets.sh")
}
undo() {
  rm -f "$index/secrets.sh"
  mv -f "$index/log-$last.txt" "$index/log.txt"
  mv -f "$index/result-$last.json" "$index/result.json"
  mv -f "$index/metrics-$last.jsonl" "$index/metrics.jsonl"
  [ -s "$index/result.json" ] || rm "$index/result.json"
  [ -s "$index/metrics.jsonl" ] || rm "$index/metrics.jsonl"
  [ ! -e "$index/started-$last" ] || mv -f "$index/started-$last" "$index/started"
  [ ! -e "$index/log-$last.times" ] || mv -f "$index/log-$last.times" "$index/log.times"
}
each keep
id=$(sbatch --parsable "$@" "$folder/job.sbatch") || { each undo; exit 1; }
id=${id%%;*} id=${id##*[!0-9]}
printf '%s\\n' $indexes >"runs/$id"
ln -sfn "../$(basename "$folder")" "../by-id/$id"
[ -z "$task" ] || echo "$id $(basename "$folder")" >"$task/job"
echo "$id"
"""


@dataclass(frozen=True)
class Submitted:
    job_id: str
    folder: str


def chosen(array_id: str, found: Sequence[Element], index: int | None) -> tuple[int, ...]:
    """Raises UsageError for an element that does not exist or has not ended."""
    if index is None:
        return tuple(failed(found))
    element = next((each for each in found if each.index == index), None)
    if element is None:
        raise UsageError(f"job {array_id} has no element {index}", f"`gpucluster results {array_id}` lists them")
    if element.state in ("running", "pending"):
        raise UsageError(f"job {element.job_id} is {element.state}", f"`gpucluster cancel {element.job_id}` ends it")
    return (index,)


def submit(
    remote: Remote, layout: Layout, array_id: str, indexes: Sequence[int], environment: Mapping[str, str]
) -> Submitted:
    """Raises UsageError if a secret is not set or Slurm refuses, JobSpecError, or RemoteError."""
    folder = real_folder(remote, array_id)
    spec = _spec(remote, layout, folder)
    request = SbatchRequest.from_spec(spec, layout, folder)
    secrets = secret_values(spec, environment)
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in secrets.items())
    array = arrays.option(indexes, spec.elements_at_once)
    words = [folder, " ".join(map(str, indexes)), ENVIRONMENTS, *request.environments, "--", array]
    done = remote.run(["sh", "-c", _AGAIN, "sh", *words], input=exports.encode(), timeout_s=120)
    if done.exit_code == 3:
        raise UsageError(done.stderr.strip().removeprefix("error: "))
    if refusal := slurm.refusal(done.stderr):
        raise UsageError(f"Slurm rejected the job: {refusal}", find.advice(refusal))
    said = done.check("the elements were not submitted").stdout
    try:
        return Submitted(slurm.parse_job_id(said), folder)
    except ValueError as error:
        raise RemoteError(str(error)) from None


def _spec(remote: Remote, layout: Layout, folder: str) -> JobSpec:
    from gpucluster.config.parse import parse

    path = f"{folder}/job.yaml"
    return loads(layout, parse(remote.get(path).decode(), path), {})

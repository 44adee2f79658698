"""sbatch's options: which a job may bring along (`sbatch_args`), and which one of its own keys decides.

Names: man sbatch.1 of Slurm 23.11. sbatch takes every unambiguous beginning of a long name, as `--out` for `--output`.
"""

from __future__ import annotations

KEYS = {
    "array": "",
    "chdir": "workdir",
    "cpus-per-task": "ntasks_per_node",
    "error": "",
    "exclusive": "exclusive",
    "export": "env",
    "export-file": "env",
    "gpus": "gpus_per_node",
    "gpus-per-node": "gpus_per_node",
    "gpus-per-socket": "gpus_per_node",
    "gpus-per-task": "gpus_per_node",
    "gres": "gpus_per_node",
    "het-group": "servers",
    "input": "command",
    "job-name": "name",
    "nodes": "nodes",
    "no-requeue": "requeue",
    "ntasks": "ntasks_per_node",
    "ntasks-per-core": "ntasks_per_node",
    "ntasks-per-gpu": "ntasks_per_node",
    "ntasks-per-node": "ntasks_per_node",
    "ntasks-per-socket": "ntasks_per_node",
    "open-mode": "",
    "oversubscribe": "exclusive",
    "output": "",
    "parsable": "",
    "partition": "partition",
    "requeue": "requeue",
    "signal": "signal",
    "test-only": "",
    "time": "time",
    "wait": "",
    "wrap": "command",
}
"""Option -> the job's key that decides it; "" where the job's own files and log depend on it."""

SHORT = {
    "D": "chdir",
    "J": "job-name",
    "N": "nodes",
    "W": "wait",
    "a": "array",
    "c": "cpus-per-task",
    "e": "error",
    "G": "gpus",
    "i": "input",
    "n": "ntasks",
    "o": "output",
    "p": "partition",
    "s": "oversubscribe",
    "t": "time",
}

WHY = {
    "array": "all tasks of the array would write one log, one result.json and one folder; submit one job for each",
    "error": "the job's log, log.txt in its folder, has both streams: `logs` and result.json read it",
    "open-mode": "a requeued job goes on in the same log.txt",
    "output": "the job's log is log.txt in its folder: `logs` and result.json read it there",
    "parsable": "submit reads what sbatch prints",
    "test-only": "submit would take a job for submitted that is not; --dry-run prints the script",
    "wait": "--follow waits for the job",
}

_PASSED_ON = """
    account acctg-freq batch begin clusters comment constraint container contiguous core-spec cores-per-socket
    cpu-freq deadline delay-boot dependency distribution exclude extra-node-info gpu-freq hold ignore-pbs
    kill-on-invalid-dep licenses mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu nice no-kill
    nodefile nodelist power prefer priority profile qos reboot reservation sockets-per-node spread-job switches
    threads-per-core tmp tres-per-task use-min-nodes verbose wait-all-nodes wckey
"""
PASSED_ON = frozenset(_PASSED_ON.split())
"""Options that no key of a job decides: `sbatch_args` takes them as they are."""


def long_name(option: str) -> str:
    """Of `--nodes=3`, `--node=3` and `-N3`: nodes. An option that no key decides keeps its name."""
    if not option.startswith("--"):
        return SHORT.get(option[1:2], option[1:2])
    name = option[2:].partition("=")[0]
    if name in KEYS or name in PASSED_ON:
        return name
    return next((known for known in KEYS if known.startswith(name)), name)


def refusal(option: str) -> tuple[str, str] | None:
    """Why a job must not bring this option, and what to do instead."""
    name = long_name(option)
    if name not in KEYS:
        return None
    written = option.partition("=")[0] if option.startswith("--") else option[:2]
    if key := KEYS[name]:
        return f"{written} is decided by the job's key {key}", f"leave it out, and set {key}"
    return f"{written} cannot be passed on: {WHY[name]}", "leave it out"


def owned_by(option: str) -> str | None:
    """The job's key that decides the option of this long name, written with hyphens or underscores."""
    return KEYS.get(option.replace("_", "-")) or None


def hint(key: str) -> str | None:
    """For a key of a job file that is none of ours but that sbatch knows."""
    name = {"depends_on": "dependency", "depends": "dependency", "memory": "mem"}.get(key, key).replace("_", "-")
    if name in PASSED_ON:
        return f"sbatch has it: `sbatch_args: [--{name}=…]`"
    if name in KEYS:
        return f"write {KEYS[name]}" if KEYS[name] else f"there is no such key: {WHY[name]}"
    if name == "max-retries":
        return "write requeue: true, which runs the job again after a node failure"
    return None

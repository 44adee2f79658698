"""sbatch's options: those that a job may pass on (`sbatch_args`), and those that the job's own keys set.

Names: man sbatch.1 of Slurm 23.11. sbatch accepts every unambiguous prefix of a long name: `--out` for `--output`.
"""

from __future__ import annotations

from gpucluster import job_keys

WHY = {
    "error": "the job's log, log.txt in its folder, has both streams: `logs` and result.json read it",
    "open-mode": "a requeued job appends to the same log.txt",
    "parsable": "submit reads what sbatch prints",
    "test-only": "sbatch would queue no job; --dry-run prints the script",
    "wait": "--follow waits for the job",
}
"""The options that no key may set: the job's own files and log depend on them."""

_OWNED = {option: key.name for key in job_keys.of_job() for option in key.sbatch.split()} | dict.fromkeys(WHY, "")
KEYS = {option: _OWNED[option] for option in sorted(_OWNED, key=lambda option: option.replace("-", "~"))}
"""Option -> the job's key that sets it; "" for those of WHY. An ambiguous prefix means the first."""

_OTHERS = {
    "D": "chdir", "G": "gpus", "W": "wait", "c": "cpus-per-task", "e": "error", "i": "input", "n": "ntasks",
    "s": "oversubscribe",
}  # fmt: skip
SHORT = {
    flag[1]: key.sbatch.split()[0] for key in job_keys.of_job() for flag in key.flags.split() if flag[1] != "-"
} | _OTHERS
"""Letter -> option. Most of sbatch's letters are `submit`'s, too."""

_PASSED_ON = """
    acctg-freq batch clusters comment container contiguous core-spec cores-per-socket cpu-freq deadline delay-boot
    distribution exclude extra-node-info gpu-freq hold ignore-pbs kill-on-invalid-dep licenses mail-type mail-user
    mcs-label mem-bind nice no-kill nodefile nodelist power prefer priority profile reboot
    sockets-per-node spread-job switches threads-per-core tmp tres-per-task use-min-nodes verbose wait-all-nodes wckey
"""
PASSED_ON = frozenset(_PASSED_ON.split())
"""Options that no key of job.yaml sets: `sbatch_args` passes them on unchanged."""


def long_name(option: str) -> str:
    """`nodes` for `--nodes=3`, `--node=3` and `-N3`. An option that no key sets keeps its name."""
    if not option.startswith("--"):
        return SHORT.get(option[1:2], option[1:2])
    name = option[2:].partition("=")[0]
    if name in KEYS or name in PASSED_ON:
        return name
    return next((known for known in KEYS if known.startswith(name)), name)


def refusal(option: str) -> tuple[str, str] | None:
    """Why a job must not pass this option, and what to do instead."""
    name = long_name(option)
    if name not in KEYS:
        return None
    written = option.partition("=")[0] if option.startswith("--") else option[:2]
    if key := KEYS[name]:
        return f"the job's key {key} sets {written}", f"remove it, and set {key}"
    return f"{written} is not allowed: {WHY[name]}", "remove it"


def owned_by(option: str) -> str | None:
    """The job's key that sets the option with this long name, written with hyphens or underscores."""
    return KEYS.get(option.replace("_", "-")) or None


def hint(key: str) -> str | None:
    """A hint for an unknown key of a job file that is an option of sbatch."""
    name = key.replace("_", "-")
    if name in PASSED_ON:
        return f"it is an option of sbatch: `sbatch_args: [--{name}=…]`"
    if name in KEYS:
        return f"write {KEYS[name]}" if KEYS[name] else f"there is no such key: {WHY[name]}"
    if name == "max-retries":
        return "write requeue: true, which runs the job again after a node failure"
    return None

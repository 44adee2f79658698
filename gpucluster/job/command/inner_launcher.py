"""A launcher inside a launcher: each rank would start ranks of its own, a training that knows nothing of the others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path

from gpucluster.config.document import Finding
from gpucluster.job.command.started import Started, commands, started
from gpucluster.job.spec import JobSpec

_PROGRAMS = ("torchrun", "horovodrun", "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "srun", "deepspeed", "composer")
_WITH_A_VERB = {"accelerate": "launch", "colossalai": "run"}
_MODULES = {
    "torch.distributed.run": "torch.distributed.run",
    "torch.distributed.launch": "torch.distributed.launch",
    "accelerate.commands.launch": "accelerate launch",
    "deepspeed.launcher.runner": "deepspeed",
    "horovod.runner.launch": "horovodrun",
}
_TORCHRUN = ("torchrun", "torch.distributed.run", "torch.distributed.launch")
_JOINED = "--nnodes $NUM_NODES --node-rank $NODE_RANK --master-addr $MASTER_ADDR --master-port $MASTER_PORT"
_READ_BYTES = 100_000
_ALONE = "write only the training program"


def check(spec: JobSpec, found: Sequence[Started]) -> Iterator[Finding]:
    """`found`: what the command starts."""
    if problem := _problem(spec, found):
        yield Finding(("command",), *problem)


def in_scripts(spec: JobSpec, workdir: Path) -> Iterator[str]:
    """Warnings about the shell scripts that the command runs: a line of a script may never run."""
    for each in started(spec.command):
        text = _shell_script(workdir / each.program, each.by == "shell") if not each.inside else ""
        inside = [more._replace(inside=True) for words in commands(text) for more in started(words)]
        if problem := _problem(spec, inside):
            yield f"{each.program} {problem[0]}; {problem[1]}"


def _shell_script(path: Path, is_shell: bool) -> str:
    """Its text; empty for any other program."""
    try:
        text = path.read_bytes()[:_READ_BYTES].decode(errors="replace") if path.is_file() else ""
    except (OSError, ValueError):
        return ""
    return text if is_shell or re.match(r"#!\s*\S*(/env\s+(-S\s+)?)?\S*\b(ba|da|z|k)?sh\b", text) else ""


def _problem(spec: JobSpec, found: Sequence[Started]) -> tuple[str, str] | None:
    """If Slurm starts one rank on each node, that rank may start the others, and on several nodes it must join them
    (`--launcher srun -- torchrun --nnodes …`)."""
    each, inner = next(((each, name) for each in found if (name := _launcher(each))), (None, ""))
    if each is None:
        return None
    is_same = inner == spec.launcher or {inner, spec.launcher} <= set(_TORCHRUN)
    if spec.ranks_per_node > 1 or is_same:
        per_node = f"{spec.ranks_per_node} of them on each node"
        starts = f"starts {inner}, which starts ranks itself, and {spec.launcher} would start {per_node}"
        return starts, _hint(inner, spec.nodes)
    if spec.nodes > 1 and not _on_one_node(found) and not _may_join(spec, inner, each, found):
        apart = f"{spec.nodes} trainings that know nothing of each other"
        return f"starts {inner} separately on each of {spec.nodes} nodes: {apart}", _hint(inner, spec.nodes)
    return None


def _launcher(started: Started) -> str:
    """Its name if it is a launcher that starts something."""
    if started.words[:1] in (("--version",), ("--help",), ("-h",), ("-V",)):
        return ""
    if started.program in _MODULES:
        return _MODULES[started.program]
    if started.by in ("module", "shell"):
        return ""
    if started.name in _WITH_A_VERB:
        verb = _WITH_A_VERB[started.name]
        return f"{started.name} {verb}" if started.words[:1] == (verb,) else ""
    return "accelerate launch" if started.name == "accelerate-launch" else started.name * (started.name in _PROGRAMS)


def _hint(inner: str, nodes: int) -> str:
    written = f"python -m {inner}" if inner in _TORCHRUN[1:] else inner
    if nodes == 1:
        return f"{_ALONE}; or use --launcher srun --ntasks-per-node 1 -- {written} …"
    if inner in _TORCHRUN:
        how = f"bash -c '{written} {_JOINED} …'"
        return f"{_ALONE}; or use --launcher srun --ntasks-per-node 1 -- {how}"
    return _ALONE


def _on_one_node(found: Sequence[Started]) -> bool:
    """Whether a shell's text asks for its rank: `[ $NODE_RANK = 0 ] && mpirun …`."""
    tests = (each for each in found if each.name in ("[", "[[", "test"))
    return any(re.search("RANK|PROCID|NODEID", word) for each in tests for word in each.words)


def _may_join(spec: JobSpec, inner: str, each: Started, found: Sequence[Started]) -> bool:
    """Also if the command sets one of torchrun's variables, or if a shell's variable holds options:
    `torchrun $DISTRIBUTED_ARGS train.py`."""
    sets_variable = any("PET_" in word for words in (spec.command, *(other.words for other in found)) for word in words)
    own = ["", *takewhile(lambda word: not word.endswith(".py"), each.words)]
    holds_options = any(
        re.fullmatch(r"\$\{?\w+(\[[@*]\])?\}?", word) and not before.startswith("-")
        for before, word in zip(own, own[1:], strict=False)
    )
    return sets_variable or (each.inside and holds_options) or _joins(inner, each.words, spec.env)


def _joins(inner: str, words: Sequence[str], env: Mapping[str, str]) -> bool:
    """Whether its copies on all nodes are one training. torch.distributed.run also reads its options from PET_*
    variables (torch/distributed/argparse_util.py). `accelerate launch --help`: --num_machines. DeepSpeed's Getting
    Started, "Launching without passwordless SSH": --no_ssh."""
    given = _options(words)
    if inner in _TORCHRUN:
        of_torch = {name[4:].lower(): value for name, value in env.items() if name.startswith("PET_")} | given
        where = of_torch.get("rdzv_endpoint") or of_torch.get("master_addr") or "localhost"
        several = of_torch.get("nnodes", "1") not in ("1", "1:1") and "standalone" not in of_torch
        return several and not re.match(r"localhost|127\.", where)
    if inner == "accelerate launch":
        return given.get("num_machines", "1") != "1" or "config_file" in given
    return inner == "deepspeed" and "no_ssh" in given


def _options(words: Sequence[str]) -> dict[str, str]:
    """Those before the training script: hyphens as underscores, with the word after it as its value."""
    found: dict[str, str] = {}
    for word, after in zip(words, (*words[1:], ""), strict=True):
        if word.endswith(".py") or word in ("-m", "--module"):
            break
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            found[name.replace("-", "_")] = value if equals else after
    return found

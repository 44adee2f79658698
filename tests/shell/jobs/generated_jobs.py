"""Random jobs for tests: do their arguments and variables reach the program that starts the ranks?

bash runs each script in one process. Instead of Python, the script executes a probe, which writes its arguments and
environment to a file.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gpucluster.config import loads
from gpucluster.job import JobSpec, SbatchRequest, load
from gpucluster.job.command import program
from gpucluster.job.reserved import refusal
from gpucluster.launchers import LAUNCHERS
from gpucluster.layout import expand
from gpucluster_job.exports import assignments
from gpucluster_job.job import split
from gpucluster_job.launch import COMMAND
from gpucluster_job.roles.steps import steps

ROOT = Path(__file__).resolve().parents[3]
LAYOUT = expand(
    loads(
        """
name: Test
region: us-east-1
partitions:
  - {name: train, instance_types: [g5.12xlarge], max_nodes: 4}
  - {name: p4d, instance_types: [p4d.24xlarge], max_nodes: 4}
parameter_servers: {instance_type: m5.4xlarge}
software: {frameworks: [torch, horovod, smddp, mxnet, tensorflow], containers: true}
"""
    )
)
BATCH = 5
FRAGMENTS = (
    "", " ", "a b", "'", '"', "'\"'", "\n", "\n\n#SBATCH --x", "\\", "\\n", "$", "$()", "$(touch x)", "${HOME}", "`id`",
    "$'\\n'", "!", "!!", "*", "?", "[a]", "{a,b}", "~", "#", ";", "&", "|", ">", "<", "(", ")", "=", "a=b", "-", "--",
    "--flag=1", "-e", "%s", "%", "\t", "\r", "\x01", "\x1b[0m", "\x7f", "ünï", "日本", "🜚", "\u202e", "\ufeff",
    "e\u0301", "/data/my files/it's", "EOF", "\nEOF\n", "{{ x }}", "{% x %}", ")\n", "C:\\x\\", "\\'", "x" * 300,
)  # fmt: skip
PLAUSIBLE = ("LOG", "NODE", "OUTPUT", "REASON", "END", "HOME", "LABEL", "STEPS", "LEADER", "HELD", "CDPATH")
"""Names of variables: a user's, a shell's and ours."""

texts = st.one_of(
    st.sampled_from(FRAGMENTS),
    st.lists(st.sampled_from(FRAGMENTS), max_size=6).map("".join),
    st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=12),
)
huge = st.builds(
    lambda text, size: (text * size)[: size // 4], texts.filter(bool), st.sampled_from([5_000, 60_000, 120_000])
)
words = st.integers(0, 199).flatmap(lambda number: texts if number else huge)
names = st.one_of(
    st.sampled_from(PLAUSIBLE),
    # a job that sets PATH finds its programs there
    st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_]{0,8}\Z").filter(lambda name: name != "PATH" and not refusal(name)),
)


def accepted(command: tuple[str, ...]) -> bool:
    spec = JobSpec.model_construct(command=command, launcher="torchrun", nodes=4, gpus_per_node=4, env={})
    return not list(program.check(spec))


jobs = st.fixed_dictionaries(
    {
        # a launcher's name is refused, and hypothesis also tries the strings of the code that it tests
        "command": st.lists(words, min_size=1, max_size=5).map(tuple).filter(lambda found: accepted(found)),
        "launcher": st.sampled_from(sorted(LAUNCHERS)),
        "nodes": st.integers(1, 4),
        "gpus_per_node": st.integers(1, 4),
        "env": st.dictionaries(names, words, max_size=3),
        "exclusive": st.booleans(),
        "requeue": st.booleans(),
    }
)

# The number of arguments, these, the environment; all end with \0.
PROBE = r"""#!/bin/sh
{ printf '%s\0' $# "$@"; exec env --null; } >"$PROBED"
"""


batches = st.lists(jobs, min_size=BATCH, max_size=BATCH)


@contextmanager
def places() -> Iterator[list[Path]]:
    """A folder for each job of a batch, in memory if possible; its name has characters that are special in a shell."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="it's a $(job)", dir=memory if memory.is_dir() else None) as folder:
        yield [prepared(Path(folder, str(number))) for number in range(BATCH)]


def prepared(place: Path) -> Path:
    """A folder for the jobs of each launcher, and the probe that they execute."""
    for launcher in LAUNCHERS:
        (place / launcher).mkdir(parents=True)
    (place / "python3").write_text(PROBE)
    (place / "python3").chmod(0o755)
    return place


def request(place: Path, flags: dict) -> SbatchRequest:
    """smddp requires certain nodes."""
    launcher = flags["launcher"]
    fitting = {"partition": "p4d", "gpus_per_node": 8} if launcher == "smddp" else {}
    spec = load(LAYOUT, flags=flags | {"preflight": "off"} | fitting)
    return SbatchRequest.from_spec(spec, LAYOUT, str(place / launcher))


def run(place: Path, flags: dict) -> tuple[list[str], dict[str, str]]:
    """Arguments and environment of the program that the script executes, with the ranks' variables from env.sh."""
    folder, asked = place / flags["launcher"], request(place, flags)
    script = asked.materialize()
    assert script.count("\nexec /usr/bin/python3 -IS ") == 1
    (folder / "job.sbatch").write_text(script.replace("exec /usr/bin/python3", 'exec "$PYTHON"'), newline="")
    (folder / "env.sh").write_text(asked.files().get("env.sh", ""), newline="")
    told = {"PATH": os.environ["PATH"], "PYTHON": str(place / "python3"), "PROBED": str(place / "probed")}
    done = subprocess.run(["bash", folder / "job.sbatch"], env=told, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()
    count, *rest = (place / "probed").read_bytes().decode().split("\0")
    arguments, environment = rest[: int(count)], rest[int(count) : -1]
    own = dict(assignments(str(folder / "env.sh")))
    return arguments, dict(pair.split("=", 1) for pair in environment) | own  # type: ignore[misc]


def check(place: Path, flags: dict) -> None:
    arguments, environment = run(place, flags)
    command, env = list(flags["command"]), flags["env"]
    assert arguments[:3] == ["-IS", f"{place}/{flags['launcher']}/lib/gpucluster_job", "job"]
    line, behind = split(arguments[2:])
    assert behind == command
    if COMMAND in line:
        placed = [step for _, step in steps(line[line.index("roles") + 2 :], behind) if "import mxnet" not in step]
        assert placed and all(step[-len(command) :] == command for step in placed)
    assert {name: environment.get(name) for name in env} == env


def check_all(places: list[Path], batch: list[dict]) -> None:
    with ThreadPoolExecutor(BATCH) as pool:
        list(pool.map(check, places, batch))


def sample(count: int, strategy: st.SearchStrategy) -> list:
    found: list = []

    @settings(max_examples=count, derandomize=True, database=None, phases=[Phase.generate], deadline=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(strategy)
    def collect(value) -> None:
        found.append(value)

    collect()
    return found


def lint(folder: Path, asked: list[dict]) -> None:
    for number, flags in enumerate(asked):
        (folder / f"{number}.sbatch").write_text(request(folder, flags).materialize(), newline="")
    found = shutil.which("shellcheck", path=f"{ROOT}/.venv/bin:{os.environ['PATH']}")
    assert found, "shellcheck is among the development dependencies"
    # Warnings guess at what words were meant to be, and so does SC1097; scripts with plain words are read for all
    # of them by another test.
    options = ["--severity=error", "--exclude=SC1091,SC1097"]
    argv = [found, *options, *sorted(path.name for path in folder.iterdir())]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")

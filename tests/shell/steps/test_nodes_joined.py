"""PrologSlurmctld: it ends when the job's nodes have joined, and never fails."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from localcloud.testing.patience import wait_for

PROGRAM = Path(__file__).resolve().parents[3] / "bootstrap/programs/bin/nodes-joined"
# A line for each state, like the real one without --Node, which writes train-[1-2] where this writes train-1,train-2.
SINFO = """#!/bin/sh
echo x >>"{root}/asked"
[ ! -e "{root}/broken" ] || exit 1
for word in "$@"; do case $word in --nodes=*) nodes=,${{word#*=}}, ;; esac; done
while read -r node state; do
    case ${{nodes:-,$node,}} in *,$node,*) echo "$node $state" ;; esac
done <"{root}/states" | awk '
    {{ of[$2] = of[$2] separator[$2] $1; separator[$2] = "," }}
    END {{ for (state in of) print of[state], state }}'
"""
SCONTROL = """#!/bin/sh
echo x >>"{root}/expanded"
echo "$3" | tr , '\\n'
"""


class Head:
    def __init__(self, root: Path) -> None:
        self.root, self.running = root, list[subprocess.Popen[bytes]]()
        (root / "run").mkdir()
        (root / "bin").mkdir()
        for name, text in (("sinfo", SINFO.format(root=root)), ("scontrol", SCONTROL.format(root=root))):
            (root / "bin" / name).write_text(text)
            (root / "bin" / name).chmod(0o755)
        text = PROGRAM.read_text().replace("PATH=/usr/local/sbin", f"PATH={root}/bin:/usr/local/sbin")
        self.program = root / "nodes-joined"
        self.program.write_text(text.replace("/run/slurmctld", f"{root}/run"))

    def states(self, **states: str) -> None:
        new = self.root / "states.new"
        new.write_text("".join(f"{node.replace('_', '-')} {state}\n" for node, state in states.items()))
        new.rename(self.root / "states")

    def start(self, nodes: str) -> subprocess.Popen[bytes]:
        """In a process group of its own, as slurmctld starts it: its subshell does the work."""
        program = subprocess.Popen(["sh", str(self.program)], env={"SLURM_JOB_NODELIST": nodes}, start_new_session=True)
        self.running.append(program)
        return program

    @property
    def asked(self) -> int:
        return self._calls("asked")

    @property
    def expanded(self) -> int:
        return self._calls("expanded")

    def _calls(self, name: str) -> int:
        return len((self.root / name).read_text().split()) if (self.root / name).exists() else 0


@pytest.fixture
def head(tmp_path: Path) -> Iterator[Head]:
    made = Head(tmp_path)
    yield made
    for program in made.running:
        with suppress(ProcessLookupError):  # it has ended
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()


def ends(program: subprocess.Popen[bytes]) -> None:
    wait_for("its end", lambda: program.poll() is not None, 20)
    assert program.returncode == 0


@pytest.mark.parametrize("state", ["allocated", "mixed", "idle#", "down#", "allocated*"])
def test_it_ends_at_once_for_nodes_that_are_up_and_for_nodes_that_will_not_join(head: Head, state: str) -> None:
    """idle# or down#: the job was requeued, and waits until this program ends."""
    head.states(train_1="allocated", train_2=state, train_3="allocated#")
    ends(head.start("train-1,train-2"))
    assert head.asked == 1


def test_it_ends_when_the_last_node_has_joined(head: Head) -> None:
    head.states(train_1="allocated#", train_2="allocated~", train_11="mixed%")
    program = head.start("train-1,train-2")
    wait_for("the first look", lambda: head.asked > 2, 20)
    head.states(train_1="allocated", train_2="mixed#", train_11="mixed#")
    before = head.asked
    wait_for("another look", lambda: head.asked > before + 1, 20)
    assert program.poll() is None
    head.states(train_1="allocated", train_2="mixed", train_11="mixed#")
    ends(program)


def test_one_program_asks_slurm_for_all_nodes_and_the_next_takes_over(head: Head) -> None:
    nodes = [f"train-{number}" for number in range(1, 9)]
    head.states(**{node.replace("-", "_"): "allocated#" for node in nodes})
    programs = [head.start(node) for node in nodes]
    wait_for("all of them", lambda: head.asked > 12, 20)
    head.states(**{node.replace("-", "_"): "allocated" if node == "train-1" else "allocated#" for node in nodes})
    ends(programs[0])
    assert [program.poll() for program in programs[1:]] == [None] * 7
    head.states(**{node.replace("-", "_"): "allocated" for node in nodes})
    for program in programs[1:]:
        ends(program)


def test_lists_are_expanded_only_when_they_change(head: Head) -> None:
    head.states(train_1="allocated#", train_2="mixed#")
    program = head.start("train-1,train-2")
    wait_for("the first looks", lambda: head.asked > 5, 20)
    assert head.expanded == 3  # the job's own list, and one for each state
    head.states(train_1="allocated#", train_2="mixed")
    before = head.asked
    wait_for("further looks", lambda: head.asked > before + 3, 20)
    assert head.expanded == 4
    assert program.poll() is None


@pytest.mark.parametrize("lacks", ["slurmctld", "folder"])
def test_the_prolog_never_fails(head: Head, lacks: str) -> None:
    """slurmctld would requeue its job."""
    head.states(train_1="allocated#")
    if lacks == "folder":
        (head.root / "run").rmdir()
        ends(head.start("train-1"))
        return
    program = head.start("train-1")
    wait_for("the first look", lambda: head.asked > 2, 20)
    (head.root / "broken").touch()
    ends(program)


def test_the_program_is_what_slurm_calls() -> None:
    conf = (PROGRAM.parents[3] / "templates/slurm/slurm.conf.j2").read_text()
    assert "PrologSlurmctld=/opt/gpucluster/bin/nodes-joined\n" in conf
    assert os.access(PROGRAM, os.X_OK)

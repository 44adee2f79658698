"""`gpucluster cancel` of several jobs: all are known before the first is cancelled, and a script reads what was."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from gpucluster import account
from gpucluster.cli import cancel
from gpucluster.cli.frame.context import CliContext
from gpucluster.errors import RemoteError, UsageError
from tests.in_process import InProcessRemote

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Jobs 2, 46 and 47 run; scancel refuses 46. Its calls are in the file `cancelled`."""
    (tmp_path / "jobs").mkdir()
    monkeypatch.setattr(account, "jobs", lambda: str(tmp_path / "jobs"))
    monkeypatch.setattr(cancel, "head", lambda context: nullcontext(InProcessRemote()))
    rows = "".join(f"{number}|RUNNING|train|1|train-1|0:04|UNLIMITED|x|x|digits|None\\n" for number in (2, 46, 47))
    stubs = {
        "squeue": f"""printf '{rows}' | grep "^$(printf '%s\\n' "$@" | sed -n 's/^--jobs=//p')|" ||
            {{ echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1; }}""",
        "scancel": f'[ "$1" != 46 ] || {{ echo "scancel: error: no" >&2; exit 1; }}; echo "$1" >>{tmp_path}/cancelled',
    }
    for name, text in stubs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path / "cancelled"


def _cancel(*words: str) -> int:
    return cancel.command.main(list(words), standalone_mode=False, obj=CliContext())


def test_none_is_cancelled_if_one_is_unknown(queue: Path, capsys: Captured) -> None:
    with pytest.raises(UsageError, match="there is no job 99999"):
        _cancel("47", "2", "99999")
    assert not queue.exists()
    assert json.loads(capsys.readouterr().out) == {"cancelled": []}


def test_a_refused_one_does_not_keep_the_others(queue: Path, capsys: Captured) -> None:
    with pytest.raises(RemoteError, match="cannot cancel job 46: exit code 1: scancel: error: no"):
        _cancel("47", "46", "2", "47")
    assert queue.read_text() == "47\n2\n"
    assert json.loads(capsys.readouterr().out) == {"cancelled": ["47", "2"]}

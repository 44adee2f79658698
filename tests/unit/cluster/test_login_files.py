"""What the user's own files on the cluster, such as ~/.bashrc, print and set: commands work as without them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from ssh_head import running_head

from gpucluster.errors import RemoteError
from gpucluster.head.login import Address, LoginRemote
from gpucluster.head.remote import Remote, SshRemote
from gpucluster.layout import Site

# Input variables of Slurm's commands: "ENVIRONMENT VARIABLES" in their man pages. Those of sbatch override #SBATCH
# lines (man sbatch.1 of 23.11, INPUT ENVIRONMENT VARIABLES).
_SET = """
SBATCH_TIMELIMIT=3 SBATCH_NO_REQUEUE=1 SBATCH_PARTITION=debug SALLOC_QOS=x SRUN_EXPORT_ENV=NONE SLURM_EXPORT_ENV=NONE
SLURM_CLUSTERS=other SLURM_HINT=nomultithread SLURM_TIMELIMIT=3 SLURM_JOB_ID=5 SLURM_TIME_FORMAT=relative
SQUEUE_ACCOUNT=x SQUEUE_FORMAT=%i SINFO_FORMAT=%N SINFO_PARTITION=x SACCT_FORMAT=JobID SCANCEL_STATE=PENDING
SCANCEL_INTERACTIVE=1 SPRIO_FORMAT=x SSHARE_FORMAT=x SSTAT_FORMAT=x SCONTROL_ALL=1 SBCAST_FORCE=1
"""
# How a client of Slurm finds the controller, and what it shows to it (man slurm.1; auth/slurm: sack_api.c).
_KEPT = "SLURM_CONF=/opt/slurm.conf SLURM_CONF_SERVER=ctl:6817 SLURM_JWT=token SLURM_SACK_SOCKET=/run/x MINE=1"
SET, KEPT = _SET.split(), _KEPT.split()


@pytest.fixture
def greeting() -> str:
    """A ~/.bashrc."""
    variables = "\n".join(f"export {each}" for each in [*SET, *KEPT])
    return f'{variables}\nexport LONG="two\nSBATCH_lines=1"\necho "Welcome to the cluster!!"; echo "a warning" >&2\n'


@pytest.fixture(params=["own cluster", "context"])
def remote(
    request: pytest.FixtureRequest, greeting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Remote]:
    if request.param == "own cluster":
        with running_head() as head:
            head.greeting = greeting
            with closing(SshRemote(head)) as ours:
                yield ours
        return
    (tmp_path / "bin").mkdir()
    ssh = tmp_path / "bin" / "ssh"
    ssh.write_text(f'#!/bin/bash\n{greeting}\neval "${{@: -1}}"\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    with closing(LoginRemote("lab", Address.parse("ssh://login"), Site(str(tmp_path), False))) as theirs:
        yield theirs


def test_only_the_commands_own_output_is_read(remote: Remote, tmp_path: Path) -> None:
    done = remote.run(["sh", "-c", "cat; echo error >&2; exit 7"], input=b"12;cluster\n")
    assert (done.exit_code, done.stdout, done.stderr) == (7, "12;cluster\n", "error\n")
    with pytest.raises(RemoteError, match="it failed: exit code 1: no output"):
        remote.run(["false"]).check("it failed")
    remote.put(b"gpucluster:begin\nlog\n", str(tmp_path / "log.txt"))
    assert remote.get(str(tmp_path / "log.txt")) == b"gpucluster:begin\nlog\n"
    found = remote.follow(str(tmp_path / "log.txt"), stop=lambda: True)
    assert list(found) == ["gpucluster:begin", "log"]


def test_the_accounts_variables_of_slurm_do_not_count(remote: Remote) -> None:
    lines = remote.run(["env"]).stdout.splitlines()
    assert not {each for each in SET if each in lines and each != "SLURM_TIME_FORMAT=standard"}
    assert not [
        line for line in lines if line.startswith("SLURM_TIME_FORMAT=") and line != "SLURM_TIME_FORMAT=standard"
    ]
    assert set(KEPT) <= set(lines)


@pytest.mark.parametrize("greeting", ["echo bye; echo why >&2; exit 3\n"])
def test_a_file_that_ends_the_shell_is_named(remote: Remote, greeting: str) -> None:
    with pytest.raises(RemoteError, match="did not run a command: why"):
        remote.run(["true"])

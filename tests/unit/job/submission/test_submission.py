"""A job's folder and its way through `sh`, `tar` and sbatch, on this machine with a stand-in for sbatch."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from gpucluster import account
from gpucluster.config import loads
from gpucluster.errors import GpuClusterError, JobFailedError, RemoteError, UsageError
from gpucluster.following import jobs, logs
from gpucluster.head.login import LoginRemote
from gpucluster.head.remote import Completed
from gpucluster.job import SbatchRequest, load
from gpucluster.layout import expand
from gpucluster.submission import packages as own_packages
from gpucluster.submission import snapshot
from gpucluster.submission import submit as submission
from localcloud.testing.patience import wait_for
from tests.in_process import InProcessRemote
from tests.wheels import environment, wheel

LAYOUT = expand(
    loads("name: Test\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n")
)


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """The head node's part: an sbatch that gives id 42, a squeue that has forgotten, and a folder of jobs."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    command(bin_folder / "sbatch", 'echo "$@" >"$0.called"; echo 42')
    command(bin_folder / "squeue", 'echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1')
    monkeypatch.setenv("PATH", f"{bin_folder}:{os.environ['PATH']}")
    monkeypatch.setattr(account, "home", lambda: str(tmp_path))
    monkeypatch.setattr(submission, "ENVIRONMENTS", str(tmp_path / "envs"))
    monkeypatch.setattr(jobs, "ENVIRONMENTS", str(tmp_path / "envs"))
    for name in ("torch", "horovod"):
        (tmp_path / "envs" / ".wanted" / name).mkdir(parents=True)
        (tmp_path / "envs" / ".wanted" / name / "complete").touch()
    return tmp_path


def command(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def workdir(tmp_path):
    folder = tmp_path / "work"
    (folder / "sub").mkdir(parents=True)
    (folder / "train.py").write_text("print()\n")
    (folder / "sub" / "it's").write_text("x")
    (folder / "run.sh").write_text("")
    (folder / "run.sh").chmod(0o755)
    return folder


def request(cluster: Path, **flags) -> SbatchRequest:
    spec = load(LAYOUT, flags={"command": ("python", "train.py"), "name": "digits"} | flags)
    return SbatchRequest.from_spec(spec, LAYOUT, str(cluster / "jobs" / "digits-1"))


def submit(cluster, workdir, secret=None, **flags) -> Path:
    asked = request(cluster, secrets=tuple(secret or {}), **flags)
    job_id = submission.submit(InProcessRemote(), asked, submission.pack(asked, secret or {}, workdir))
    assert job_id == submission.Submitted("42", ())
    return Path(asked.folder)


def test_the_head_node_compiles_the_jobs_runtime_before_it_answers(cluster, workdir):
    """What is compiled later would come back in a folder that its user has removed."""
    command(cluster / "bin" / "nice", 'sleep 1; exec "$@"')
    folder = submit(cluster, workdir)
    assert list((folder / "lib/gpucluster_job/__pycache__").glob("job.*.pyc"))


def test_a_refused_job_leaves_nothing_that_is_compiled_later(cluster, workdir):
    """py_compile makes the folders that it misses."""
    command(cluster / "bin" / "nice", 'for last; do :; done; sleep 1; mkdir -p "$last/__pycache__"')
    command(cluster / "bin" / "sbatch", "exit 1")
    with pytest.raises(GpuClusterError):
        submit(cluster, workdir)
    time.sleep(2)
    assert os.listdir(cluster / "jobs") == ["by-id"]


def test_the_job_folder_has_every_file(cluster, workdir):
    folder = submit(cluster, workdir, {"TOKEN": "s3cret"}, launcher="horovodrun", env={"A": "b"})
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    files = {path for path in files if "__pycache__" not in path}
    own = {
        "builds",
        "code/run.sh",
        "code/sub/it's",
        "code/train.py",
        "env.json",
        "env.sh",
        "job.yaml",
        "log.txt",
        "secrets.sh",
        "submitted",
    }
    assert files == own | set(request(cluster, launcher="horovodrun").files())
    assert (folder / "job.sbatch").read_text() == request(cluster, launcher="horovodrun", env={"A": "b"}).materialize()
    assert json.loads((folder / "env.json").read_text()) == {"A": "b", "TOKEN": "***"}
    assert (folder / "log.txt").read_text() == ""
    assert [name for name in files if "s3cret" in (folder / name).read_text()] == ["secrets.sh"]
    modes = {"secrets.sh": 0o600, "bin/ssh": 0o755, "code/run.sh": 0o755, "log.txt": 0o644}
    assert {name: (folder / name).stat().st_mode & 0o777 for name in modes} == modes
    assert (cluster / "jobs" / "by-id" / "42").resolve() == folder
    assert (cluster / "bin" / "sbatch.called").read_text() == f"--parsable {folder}/job.sbatch\n"


def test_the_spec_in_the_folder_is_the_job_again(cluster, workdir):
    folder = submit(cluster, workdir, nodes=2, env={"A": "it's"}, time="90m")
    again = load(LAYOUT, folder / "job.yaml")
    assert again == request(cluster, nodes=2, env={"A": "it's"}, time="90m").spec


def test_a_full_file_system_is_named_with_what_fills_it_and_nothing_stays(cluster, workdir):
    old = cluster / "jobs" / "old-1"
    old.mkdir(parents=True)
    (old / "model.pt").write_bytes(bytes(300_000))
    said = "tar: digits-1/code/train.py: Cannot write: No space left on device"
    more = "tar: Exiting with failure status due to previous errors"
    command(cluster / "bin" / "tar", f"cat >/dev/null; mkdir digits-1; echo '{said}\n{more}' >&2; exit 2")
    asked = request(cluster)
    with pytest.raises(RemoteError, match=r"^/\S* on the cluster is full: \S+ of \S+ free; the job was not") as full:
        submission.submit(InProcessRemote(), asked, submission.pack(asked, {}, workdir))
    assert "the largest folders of jobs are " in str(full.value.hint)
    assert re.search(r"/jobs/old-1/ \(\d+K\)", str(full.value.hint))
    assert sorted(path.name for path in (cluster / "jobs").iterdir()) == ["by-id", "old-1"]


def test_a_file_system_without_inodes_is_named_as_that(cluster, workdir):
    """df's columns as coreutils 9.1 prints them; for a file system without inodes, such as BeeGFS, they are 0 and 0."""
    for name in ("old-1/a", "old-1/b", "old-2"):
        (cluster / "jobs" / name).mkdir(parents=True)
    said = "tar: digits-1/code/train.py: Cannot open: No space left on device"
    command(cluster / "bin" / "tar", f"cat >/dev/null; echo '{said}' >&2; exit 2")
    asked = request(cluster)
    for inodes, left in (
        (" 3.2M     0", "0 of 3.2M inodes free, one for each file and folder"),
        ("0 0", "20G of 50G free"),
    ):
        command(
            cluster / "bin" / "df", f"echo ' Size Avail Inodes IFree Mounted on'; echo '  50G   20G {inodes} /home'"
        )
        with pytest.raises(RemoteError, match=f"^/home on the cluster is full: {left}; the job was not") as full:
            submission.submit(InProcessRemote(), asked, submission.pack(asked, {}, workdir))
        assert (re.search(r"/jobs/old-1/ \(3 files and folders\), ", str(full.value.hint)) is None) is (inodes == "0 0")


class ForeignRemote(InProcessRemote, LoginRemote):
    def __init__(self) -> None:
        """Runs the commands here: it has no address."""


@pytest.mark.parametrize("remote", [InProcessRemote(), ForeignRemote()])
@pytest.mark.parametrize("reason", ["Disk quota exceeded", "No space left on device"])
def test_no_room_in_any_language(cluster, workdir, monkeypatch, remote, reason):
    """The two texts of glibc's strerror for EDQUOT and ENOSPC, and what GNU tar prints around them."""
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    command(
        cluster / "bin" / "tar",
        f"""[ "$LC_ALL" = C ] && why='{reason}' || why='Der zugewiesene Plattenplatz ist überschritten'
            echo "tar: digits-1/code: Cannot mkdir: $why" >&2
            echo "tar: Exiting with failure status due to previous errors" >&2; exit 2""",
    )
    command(cluster / "bin" / "df", "echo x; echo '50G 0 3M 2M /home'")
    asked = request(cluster)
    said = "/home on the cluster is full" if "space" in reason else "your disk quota on /home is used up"
    with pytest.raises(RemoteError, match=said) as full:
        submission.submit(remote, asked, submission.pack(asked, {}, workdir))
    assert ("volume_gib" in str(full.value.hint)) == (type(remote) is InProcessRemote and "space" in reason)
    assert "delete" in str(full.value.hint)


def test_the_job_keeps_the_accounts_language(cluster, workdir, monkeypatch):
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    command(cluster / "bin" / "sbatch", 'echo "$LC_ALL" >"$0.called"; echo 42')
    submit(cluster, workdir)
    assert (cluster / "bin" / "sbatch.called").read_text() == "de_DE.UTF-8\n"


def test_the_reason_is_shown_and_not_tars_last_words():
    said = "tar: digits-1: Cannot open: Permission denied\ntar: Exiting with failure status due to previous errors\n"
    with pytest.raises(RemoteError, match="not accepted: exit code 2: tar: digits-1: Cannot open: Permission denied$"):
        Completed(2, "", said).check("the job was not accepted")


def test_a_job_that_slurm_refuses_leaves_nothing(cluster, workdir):
    command(cluster / "bin" / "sbatch", "echo 'sbatch: error: invalid partition specified: train' >&2; exit 1")
    with pytest.raises(UsageError, match="Slurm rejected the job: invalid partition specified: train"):
        submit(cluster, workdir)
    assert [path.name for path in (cluster / "jobs").iterdir()] == ["by-id"]


def without_environment(cluster: Path, says: str) -> SbatchRequest:
    (cluster / "envs" / ".wanted" / "torch" / "complete").unlink()
    command(cluster / "bin" / "sudo", f'printf "%s\\n" "$*" >"$0.called"; {says}')
    return request(cluster)


def test_a_job_waits_for_the_environment_that_is_being_made(cluster, workdir):
    asked = without_environment(cluster, "echo torch 7 started")
    done = submission.submit(InProcessRemote(), asked, submission.pack(asked, {}, workdir))
    assert (done.job_id, [build.job_id for build in done.builds]) == ("42", ["7"])
    assert done.builds[0].description == "the environment torch is missing: job 7 builds it, once for this cluster"
    called = (cluster / "bin" / "sudo.called").read_text()
    assert called == "-n /opt/gpucluster/bin/node-program jobs.environments ensure torch\n"
    options = (cluster / "bin" / "sbatch.called").read_text().split()
    assert options[:3] == ["--parsable", "--dependency=afterok:7", "--kill-on-invalid-dep=yes"]


def test_an_environment_of_ones_own_that_the_cluster_lacks_is_refused(cluster, workdir):
    with pytest.raises(UsageError, match="python: the cluster has no program /home/nobody/venv/bin/python"):
        submit(cluster, workdir, python="/home/nobody/venv")
    assert not (cluster / "jobs" / "digits-1").exists()


def with_packages(cluster: Path, workdir: Path, monkeypatch, **flags):
    monkeypatch.setattr(own_packages, "ENVIRONMENTS", str(cluster / "envs"))
    environment(cluster / "base", torch="2.13.0+cpu")
    shutil.rmtree(cluster / "envs")
    (cluster / "base").rename(cluster / "envs")
    asked = request(cluster, **flags)
    own = own_packages.of(asked.spec, asked.environment, workdir, workdir)
    return submission.submit(InProcessRemote(), asked, submission.pack(asked, {}, workdir, own))


def test_packages_of_its_own_are_installed_while_the_job_waits(cluster, workdir, monkeypatch):
    wheel(workdir, "greeting", "1.5", "torch")
    done = with_packages(cluster, workdir, monkeypatch, requirements="./greeting-1.5-py3-none-any.whl")
    assert done == submission.Submitted("42", (), "missing")
    (state,) = (cluster / "jobs" / ".packages" / "torch-0123").glob("*.state")
    wait_for("the packages", lambda: state.read_text() == "ready", 60, 0.05)
    assert list(state.with_suffix("").glob("lib/*/site-packages/greeting.py"))


def test_packages_that_do_not_fit_leave_nothing(cluster, workdir, monkeypatch):
    wheel(workdir, "older", "1.0", "torch==2.3.0")
    for name, value in {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}.items():
        monkeypatch.setenv(name, value)  # this machine's pip may find another torch
    with pytest.raises(UsageError, match=r"torch==2.3.0; the environment torch has torch 2.13.0\+cpu"):
        with_packages(cluster, workdir, monkeypatch, requirements="./older-1.0-py3-none-any.whl")
    assert not (cluster / "jobs" / "digits-1").exists()
    assert not (cluster / "bin" / "sbatch.called").exists()


def test_a_dependency_of_its_own_stays_beside_that_on_the_environment(cluster, workdir):
    without_environment(cluster, "echo torch 7 started")
    asked = request(cluster, dependency="afterok:3")
    submission.submit(InProcessRemote(), asked, submission.pack(asked, {}, workdir))
    options = (cluster / "bin" / "sbatch.called").read_text().split()
    assert options[1] == "--dependency=afterok:7,afterok:3"


def test_an_environment_that_is_ready_meanwhile_is_not_waited_for(cluster, workdir):
    asked = without_environment(cluster, "echo torch ready")
    done = submission.submit(InProcessRemote(), asked, submission.pack(asked, {}, workdir))
    assert done == submission.Submitted("42", ())
    assert (cluster / "bin" / "sbatch.called").read_text() == f"--parsable {asked.folder}/job.sbatch\n"


def test_a_job_whose_environment_cannot_be_made_leaves_nothing(cluster, workdir):
    asked = without_environment(cluster, "echo 'error: no environment torch' >&2; exit 1")
    with pytest.raises(GpuClusterError, match="no environment torch"):
        submission.submit(InProcessRemote(), asked, submission.pack(asked, {}, workdir))
    assert not Path(asked.folder).exists()


def test_a_job_whose_environment_was_not_made_says_why(cluster, workdir):
    asked = without_environment(cluster, "echo torch 7 started")
    submission.submit(InProcessRemote(), asked, submission.pack(asked, {}, workdir))
    with pytest.raises(JobFailedError, match="the environment torch was not built: job 7, which builds it, failed"):
        jobs.ending(InProcessRemote(), "42").check("42")
    (cluster / "envs" / ".wanted" / "torch").rmdir()
    (cluster / "envs" / ".wanted" / "torch").symlink_to("../torch-0123")
    (cluster / "envs" / ".log").mkdir()
    said = "pip: no such thing\nerror: the environment torch could not be built on train-1: no such thing\n"
    (cluster / "envs" / ".log" / "torch-0123.txt").write_text(said)
    with pytest.raises(JobFailedError, match="job 42 .*: the environment torch could not be built on train-1: no such"):
        jobs.ending(InProcessRemote(), "42").check("42")


def test_a_secret_that_is_not_set(cluster):
    spec = request(cluster, secrets=("WANDB_API_KEY",)).spec
    with pytest.raises(UsageError, match="WANDB_API_KEY is not set"):
        submission.secret_values(spec, {})
    assert submission.secret_values(spec, {"WANDB_API_KEY": "x", "HOME": "/"}) == {"WANDB_API_KEY": "x"}


def test_git_decides_what_travels(workdir):
    def git(*words):
        subprocess.run(["git", "-C", str(workdir), *words], check=True, capture_output=True)

    git("init")
    (workdir / ".gitignore").write_text("data/\n")
    (workdir / "data").mkdir()
    (workdir / "data" / "big").write_text("x")
    git("add", "train.py", "run.sh")
    (workdir / "run.sh").unlink()
    assert [str(path) for path in snapshot.code_files(workdir)] == [".gitignore", "sub/it's", "train.py"]


def test_without_git_all_files_travel(workdir):
    (workdir / "__pycache__").mkdir()
    (workdir / "__pycache__" / "x.pyc").touch()
    assert [str(path) for path in snapshot.code_files(workdir)] == ["run.sh", "sub/it's", "train.py"]


def test_a_workdir_that_is_too_large_names_the_culprit(workdir, monkeypatch):
    monkeypatch.setattr(snapshot, "MAX_BYTES", 2**20)
    (workdir / "model.bin").write_bytes(b"\0" * 2 * 2**20)
    with pytest.raises(
        UsageError, match=r"has 2 MiB in 4 files, at most 1 MiB are allowed; largest: model.bin \(2 MiB\)"
    ):
        snapshot.code_files(workdir)


def write_result(cluster, **fields) -> None:
    (cluster / "jobs" / "digits-1" / "result.json").write_text(json.dumps({"exit_code": 0} | fields, indent=2))


def test_a_job_that_slurm_has_forgotten_is_known_by_its_result(cluster, workdir):
    submit(cluster, workdir)
    remote = InProcessRemote()
    write_result(cluster)
    assert jobs.find(remote, "42") is None
    assert not jobs.ending(remote, "42").failed
    write_result(cluster, exit_code=3, failed_rank=1, failed_node="train-2", reason="boom")
    with pytest.raises(JobFailedError, match="job 42 failed: rank 1 on train-2 exited with code 3: boom"):
        jobs.ending(remote, "42").check("42")
    assert [(past.job_id, past.folder) for past in jobs.past(remote)] == [("42", str(cluster / "jobs" / "digits-1"))]
    assert jobs.latest(remote) == "42"


@pytest.mark.parametrize(
    ("started", "sentence"),
    [
        (True, "job 42 lost a node: Slurm no longer knows it and it has no result: its first node was probably lost"),
        (False, "job 42 failed: Slurm no longer knows it, and it never started: it was cancelled, or slurmctld was"),
    ],
)
def test_a_job_that_slurm_has_lost_says_whether_it_had_started(cluster, workdir, started, sentence):
    submit(cluster, workdir)
    if started:
        (cluster / "jobs" / "digits-1" / "started").touch()  # by gpucluster_job
    with pytest.raises(JobFailedError, match=sentence):
        jobs.ending(InProcessRemote(), "42").check("42")


@pytest.mark.parametrize(
    ("state", "sentence"),
    [("COMPLETED", f"job 42 completed: {jobs.NO_RESULT}"), ("CANCELLED", "job 42 was cancelled")],
)
def test_a_job_that_completed_and_left_no_result_says_so(cluster, workdir, state, sentence):
    submit(cluster, workdir)
    (cluster / "jobs" / "digits-1" / "result.json").touch()
    command(cluster / "bin" / "squeue", f"echo '42|{state}|train|1|train-1|0:00|1:00|x|N/A|digits|None'")
    assert jobs.ending(InProcessRemote(), "42").sentence("42") == sentence


def test_an_unknown_job_is_reported(cluster):
    with pytest.raises(UsageError, match="there is no job 7"):
        jobs.require(InProcessRemote(), "7")
    with pytest.raises(UsageError, match="there are no jobs yet"):
        jobs.latest(InProcessRemote())


def test_following_shows_the_pending_reason_and_ends_with_the_job(cluster, workdir, monkeypatch):
    submit(cluster, workdir)
    monkeypatch.setattr(jobs, "POLL_S", 0.0)
    line = "42|%s|train|1|%s|0:00|1:00|x|N/A|digits|%s"
    pending, running = line % ("PENDING", "", "Resources"), line % ("RUNNING", "train-1", "None")
    states = [pending, pending, running]
    script = "n=$(cat $0.n 2>/dev/null || echo 0); echo $((n + 1)) >$0.n; case $n in "
    script += " ".join(f"{number}) echo '{state}';;" for number, state in enumerate(states))
    command(cluster / "bin" / "squeue", script + f" *) echo '{line % ('COMPLETED', 'train-1', 'None')}';; esac")
    (cluster / "jobs" / "digits-1" / "log.txt").write_text("[0 train-1] one\n[0 train-1] two\n")
    command(cluster / "bin" / "sinfo", "echo 'train-2|train|down#|x|step=mpi line=5: no mpirun; next try in 300 s'")
    messages = []
    assert list(logs.follow(InProcessRemote(), "42", messages.append)) == ["[0 train-1] one", "[0 train-1] two"]
    assert messages == [
        "job 42 is pending: it is next in the queue; its nodes are busy or starting; "
        "train-2: step=mpi line=5: no mpirun; next try in 300 s",
        "job 42 runs on train-1",
    ]

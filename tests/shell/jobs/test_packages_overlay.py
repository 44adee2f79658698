"""A job's packages on top of an environment: the real pip, with wheels made by the test and no index."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from stubbed_jobs import finished, prepare

from tests.wheels import environment, wheel

OVERLAY = Path(__file__).resolve().parents[3] / "gpucluster_job" / "packages" / "overlay.py"
SHOW = "import greeting, torch, purely; print(greeting.version, torch.version, purely.version)"


class Jobs:
    """A folder of jobs on a cluster with one environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "jobs"
        self.base = environment(folder / "envs", torch="2.13.0+cpu", numpy="2.4.6", purely="1.0")
        self.wheels = folder / "wheels"
        self.env = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels), "HOME": str(folder)}

    def ask(self, name: str, *requirements: str, setup: str = "", key: str = "0123") -> Path:
        packages = self.folder / name / "packages"
        packages.mkdir(parents=True)
        (self.folder / name / "code").mkdir()
        asked = {"environment": str(self.base.parent / "torch"), "key": key}
        (packages / "asked.json").write_text(json.dumps(asked))
        (packages / "requirements.txt").write_text("".join(f"{each}\n" for each in requirements))
        if setup:
            from gpucluster.submission.packages import SETUP

            (packages / "setup.sh").write_text(SETUP + setup)
        return self.folder / name

    def overlay(self, verb: str, folder: Path) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-IS", str(OVERLAY), verb, str(folder)]
        return subprocess.run(argv, env=self.env, capture_output=True, text=True, timeout=60, check=False)

    def squeue(self, does: str) -> None:
        program = self.folder.parent / "bin" / "squeue"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{does}\n")
        program.chmod(0o755)
        self.env["PATH"] = f"{program.parent}:{os.environ['PATH']}"

    def place(self, key: str = "0123") -> Path:
        return self.folder / ".packages" / "torch-0123" / key


@pytest.fixture
def jobs(tmp_path: Path) -> Jobs:
    return Jobs(tmp_path)


def test_the_overlay_is_made_once_and_includes_the_environments_packages(jobs: Jobs) -> None:
    wheel(jobs.wheels, "greeting", "1.5", "torch>=2")
    first = jobs.ask("first", "greeting")
    assert jobs.overlay("check", first).stdout == "missing\n"
    assert not jobs.place().exists()
    built = jobs.overlay("build", first)
    assert built.returncode == 0 and "Successfully installed greeting-1.5" in built.stdout, built.stdout + built.stderr
    shown = subprocess.run([jobs.place() / "bin" / "python", "-c", SHOW], capture_output=True, text=True, check=True)
    assert shown.stdout == "1.5 2.13.0+cpu 1.0\n"
    second = jobs.ask("second", "greeting")
    assert jobs.overlay("check", second).stdout == "ready\n"
    again = jobs.overlay("build", second)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("older", "older 1.0 depends on torch==2.3.0; the environment torch has torch 2.13.0+cpu"),
        ("numpy<2", "the job asks for numpy<2; the environment torch has numpy 2.4.6"),
        ("nowhere", "No matching distribution found for nowhere"),
    ],
)
def test_packages_that_do_not_fit_are_refused_before_the_job_is_queued(jobs: Jobs, asked: str, said: str) -> None:
    wheel(jobs.wheels, "older", "1.0", "torch==2.3.0")
    wheel(jobs.wheels, "torch", "2.3.0")
    wheel(jobs.wheels, "numpy", "1.26.4")
    done = jobs.overlay("check", jobs.ask("job", asked))
    assert done.returncode == 3, done.stdout
    assert said in done.stderr


def test_a_pure_python_package_may_replace_the_environments(jobs: Jobs) -> None:
    wheel(jobs.wheels, "greeting", "1.5", "purely<1")
    wheel(jobs.wheels, "purely", "0.9")
    built = jobs.overlay("build", jobs.ask("job", "greeting"))
    assert "purely 0.9 is used instead of the environment's 1.0" in built.stdout
    shown = subprocess.run([jobs.place() / "bin" / "python", "-c", SHOW], capture_output=True, text=True, check=True)
    assert shown.stdout == "1.5 2.13.0+cpu 0.9\n"


def test_setup_runs_once_in_a_copy_of_the_code(jobs: Jobs) -> None:
    wheel(jobs.wheels, "greeting", "1.5")
    job = jobs.ask("job", setup="pip install greeting\npython -c 'import greeting, torch' && echo made >fruit\n")
    assert jobs.overlay("build", job).returncode == 0
    assert (jobs.place() / "code" / "fruit").read_text() == "made\n"
    assert not (job / "code" / "fruit").exists()


@pytest.mark.parametrize(
    ("setup", "said"),
    [
        ("echo before\nls nowhere\necho after\n", "setup: ls nowhere: exit code 2"),
        (
            "pip install torch==2.3.0\n",
            "these packages do not fit together: the job asks for torch==2.3.0; the environment",
        ),
        (
            "env --unset=PIP_CONSTRAINT pip install torch==2.3.0\n",
            "setup installed torch 2.3.0 and the environment torch",
        ),
    ],
)
def test_a_setup_that_fails_says_so_and_leaves_nothing(jobs: Jobs, setup: str, said: str) -> None:
    wheel(jobs.wheels, "torch", "2.3.0")
    job = jobs.ask("job", setup=setup)
    built = jobs.overlay("build", job)
    assert built.returncode == 1
    assert built.stdout.splitlines()[-1].startswith(f"error: {said}"), built.stdout
    assert not jobs.place().exists()
    built_again = jobs.overlay("build", job)  # like the job on its nodes, which waited for this
    assert built_again.returncode == 1 and built_again.stdout.splitlines()[-1] == built.stdout.splitlines()[-1]
    assert jobs.overlay("check", job).stdout == "missing\n"  # a new submission tries again


def test_a_framework_under_another_name_is_refused(jobs: Jobs) -> None:
    site = next(jobs.base.glob("lib/*/site-packages")).relative_to(jobs.base)
    (jobs.base / site / "mxnet").mkdir()
    built = jobs.overlay("build", jobs.ask("job", setup=f"mkdir $VIRTUAL_ENV/{site}/mxnet\n"))
    assert built.returncode == 1
    assert "error: a second mxnet was installed, and the environment torch has one, which must stay" in built.stdout


def test_one_job_makes_the_overlay_and_others_wait(jobs: Jobs) -> None:
    job = jobs.ask("job", setup="until [ -e ../../../../go ]; do sleep 0.05; done; sleep 0.2\n")
    argv = [sys.executable, "-IS", str(OVERLAY), "build", str(job)]
    with subprocess.Popen(argv, env=jobs.env, stdout=subprocess.PIPE, text=True) as making:
        from stubbed_jobs import wait_for

        wait_for((jobs.place() / "code").exists)
        assert jobs.overlay("check", jobs.ask("other")).stdout == "waiting\n"
        (jobs.folder / "go").touch()
        assert jobs.overlay("build", job).returncode == 0
        assert making.wait(30) == 0
    assert jobs.overlay("check", job).stdout == "ready\n"


def test_a_job_waits_for_its_environment(jobs: Jobs) -> None:
    (jobs.base / "complete").unlink()
    job = jobs.ask("job", setup="true\n")
    assert jobs.overlay("check", job).stdout == "later\n"
    jobs.squeue(f"echo '7 {job}/code'; touch {jobs.base}/complete")
    assert jobs.overlay("build", job).returncode == 0
    assert jobs.overlay("check", job).stdout == "ready\n"
    (jobs.base / "complete").unlink()
    jobs.squeue("true")
    assert jobs.overlay("build", job).returncode == 1


def test_a_job_keeps_its_environment_when_the_cluster_wants_another_since(jobs: Jobs) -> None:
    job = jobs.ask("job", setup="true\n")
    assert jobs.overlay("build", job).returncode == 0
    wanted = jobs.base.parent / ".wanted" / "torch"
    wanted.unlink()
    wanted.symlink_to(jobs.base.parent / "torch-4567")  # of a newer lock, and not built
    jobs.squeue(f"echo '7 {job}/code'")
    jobs.env["SLURM_JOB_ID"] = "7"
    assert jobs.overlay("build", job).returncode == 0


def test_unused_overlays_are_pruned(jobs: Jobs) -> None:
    used = jobs.ask("used", setup="true\n", key="0123")
    unused = jobs.ask("unused", setup="true\n", key="4567")
    failed = jobs.ask("failed", "greeting", key="89ab")
    assert [jobs.overlay("build", each).returncode for each in (used, unused, failed)] == [0, 0, 1]
    jobs.squeue(f"echo '7 {used}/code'; echo '8 /somewhere/else'")
    listed = json.loads(jobs.overlay("list", jobs.folder).stdout)
    keys = ("state", "requirements", "jobs", "error")
    assert [(Path(each["folder"]).name, *(each[key] for key in keys)) for each in listed] == [
        ("0123", "ready", [], ["7"], ""),
        ("4567", "ready", [], [], ""),
        ("89ab", "failed", ["greeting"], [], "No matching distribution found for greeting"),
    ]
    gone = json.loads(jobs.overlay("prune", jobs.folder).stdout)
    assert gone == [str(jobs.place("4567")), str(jobs.place("89ab"))]
    assert jobs.place("0123").exists() and not jobs.place("4567").exists()
    assert [each["jobs"] for each in json.loads(jobs.overlay("list", jobs.folder).stdout)] == [["7"]]


def test_a_failed_overlay_is_listed_with_its_requirements(jobs: Jobs) -> None:
    jobs.squeue("true")
    assert jobs.overlay("build", jobs.ask("job", "nowhere>=2")).returncode == 1
    (listed,) = json.loads(jobs.overlay("list", jobs.folder).stdout)
    assert (listed["state"], listed["requirements"]) == ("failed", ["nowhere>=2"])
    jobs.overlay("prune", jobs.folder)
    assert [path.suffix for path in jobs.place().parent.iterdir()] == [".state"]


def run_job(tmp_path: Path, jobs: Jobs, setup: str) -> tuple[int, dict, str, Path]:
    """Runs a job on two nodes with two ranks each."""
    job = prepare(tmp_path, {}, {"launcher": "srun", "command": ("python", "-c", SHOW)})
    asked = jobs.ask("asked", "greeting", setup=setup)
    (asked / "packages").rename(tmp_path / "job" / "packages")
    process = subprocess.run(**{**job, "env": job["env"] | {"PIP_FIND_LINKS": str(jobs.wheels), "PIP_NO_INDEX": "1"}},
                             timeout=60, check=False)  # fmt: skip
    return finished(process.returncode, tmp_path / "job")


def test_a_jobs_ranks_have_its_packages(tmp_path: Path, jobs: Jobs) -> None:
    wheel(jobs.wheels, "greeting", "1.5")
    code, _, log, _ = run_job(tmp_path, jobs, "")
    assert code == 0, log
    assert log.count("] 1.5 2.13.0+cpu 1.0\n") == 4


def test_a_job_whose_packages_fail_says_so(tmp_path: Path, jobs: Jobs) -> None:
    wheel(jobs.wheels, "greeting", "1.5")
    code, result, log, _ = run_job(tmp_path, jobs, "echo half-way\nfalse\n")
    assert code == 1
    assert result["reason"] == "the job's own packages could not be installed: setup: false: exit code 1"
    assert "[packages] half-way\n" in log


def own_environment(folder: Path) -> Path:
    program = folder / "venv" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\necho "mine: $*"\n')
    return program


def test_a_broken_environment_of_the_user_is_refused(run_job, tmp_path: Path) -> None:
    program = own_environment(tmp_path)
    code, result, _, _ = run_job(launcher="srun", command=("python", "train.py"), python=str(tmp_path / "venv"))
    assert (code, result["reason"]) == (1, f"there is no program {program} on train-1")


def test_ranks_run_in_the_users_environment(run_job, tmp_path: Path) -> None:
    program = own_environment(tmp_path)
    program.chmod(0o755)
    code, _, log, _ = run_job(launcher="srun", command=("python", "train.py"), python=str(tmp_path / "venv"))
    assert code == 0, log
    assert log.count("] mine: train.py\n") == 4


def test_a_variable_that_is_not_set_where_pip_runs_is_named(jobs: Jobs) -> None:
    """pip leaves `${NAME}` as it is if the variable is not set (pip/_internal/req/req_file.py)."""
    wheel(jobs.wheels, "greeting", "1.5")
    lines = ("--extra-index-url https://me:${PIP_TOKEN}@example.com/simple", "greeting")
    done = jobs.overlay("check", jobs.ask("first", *lines))
    assert done.returncode == 3
    assert "requirements: ${PIP_TOKEN} is not set on " in done.stderr and "pip.conf" in done.stderr
    jobs.env["PIP_TOKEN"] = "secret"
    assert jobs.overlay("check", jobs.ask("second", *lines)).stdout == "missing\n"

"""What README shows of jobs is what a booted cluster prints; the first pages' commands for jobs do what they say."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

from bed import ROOT, Bed, interrupt

from localcloud.testing.ports import two_free_ports

README = (ROOT / "README.md").read_text()
ON_TWO_NODES = ("--nodes", "2", "--gpus-per-node", "1", "--follow")
FAILS = 'import os\nif os.environ["RANK"] == "1":\n    raise RuntimeError("bad gradient")\n'
EARLIER = re.compile("the environment torch is missing|is starting on")
"""Lines of a cluster's first job, which needs its environment and its nodes."""


def shown(first_line: str) -> list[str]:
    """The block of README that begins so."""
    block = README.partition(f"```\n{first_line}")[2].partition("```")[0]
    return [_without_numbers(line) for line in f"{first_line}{block}".splitlines() if not EARLIER.search(line)]


def _without_numbers(line: str) -> str:
    return re.sub(r"(?<=job )\d+|[0-9.]+(?= ms| s\)|$)", "N", line.rstrip())


def test_the_first_job_prints_what_readme_shows(cluster: Bed) -> None:
    job = cluster.submit("examples/hello/job.yaml", *ON_TWO_NODES[2:], timeout_s=420)
    assert job.exit_code == 0, job.told
    said = {_without_numbers(line) for line in (*job.told.splitlines(), *job.log)}
    assert set(shown("job 2 submitted")) <= said
    losses = dict(re.findall(r"rank (\d) of 2: loss ([0-9.]+)", "\n".join(job.log)))
    assert losses.keys() == {"0", "1"}
    assert all(float(loss) < 0.01 for loss in losses.values())


def test_why_says_of_a_failed_job_what_readme_shows(cluster: Bed, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FAILS)
    job = cluster.submit("--workdir", str(tmp_path), *ON_TWO_NODES, "--", "python", "train.py", timeout_s=420)
    assert job.exit_code == 4
    said = {_without_numbers(line) for line in cluster.gpucluster("why", job.last["job_id"]).stdout.splitlines()}
    assert set(shown("job 3 failed")) <= said
    assert any("RuntimeError: bad gradient" in line for line in said)


def test_a_server_in_a_job_is_reached_as_the_page_of_notebooks_says(cluster: Bed) -> None:
    """Python's own server listens in the place of Jupyter's, which PyPI has."""
    port, remote = two_free_ports()
    one_rank = ("--gpus", "1", "--launcher", "srun", "--ntasks-per-node", "1", "--time", "0:20:00")
    serve = ("python3", "-m", "http.server", str(remote), "--bind", "127.0.0.1")
    job = cluster.submit(*one_rank, "--workdir", str(ROOT / "examples/hello"), "--", *serve, timeout_s=420).last[
        "job_id"
    ]
    forward = cluster.start("forward", f"{port}:{remote}", "--job", job)
    try:
        assert forward.stdout is not None
        assert f"http://localhost:{port}\n" in iter(forward.stdout.readline, "")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/train.py", timeout=120) as answer:
            assert answer.read() == (ROOT / "examples/hello/train.py").read_bytes()
    finally:
        interrupt(forward)
        forward.communicate(timeout=60)
    assert cluster.gpucluster("cancel", job).returncode == 0


def test_the_checks_of_a_slow_run_answer(cluster: Bed) -> None:
    """Those of docs/slow.md that no other test runs; `doctor`, `bench` and the full preflight have their own."""
    for words in (["status", "--topology"], ["why"]):
        done = cluster.gpucluster(*words)
        assert done.returncode == 0, done.stderr
    job = cluster.submit("--gpus", "1", "--launcher", "srun", "--ntasks-per-node", "1", "--follow", "--", "nvidia-smi")
    assert job.exit_code == 0 and "A10G" in "\n".join(job.log)

"""`make demo`: from cluster.yaml to a trained model and back to nothing, on this machine, without an AWS account.

Every stage is a command that a user could type, printed before it runs. The last line on stdout is a JSON object.
Run by the machine's own Python, before anything is installed: standard library only.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from cloud import LocalCloud
from shell import CommandFailed, python, run

CLUSTER = "GpuCluster"
ACCOUNT, REGION = "123456789012", "us-east-1"
JOBS = {"horovodrun": "examples/digits/job-horovod.yaml", "torchrun": "examples/digits/job-torchrun.yaml"}
STAGES = 8


class Demo:
    """The stages so far, and the jobs that they ran."""

    def __init__(self) -> None:
        self.stages: list[dict[str, Any]] = []
        self.jobs: list[dict[str, Any]] = []

    @contextmanager
    def stage(self, name: str, why: str) -> Iterator[None]:
        print(f"\n== {len(self.stages) + 1}/{STAGES} {name}: {why}", flush=True)
        began = time.monotonic()
        try:
            yield
        finally:
            self.stages.append({"name": name, "seconds": round(time.monotonic() - began, 1)})

    def run_job(self, cloud: LocalCloud, launcher: str) -> None:
        began = time.time()
        said = run(["gpucluster", "submit", JOBS[launcher], "--follow"], check=False)
        submitted = json.loads(said.lines[-1]) if said.lines and said.lines[-1].startswith("{") else {}
        ended = submitted.get("result") or {}
        print(f"$ gpucluster status\n{run(['gpucluster', 'status'], echo=False).text}", flush=True)
        self.jobs.append(
            {
                "launcher": launcher,
                "nodes": ended.get("nodes"),
                "world_size": ended.get("world_size"),
                "accuracy": accuracy(said.lines),
                "exit_code": ended.get("exit_code", said.exit_code),
                "waited_s": seconds(began, ended.get("started_at")),
                "ran_s": seconds(ended.get("started_at"), ended.get("ended_at")),
                "instance_ids": cloud.instances_of(ended.get("node_list", [])),
                "launched_for_it": cloud.launched_since(began),
            }
        )
        if said.exit_code != 0:
            raise CommandFailed(f"the {launcher} job failed: exit code {said.exit_code}")


def seconds(since: float | str | None, until: str | None) -> float | None:
    """Between two times, each in seconds since the epoch or as result.json has them."""
    if since is None or until is None:
        return None
    began = since if isinstance(since, float) else datetime.fromisoformat(since).timestamp()
    return round(datetime.fromisoformat(until).timestamp() - began, 1)


def accuracy(log: list[str]) -> float | None:
    """Reads the line that rank 0 prints last: `[0 train-1] {"accuracy": 0.98, …}`."""
    reports = (line.partition("] ")[2] for line in log if line.startswith("[0 "))
    found = [json.loads(report)["accuracy"] for report in reports if report.startswith('{"accuracy"')]
    return float(found[-1]) if found else None


def play(demo: Demo, cloud: LocalCloud) -> None:
    with demo.stage("set-up", "Python and Node.js packages, the machine image, the jobs' wheels"):
        # Side by side: the image is downloaded and unpacked while Horovod compiles.
        run(["make", "--no-print-directory", "--jobs=2", "boot", "ENVIRONMENTS=torch horovod"])
    with demo.stage("local cloud", "AWS's APIs on loopback, instances that boot on this machine"):
        cloud.start()
    with demo.stage("cdk bootstrap", "the bucket and the roles that CDK deploys with"):
        run(["cdk", "bootstrap", f"aws://{ACCOUNT}/{REGION}", "--no-notices"], env=cloud.environment())
    with demo.stage(f"cdk deploy {CLUSTER}", "network, roles and head node, until the head says that Slurm is up"):
        run(["gpucluster", "up", "--local", "--port", str(cloud.port)])
    with demo.stage("horovodrun", "a job for an empty partition: Slurm launches two nodes, they boot, join and train"):
        demo.run_job(cloud, "horovodrun")
    with demo.stage("torchrun", "the same model on the nodes that are up already"):
        demo.run_job(cloud, "torchrun")
    with demo.stage(f"cdk destroy {CLUSTER}", "nodes, head node, network, everything"):
        run(["cdk", "destroy", CLUSTER, "--force", "--no-notices"], env=cloud.environment())
    with demo.stage("check", "no instance, container, namespace, mount or process is left"):
        cloud.stop()


def take_down(cloud: LocalCloud) -> int:
    """`make down`: whatever an interrupted demo, or a cluster of this folder, left running."""
    if Path(".gpucluster", f"{CLUSTER}.json").exists() and python().exists():
        run(["gpucluster", "down", "--yes"], check=False)
    if python().exists():
        cloud.stop()
    left_over = cloud.left_over()
    print(f"left over: {', '.join(left_over)}" if left_over else "nothing is left", flush=True)
    return 1 if left_over else 0


def table(demo: Demo) -> str:
    rows = [f"  {stage['name']:<24}{stage['seconds']:>8.1f} s" for stage in demo.stages]
    rows.append(f"  {'together':<24}{sum(stage['seconds'] for stage in demo.stages):>8.1f} s")
    rows += [
        f"  {job['launcher']}: {job['nodes']} nodes, world size {job['world_size']}, test accuracy {job['accuracy']};"
        f" waited {job['waited_s']} s for its nodes, ran {job['ran_s']} s on {' '.join(job['instance_ids'])}"
        for job in demo.jobs
    ]
    return "\nwhere the time went\n" + "\n".join(rows)


def main() -> int:
    os.chdir(Path(__file__).resolve().parents[2])
    demo, cloud = Demo(), LocalCloud(name="demo", port=int(os.environ.get("DEMO_PORT", "5566")))
    if sys.argv[1:] == ["down"]:
        return take_down(cloud)
    exit_code = 0
    try:
        play(demo, cloud)
    except (CommandFailed, KeyboardInterrupt) as error:
        print(f"\nerror: {str(error) or 'interrupted'}; taking everything down", file=sys.stderr, flush=True)
        exit_code = 130 if isinstance(error, KeyboardInterrupt) else 1
        cloud.stop()
    left_over = cloud.left_over()
    print(table(demo))
    print(json.dumps({"stages": demo.stages, "jobs": demo.jobs, "left_over": left_over}), flush=True)
    return exit_code or (1 if left_over else 0)


if __name__ == "__main__":
    sys.exit(main())

"""`make test-aws`: the smallest real proof on AWS, stage by stage, and everything deleted at the end.

It says what it costs at most and asks. Each stage has a deadline and checks. Whatever happens, the cluster is deleted,
AWS is asked what is left, and proof-report.md is written: one file without secrets. Exit code 0: every check passed and
nothing is left.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import account
from command import ROOT, Ended, gpucluster, run
from report import Check, Report
from stages import DEFAULT, STAGES, Bill, Job, Place, Stage, bill, capacity_block, cluster_file

PROGRAMS = Path(__file__).parent / "programs"
DELETING_S = 3600.0


class Proof:
    """The stages, one after another, on one cluster that grows by what each needs."""

    def __init__(self, stages: Sequence[Stage], place: Place, folder: Path, up: Sequence[str], report: Report) -> None:
        self.stages, self.place, self.folder, self.up = stages, place, folder, list(up)
        self.report = report
        self.file = folder / "cluster.yaml"
        self.file.write_text(cluster_file(stages[:1], place))

    def play(self) -> None:
        for number in range(len(self.stages)):
            if not self._stage(self.stages[number], self.stages[: number + 1]):
                for skipped in self.stages[number + 1 :]:
                    self.report.checks.append(Check(skipped.name, skipped.proves, None, "an earlier stage failed"))
                return

    def _stage(self, stage: Stage, so_far: Sequence[Stage]) -> bool:
        print(f"\n== {stage.name}: {stage.proves}; at most {stage.deadline_minutes} minutes", flush=True)
        self.deadline = time.monotonic() + stage.deadline_minutes * 60
        self.file.write_text(cluster_file(so_far, self.place))
        changed = self._gpucluster("up", *self.up)
        self._check(stage, "gpucluster up", changed.ok, f"exit code {changed.exit_code}", changed)
        return changed.ok and all(self._job(stage, job) for job in stage.jobs)

    def _job(self, stage: Stage, job: Job) -> bool:
        options = ["--name", job.name, "--partition", stage.partition["name"], "--nodes", str(stage.nodes)]
        options += ["--launcher", job.launcher, "--workdir", str(PROGRAMS), "--follow"]
        options += [word for metric in job.metrics for word in ("--metrics", metric)]
        if job.ranks_per_node:
            options += ["--ntasks-per-node", str(job.ranks_per_node)]
        ended = self._gpucluster("submit", *options, "--", *job.command)
        result = (_last_object(ended.lines).get("result") or {}) if ended.ok else {}
        self._check(stage, f"job {job.name}", ended.ok, _told(ended, result), ended)
        if job.name == "facts":
            self.report.facts[stage.name] = [line for line in ended.lines if line.startswith("[")]
        return ended.ok and self._network(stage, job, result)

    def _network(self, stage: Stage, job: Job, result: dict[str, Any]) -> bool:
        if not stage.nccl_network or job.launcher != "torchrun":
            return True
        networks = (result.get("nccl") or {}).get("networks")
        if networks is None:
            self.report.checks.append(Check(stage.name, "NCCL's network", None, "no rank used NCCL: no GPUs here"))
            return True
        ok = list(networks) == [stage.nccl_network]
        self.report.checks.append(Check(stage.name, "NCCL's network", ok, json.dumps(networks)))
        return ok

    def _check(self, stage: Stage, what: str, ok: bool, got: str, ended: Ended) -> None:
        self.report.checks.append(Check(stage.name, what, ok, got, ended.seconds))
        if not ok:
            self.report.failures.append(ended)

    def _gpucluster(self, verb: str, *words: str) -> Ended:
        argv = gpucluster("-c", str(self.file), verb, *words)
        return run(argv, cwd=ROOT, timeout_s=self.deadline - time.monotonic())

    def end(self) -> None:
        """Deletes the cluster, and asks what is left."""
        print("\n== the end: the cluster is deleted, and AWS is asked what is left", flush=True)
        cloud = account.connect(self.file)
        down = run(gpucluster("-c", str(self.file), "down", "--yes", "--discard"), cwd=ROOT, timeout_s=DELETING_S)
        self.report.checks.append(Check("", "gpucluster down", down.ok, f"exit code {down.exit_code}", down.seconds))
        if not down.ok:
            self.report.failures.append(down)
        try:
            self.report.left = account.left(cloud)
        except Exception as error:
            print(f"error: AWS could not be asked what is left: {error}", file=sys.stderr, flush=True)


def _told(ended: Ended, result: dict[str, Any]) -> str:
    if not ended.ok:
        return f"exit code {ended.exit_code}" + (" (deadline)" if ended.exit_code == 124 else "")
    told = {key: result[key] for key in ("world_size", "metrics", "node_list") if result.get(key)}
    return ", ".join(f"{key} {json.dumps(value)}" for key, value in told.items())


def _last_object(lines: Sequence[str]) -> dict[str, Any]:
    objects = [line for line in lines if line.startswith("{")]
    found: dict[str, Any] = json.loads(objects[-1]) if objects else {}
    return found


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make test-aws", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    names = "\n".join(f"{stage.name}: {stage.proves}" for stage in STAGES.values())
    parser.add_argument("--stages", default=",".join(DEFAULT), help=f"comma-separated; default: %(default)s\n{names}")
    parser.add_argument("--region", default=os.environ.get("AWS_REGION", "us-east-1"), help="default: %(default)s")
    parser.add_argument("--zone", help="availability zone; default: the region's first")
    parser.add_argument("--image", help="an AMI; default: the newest Deep Learning AMI")
    parser.add_argument("--capacity-block", metavar="TYPE=RESERVATION", help="one stage more, in a Capacity Block")
    parser.add_argument("--report", type=Path, default=Path("proof-report.md"), help="default: %(default)s")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--local", type=int, metavar="PORT", help="in the local cloud that answers on this port")
    return parser.parse_args()


def _stages(given: argparse.Namespace) -> list[Stage]:
    names = [name for name in given.stages.split(",") if name]
    unknown = [name for name in names if name not in STAGES]
    if unknown:
        raise SystemExit(f"error: there is no stage {', '.join(unknown)}; there are {', '.join(STAGES)}")
    found = [STAGES[name] for name in STAGES if name in names]
    if given.capacity_block:
        instance_type, _, reservation_id = given.capacity_block.partition("=")
        found.append(capacity_block(instance_type, reservation_id))
    return found


def _may_begin(cost: Bill, *, yes: bool) -> bool:
    for stage, usd in cost.lines:
        print(f"  {stage.name:<15} {stage.proves}; {stage.nodes} x {stage.partition['instance_types'][0]},"
              f" at most {stage.deadline_minutes} min, ${usd:.2f}")  # fmt: skip
    print(f"  together at most ${cost.usd:.2f} (on demand in us-east-1), and the time that deleting takes")
    return yes or input("Start, and pay for it? Type yes: ").strip() == "yes"


def _commit() -> str:
    told = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return told.stdout.strip() or "unknown"


def main() -> int:
    given = _arguments()
    stages, place = _stages(given), Place(given.region, given.zone, given.image)
    cost = bill(stages, place)
    if not _may_begin(cost, yes=given.yes):
        print("nothing was started")
        return 2
    where = "the local cloud, which is not AWS" if given.local else f"AWS, {given.region}"
    head = {"where": where, "commit": _commit(), "began": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"}
    report = Report({**head, "stages": ", ".join(stage.name for stage in stages), "at most": f"${cost.usd:.2f}"})
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the end comes then as well
    up = ["--local", "--port", str(given.local)] if given.local else []
    with tempfile.TemporaryDirectory(prefix="gpucluster-proof-") as folder:
        proof = Proof(stages, place, Path(folder), up, report)
        try:
            proof.play()
        except KeyboardInterrupt:
            report.checks.append(Check("", "all stages", False, "interrupted"))
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            proof.end()
            given.report.write_text(report.text())
            print(f"\n{report.text()}\nthe report is in {given.report}", flush=True)
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())

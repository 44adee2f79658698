"""`make test-aws`: the smallest real proof on AWS, stage by stage, and everything deleted at the end.

It says what it costs at most and asks. Each stage has a deadline and checks. Whatever happens, the cluster is deleted,
AWS is asked what is left, and proof-report.md is written: one file without secrets. Exit code 0: every check passed and
nothing is left.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
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
from command import ROOT, Ended, gpucluster, run, tell
from report import Check, Report
from stages import CLUSTER, DEFAULT, STAGES, Bill, Job, Place, Stage, bill, capacity_block, cluster_file

PROGRAMS = Path(__file__).parent / "programs"
DELETING_S = 3600.0
PLANNING_S = 300.0


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
        tell(f"\n== {stage.name}: {stage.proves}; at most {stage.deadline_minutes} minutes")
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

    def end(self) -> bool:
        """Deletes the cluster, and asks what is left. Returns whether the folder is of no more use."""
        cloud = account.connect(self.file)
        tell("\n== the end: the cluster is deleted, and AWS is asked what is left")
        for _ in range(2):
            down = run(gpucluster("-c", str(self.file), "down", "--yes", "--discard"), cwd=ROOT, timeout_s=DELETING_S)
            self.report.checks.append(
                Check("", "gpucluster down", down.ok, f"exit code {down.exit_code}", down.seconds)
            )
            if down.ok:
                break
            self.report.failures.append(down)
        self.report.left, self.report.unknown = account.left(cloud)
        done = down.ok and not self.report.left
        if not done:
            tell(f"error: {CLUSTER} may still be there, and cost: gpucluster -c {self.file} down --yes --discard")
        return done


def _told(ended: Ended, result: dict[str, Any]) -> str:
    if not ended.ok:
        return f"exit code {ended.exit_code}" + (" (deadline)" if ended.exit_code == 124 else "")
    told = {key: result[key] for key in ("world_size", "metrics", "node_list") if result.get(key)}
    return ", ".join(f"{key} {json.dumps(value)}" for key, value in told.items())


def _last_object(lines: Sequence[str]) -> dict[str, Any]:
    for line in reversed(lines):
        with contextlib.suppress(ValueError):
            found = json.loads(line) if line.startswith("{") else None
            if isinstance(found, dict):
                return found
    return {}


def _region() -> str:
    """As boto3 finds it: the environment's, the profile's."""
    import boto3

    return os.environ.get("AWS_REGION") or boto3.Session().region_name or "us-east-1"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make test-aws", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    names = "\n".join(f"{stage.name}: {stage.proves}" for stage in STAGES.values())
    parser.add_argument("--stages", default=",".join(DEFAULT), help=f"comma-separated; default: %(default)s\n{names}")
    parser.add_argument("--region", default=_region(), help="default: %(default)s")
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


def _refusals(proof: Proof) -> list[str]:
    """What AWS or the cluster file's checks say against any of the stages, before anything costs."""
    if account.is_there(account.connect(proof.file)):
        delete = f"aws cloudformation delete-stack --stack-name {CLUSTER}"
        return [f"there is a stack {CLUSTER} already; if nobody needs it: {delete}"]
    proof.file.write_text(cluster_file(proof.stages, proof.place))
    planned = run(gpucluster("-c", str(proof.file), "plan"), cwd=ROOT, timeout_s=PLANNING_S)
    return [] if planned.ok else ["`gpucluster plan` of all stages found what AWS would refuse: see above"]


def _may_begin(cost: Bill, who: str, place: Place, *, yes: bool) -> bool:
    tell(f"as {who}, in {place.region}:")
    for stage, usd in cost.lines:
        tell(f"  {stage.name:<15} {stage.proves}; {stage.nodes} x {stage.partition['instance_types'][0]},"
             f" at most {stage.deadline_minutes} min, ${usd:.2f}")  # fmt: skip
    tell(f"  together at most ${cost.usd:.2f} ({cost.where_and_when}), and the time that deleting takes")
    tell("  CDK's own stack, CDKToolkit, with its bucket, is made where the account has none, and stays")
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
    folder = Path(tempfile.mkdtemp(prefix="gpucluster-proof-"))
    report = Report({})
    proof = Proof(stages, place, folder, ["--local", "--port", str(given.local)] if given.local else [], report)
    done = False
    try:
        who = account.caller(account.connect(proof.file))
        refusals = _refusals(proof)
        for refusal in refusals:
            tell(f"error: {refusal}")
        if refusals or not _may_begin(cost, who, place, yes=given.yes):
            tell("nothing was started")
            done = True
            return 2
        where = "the local cloud, which is not AWS" if given.local else f"AWS, {given.region}"
        report.head |= {"where": where, "commit": _commit(), "began": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"}
        report.head |= {"stages": ", ".join(stage.name for stage in stages), "at most": f"${cost.usd:.2f}"}
        done = _play(proof, given.report)
    finally:
        if done:
            shutil.rmtree(folder, ignore_errors=True)
    return 0 if report.ok else 1


def _play(proof: Proof, to: Path) -> bool:
    """Returns whether nothing is left. Whatever ends the stages, the cluster is deleted, and the report is written."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        proof.play()
    except BaseException as error:
        why = "interrupted" if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__}: {error}"
        proof.report.checks.append(Check("", "all stages", False, why))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try:
        return proof.end()
    finally:
        to.write_text(proof.report.text())
        tell(f"\n{proof.report.text()}\nthe report is in {to}")


if __name__ == "__main__":
    sys.exit(main())

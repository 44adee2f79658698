"""Each example by the real CDK command line against the control plane: deployed, changed, destroyed, nothing left."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpucluster import cdk, local_cloud
from localcloud.tests.census import census
from localcloud.tests.place import DLAMI
from tests.cloud.played_head import Head

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = [ROOT / "cluster.yaml", *sorted((ROOT / "examples").glob("*.yaml"))]
NAME = "GpuCluster"


@dataclass(frozen=True)
class Deployed:
    """An example's copy, and the command line on it."""

    file: Path
    control_plane: Any

    def cdk(self, verb: str, *options: str) -> str:
        record = local_cloud.Record(self.control_plane.endpoint_url, "default", False, self.control_plane.secret)
        argv = cdk.argv(verb, *options, config_file=self.file, assembly=self.file.parent / "cdk.out")
        environment = cdk.environment(local_cloud.environment(record, region="us-east-1"), os.environ)
        done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def deploy(self) -> str:
        return self.cdk("deploy", NAME, "--require-approval=never", "--progress=events")


def changed(text: str) -> str:
    """One node more in the first partition; and what keeps a cluster from being deleted without a trace, taken back."""
    more = re.sub(r"max_nodes: (\d+)", lambda found: f"max_nodes: {int(found[1]) + 1}", text, count=1)
    unprotected = more.replace("termination_protection: true", "termination_protection: false")
    gone = re.sub(r"on_delete: \w+", "on_delete: delete", unprotected)
    return gone if "on_delete" in gone else re.sub(r"(  volume_gib: \d+)", r"\1\n  on_delete: delete", gone, count=1)


@pytest.fixture(scope="module")
def bootstrapped(control_plane: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    file = tmp_path_factory.mktemp("bootstrap") / "cluster.yaml"
    file.write_text((ROOT / "cluster.yaml").read_text())
    Deployed(file, control_plane).cdk("bootstrap", "aws://123456789012/us-east-1")
    control_plane.client("s3").create_bucket(Bucket="my-bucket")  # FSx links no directory to a bucket that is not there
    return control_plane


@pytest.mark.timeout(400)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_deployed_changed_and_destroyed(bootstrapped: Any, example: Path, tmp_path: Path) -> None:
    before = census(bootstrapped.client)
    here = Deployed(tmp_path / "cluster.yaml", bootstrapped)
    # The user's own image, of which a head node is launched here, is one that this account has.
    own = bootstrapped.client("ssm").get_parameter(Name=DLAMI)["Parameter"]["Value"]
    text = example.read_text().replace("ami-0123456789abcdef0", own)
    here.file.write_text(text)
    with Head(bootstrapped, NAME) as head:
        here.deploy()
        assert "There were no differences" in here.cdk("diff", NAME, "--fail")
        here.file.write_text(changed(text))
        here.deploy()
        assert len(head.versions) == 2 and len(set(head.versions)) == 2
    here.cdk("destroy", NAME, "--force")
    assert left(before, census(bootstrapped.client)) == {}


def left(before: dict[str, set[str]], after: dict[str, set[str]]) -> dict[str, set[str]]:
    return {kind: after[kind] - before[kind] for kind in after if after[kind] - before[kind]}

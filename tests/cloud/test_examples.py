"""Examples against the control plane: deployed, changed and destroyed, and nothing is left.

The one with nearly everything goes by the real CDK command line, the default one by what it would upload; so do the
others in tests/nightly/test_examples_deploy.py. `up` runs the command line for small clusters in
test_gpucluster_stack.py, and for the default one in tests/cluster.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpucluster.cluster import cdk, local_cloud
from localcloud.testing.census import census
from localcloud.testing.place import DLAMI
from tests.cloud.assembly import InProcess
from tests.cloud.played_head import Head

ROOT = Path(__file__).resolve().parents[2]
DEFAULT = ROOT / "cluster.yaml"
BY_COMMAND_LINE = ROOT / "examples" / "reference.yaml"
NAME = "GpuCluster"


@dataclass(frozen=True)
class Deployed:
    """A copy of an example, and the CDK command line for it."""

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
    """Adds a node to the first partition, and removes deletion protection and retention."""
    more = re.sub(r"max_nodes: (\d+)", lambda found: f"max_nodes: {int(found[1]) + 1}", text, count=1)
    unprotected = more.replace("termination_protection: true", "termination_protection: false")
    gone = re.sub(r"on_delete: \w+", "on_delete: delete", unprotected)
    return gone if "on_delete" in gone else re.sub(r"(  volume_gib: \d+)", r"\1\n  on_delete: delete", gone, count=1)


def with_own_image(bootstrapped: Any, example: Path) -> str:
    """The example's text with an image that the account has, because this launches the head node."""
    own = bootstrapped.client("ssm").get_parameter(Name=DLAMI)["Parameter"]["Value"]
    return example.read_text().replace("ami-0123456789abcdef0", own)


def test_the_command_line_deploys_changes_and_destroys_an_example(bootstrapped: Any, tmp_path: Path) -> None:
    before = census(bootstrapped.client)
    here = Deployed(tmp_path / "cluster.yaml", bootstrapped)
    text = with_own_image(bootstrapped, BY_COMMAND_LINE)
    here.file.write_text(text)
    with Head(bootstrapped, NAME) as head:
        here.deploy()
        assert "There were no differences" in here.cdk("diff", NAME, "--fail")
        here.file.write_text(changed(text))
        here.deploy()
        assert len(head.versions) == 2 and len(set(head.versions)) == 2
    here.cdk("destroy", NAME, "--force")
    assert left(before, census(bootstrapped.client)) == {}


def test_the_default_cluster_is_deployed_changed_and_destroyed(bootstrapped: Any, tmp_path: Path) -> None:
    deployed_changed_and_destroyed(bootstrapped, DEFAULT, tmp_path)


def deployed_changed_and_destroyed(bootstrapped: Any, example: Path, folder: Path) -> None:
    before = census(bootstrapped.client)
    here = InProcess(folder / "cluster.yaml", bootstrapped, NAME)
    text = with_own_image(bootstrapped, example)
    here.file.write_text(text)
    with Head(bootstrapped, NAME) as head:
        assert here.deploy()
        assert not here.deploy()
        here.file.write_text(changed(text))
        assert here.deploy()
        assert len(head.versions) == 2 and len(set(head.versions)) == 2
    here.destroy()
    assert left(before, census(bootstrapped.client)) == {}


def left(before: dict[str, set[str]], after: dict[str, set[str]]) -> dict[str, set[str]]:
    return {kind: after[kind] - before[kind] for kind in after if after[kind] - before[kind]}

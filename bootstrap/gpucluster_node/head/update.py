"""Watches the bundle parameter; fetches a new bundle and runs its head.sh.

The new script runs as its own unit, because it may restart this program.
"""

from __future__ import annotations

import io
import itertools
import json
import logging
import os
import subprocess
import time
import zipfile
from pathlib import Path
from typing import Any

from gpucluster_node import fleet, imds
from gpucluster_node.aws import AWS_ERRORS, client
from gpucluster_node.head import heads, host_key
from gpucluster_node.head.volume import INHERITED
from gpucluster_node.locations import bucket_and_key
from gpucluster_node.log import start_logging

log = logging.getLogger("update")
ROOT = Path("/opt/gpucluster")
BOOT_LOG = "/var/log/gpucluster/boot.log"
INTERVAL_S = 5
ROUNDS_A_MINUTE = 12


def applied(root: Path) -> dict[str, Any]:
    """The parameter's value at the time when the current bundle was fetched."""
    value: dict[str, Any] = json.loads((root / "bundle/bundle.json").read_text())
    return value


def unpack(archive: bytes, wanted: dict[str, Any], root: Path) -> Path:
    """Unpacks the bundle beside the others, then moves the link in one step."""
    folder = root / f"bundle-{wanted['version']}"
    with zipfile.ZipFile(io.BytesIO(archive)) as files:
        files.extractall(folder)
    (folder / "bundle.json").write_text(json.dumps(wanted) + "\n")
    link = root / "bundle.new"
    link.unlink(missing_ok=True)
    link.symlink_to(folder)
    os.replace(link, root / "bundle")
    return folder


def apply_argv(folder: Path) -> list[str]:
    script = f"exec bash {folder}/head.sh >>{BOOT_LOG} 2>&1"
    return ["systemd-run", "--collect", "--quiet", f"--unit=gpucluster-apply-{time.time_ns()}", "bash", "-c", script]


def poll(cluster: fleet.Fleet, root: Path) -> None:
    """A changed wait handle counts too, because CloudFormation waits for the new one."""
    wanted = fleet.parameter(client("ssm"), cluster, "bundle")
    if wanted == applied(root):
        return
    me = heads.find(client("ec2"), imds.instance_id())
    if wanted.get("head_generation") != me.generation:
        return  # the bundle is for the head node that is to replace this one
    log.info("bundle %s: applying", wanted["version"])
    bucket, key = bucket_and_key(wanted["s3_uri"])
    archive = client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    subprocess.run(apply_argv(unpack(archive, wanted, root)), check=True)


def apply_again(root: Path, inherited: Path = INHERITED) -> None:
    """Applies the bundle again if another head node used the data volume before."""
    if inherited.exists():
        log.info("another head node was here: applying the bundle again")
        subprocess.run(apply_argv((root / "bundle").resolve()), check=True)
        inherited.unlink()


def main() -> None:
    start_logging()
    cluster = fleet.load()
    for number in itertools.count():
        try:
            apply_again(ROOT)
            poll(cluster, ROOT)
            if number % ROUNDS_A_MINUTE == 0:
                host_key.publish_again(client("ssm"), cluster)
        except (*AWS_ERRORS, OSError, subprocess.SubprocessError) as error:
            log.warning("could not look for a new bundle: %s", error)
        time.sleep(INTERVAL_S)


if __name__ == "__main__":
    main()

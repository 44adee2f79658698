"""An image is baked, and a cluster without internet boots from it: the example, as it is, with the image's id in it."""

from __future__ import annotations

import json
import re

import pytest
from bed import ROOT, Bed

pytestmark = pytest.mark.timeout(600)


def boot_log(said: str) -> dict[str, float]:
    """Step -> seconds."""
    return {step: float(seconds) for step, seconds in re.findall(r"step=(\w+) status=ok seconds=([0-9.]+)", said)}


def test_a_cluster_without_internet_boots_from_a_baked_image(empty_cloud: Bed) -> None:
    text = (ROOT / "examples" / "no-internet.yaml").read_text()
    empty_cloud.config.write_text(text)
    empty_cloud.client("s3").create_bucket(Bucket="my-bucket")
    built = empty_cloud.gpucluster(
        "image", "build", "--local", "--port", str(empty_cloud.port), "--from", "dlami-ubuntu-24.04", timeout_s=300
    )
    assert built.returncode == 0, built.stderr
    made = json.loads(built.stdout.splitlines()[-1])
    assert made["built"] and str(empty_cloud.folder) in made["pinned_in"]
    assert empty_cloud.client("cloudformation").describe_stacks()["Stacks"][0]["StackName"] == "CDKToolkit"
    empty_cloud.config.write_text(re.sub("ami-[0-9a-f]+", made["image_id"], text))
    empty_cloud.up()
    done = empty_cloud.submit(
        "--nodes", "2", "--launcher", "srun", "--ntasks-per-node", "1", "--follow", "--",
        "bash", "-c", "cat /etc/gpucluster/baked; ls /opt/gpucluster/bin /var/log/gpucluster; cat /etc/machine-id",
    )  # fmt: skip
    assert done.exit_code == 0, done.told + "\n".join(done.log)
    said = [line.partition("] ")[2] for line in done.log if line.startswith("[0 ") or line.startswith("[1 ")]
    assert sum(f"recipe={made['recipe']} base={made['base']}" in line for line in said) == 2
    assert len({line for line in said if re.fullmatch("[0-9a-f]{32}", line)}) == 2  # each machine has its own
    images = {each["image_id"] for each in empty_cloud.instances("compute").values() if "image_id" in each}
    assert images <= {made["image_id"]}
    log = empty_cloud.ssh("sudo cat /var/log/gpucluster/boot.log")
    assert f"baked image: recipe={made['recipe']}" in log
    assert "ready" in boot_log(log)
    unreachable = empty_cloud.ssh("curl -sS -m 5 http://1.1.1.1/ && echo reached || true")
    assert "reached" not in unreachable

"""An image is baked, and a cluster without internet boots from it: the example, with that image and a file system.

That cluster has no route to the internet, and its environments come from S3.
"""

from __future__ import annotations

import json
import re

from bed import ROOT, Bed

SUBJECTS = [
    "examples/no-internet.yaml",
    "gpucluster/baking/*",
    "stacks/builder.py",
    "stacks/images.py",
    "localcloud/ec2/disks/images.py",
    "bootstrap/gpucluster_node/jobs/environment_cache.py",
    "bootstrap/steps/system/baked.sh",
    "bootstrap/steps/system/seal.sh",
    "bootstrap/steps/storage/storage_clients.sh",
]
COVERED_BY = "test_baking.py, test_image_verb.py, test_machines_images.py"
STORAGE = """
storage:
  - {mount: /fsx, type: fsx-lustre, deployment: scratch-2, capacity_gib: 1200}
"""


def test_a_cluster_without_internet_boots_from_a_baked_image(empty_cloud: Bed) -> None:
    text = (ROOT / "examples" / "no-internet.yaml").read_text() + STORAGE
    empty_cloud.config.write_text(text)
    empty_cloud.client("s3").create_bucket(Bucket="my-bucket")
    built = empty_cloud.gpucluster(
        "image", "build", "--local", "--port", str(empty_cloud.port), "--from", "dlami-ubuntu-24.04", timeout_s=300
    )
    assert built.returncode == 0, built.stderr
    made = json.loads(built.stdout.splitlines()[-1])
    assert made["built"] and str(empty_cloud.folder) in made["pinned_in"]
    stacks = empty_cloud.client("cloudformation").describe_stacks()["Stacks"]
    assert [stack["StackName"] for stack in stacks] == ["CDKToolkit"]  # the builder's id was removed
    empty_cloud.config.write_text(re.sub("ami-[0-9a-f]+", made["image_id"], text))
    empty_cloud.up()
    # By Slurm alone: a job would have its Python environment built first.
    show = 'cat /etc/gpucluster/baked /etc/machine-id; grep -o " /fsx " /proc/mounts'
    said = empty_cloud.ssh(f"srun --nodes=2 --ntasks-per-node=1 bash -c '{show}'", timeout_s=300).splitlines()
    assert sum(f"recipe={made['recipe']} base={made['base']}" in line for line in said) == 2, said
    assert len({line for line in said if re.fullmatch("[0-9a-f]{32}", line)}) == 2, said  # each machine has its own
    assert said.count(" /fsx ") == 2, said
    assert all("storage_clients" in line for line in said if "recipe=" in line), said
    log = empty_cloud.ssh("sudo cat /var/log/gpucluster/boot.log")
    assert f"baked image: recipe={made['recipe']}" in log
    environments_come_from_s3(empty_cloud)


def environments_come_from_s3(bed: Bed) -> None:
    made = bed.gpucluster("env", "build", "torch", timeout_s=300)
    assert made.returncode == 0 and "stored s3://my-bucket/gpucluster/torch-" in made.stderr, made.stderr
    bed.ssh("sudo rm -rf $(readlink -f /home/gpucluster/envs/torch)")
    restored = bed.gpucluster("env", "build", "torch", timeout_s=300)
    assert restored.returncode == 0, restored.stderr
    assert "restoring torch-" in restored.stderr and "making torch-" not in restored.stderr, restored.stderr
    checked = bed.gpucluster("env", "verify", "torch", timeout_s=300)
    assert checked.stdout.startswith("torch: ok: torch=="), checked.stdout + checked.stderr

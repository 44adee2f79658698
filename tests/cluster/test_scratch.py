"""What nodes provide for jobs: space on their own disks, and credentials other than the node's."""

from __future__ import annotations

import shlex
import textwrap

import pytest
from bed import Bed, wait_for

HASH = "0123456789abcdef"
BUCKET = "storage-tests"


def run(bed: Bed, script: str, *, partition: str = "train") -> tuple[str, list[str]]:
    """Runs a job of one rank; returns its node and its output."""
    body = textwrap.dedent(script)
    job = bed.submit(
        "--nodes", "1", "--partition", partition, "--gpus-per-node", "1", "--launcher", "srun", "--preflight", "off",
        "--follow", "--", "bash", "-c", body, timeout_s=300,
    )  # fmt: skip
    assert job.exit_code == 0, job.log
    (node,) = job.result["node_list"]
    label = f"[0 {node}] "
    return node, [line.removeprefix(label) for line in job.log if line.startswith(label)]


def test_a_job_has_the_permissions_of_s3_access_and_not_those_of_its_node(storage: Bed) -> None:
    s3 = storage.client("s3")
    s3.put_object(Bucket=BUCKET, Key="data/scratch-test/greeting", Body=b"hello\n")
    _, said = run(
        storage,
        f"""
        echo "region $AWS_REGION"
        ask() {{ /usr/bin/python3 -c "import boto3; client = boto3.client('$1'); print($2)" 2>&1; }}
        ask s3 "client.get_object(Bucket='{BUCKET}', Key='data/scratch-test/greeting')['Body'].read().decode().strip()"
        ask s3 "client.list_objects_v2(Bucket='{BUCKET}', Prefix='data/scratch-test/')['KeyCount']"
        ask s3 "client.put_object(Bucket='{BUCKET}', Key='jobs/scratch-test/made', Body=b'made') and 'written'"
        ask sts "client.get_caller_identity()['Arn']"
        refused() {{ ask "$@" | grep -oE 'AccessDenied|not authorized' | head -n 1; }}
        refused s3 "client.put_object(Bucket='{BUCKET}', Key='data/scratch-test/mine', Body=b'')"
        refused s3 "client.list_objects_v2(Bucket='{BUCKET}', Prefix='kept/')"
        refused ec2 "client.describe_tags()"
        refused ssm "client.get_parameter(Name='/gpucluster/GpuCluster/jobs')"
        unset AWS_CONTAINER_CREDENTIALS_FULL_URI
        ask s3 "client.list_buckets()" | grep -o 'Unable to locate credentials'
        """,
    )
    assert said[:4] == ["region us-east-1", "hello", "1", "written"]
    assert "StorageJobsRole" in said[4]
    assert len(said) == 10 and set(said[5:9]) <= {"AccessDenied", "not authorized"}, said
    assert s3.get_object(Bucket=BUCKET, Key="jobs/scratch-test/made")["Body"].read() == b"made"
    denied = {call["action"] for call in storage.ask("calls?since=0") if call.get("denied")}
    assert {"DescribeTags", "GetParameter"} <= denied


def test_users_on_the_head_node_have_the_jobs_permissions(storage: Bed) -> None:
    who = 'import boto3; print(boto3.client("sts").get_caller_identity()["Arn"])'
    assert "StorageJobsRole" in storage.ssh("bash", "-lc", f"/usr/bin/python3 -c {shlex.quote(who)}")


def test_scratch_is_emptied_between_jobs_and_cached_data_sets_remain(storage: Bed) -> None:
    fill = f"/opt/gpucluster/bin/scratch-cache fill {HASH} 1000 -- sh -c"
    node, said = run(
        storage,
        f"""
        findmnt --noheadings --output SOURCE,FSTYPE /scratch
        df --output=size --block-size=GB /scratch | tail -n 1
        stat --format='%a %U' "$GPUCLUSTER_SCRATCH"
        touch "$GPUCLUSTER_SCRATCH/mine" /scratch/loose
        {fill} 'echo made >data'
        """,
    )
    source, size, folder, kept = said
    assert source.split()[1] == "ext4" and "nvme" in source
    assert 3500 < int(size.strip().removesuffix("GB")) <= 3800
    assert (folder, kept) == ("700 ubuntu", f"/scratch/cache/{HASH}")
    _, said = run(storage, f"hostname; ls /scratch; cat $({fill} 'exit 9')/data; ls /scratch/jobs", partition="train")
    if said[0] != node:
        pytest.fail(f"the second job ran on {said[0]}, not on {node}, which is there and free")
    assert said[1:5] == ["cache", "containers", "jobs", "lost+found"]
    assert said[5] == "made" and len(said) == 7  # only its own folder


def test_cached_data_sets_remain_after_a_reboot(storage: Bed) -> None:
    node, _ = run(storage, f"/opt/gpucluster/bin/scratch-cache fill {HASH} 1000 -- touch data")
    storage.ssh("ssh", node, "sudo touch /run/before-the-reboot")
    (instance,) = [each["instance_id"] for each in storage.instances("compute").values() if each["node"] == node]
    storage.client("ec2").reboot_instances(InstanceIds=[instance])
    asks = f"ssh -o ConnectTimeout=3 {node} 'test ! -e /run/before-the-reboot && systemctl is-active slurmd' || true"
    wait_for("the node", lambda: storage.ssh(asks).strip() == "active", 90)
    wait_for("Slurm", lambda: "idle" in storage.ssh("sinfo", "-h", "-n", node, "-o", "%T").split(), 60)
    look = f"findmnt -no FSTYPE /scratch; /opt/gpucluster/bin/scratch-cache get {HASH}; ls /scratch/jobs | wc -l"
    _, said = run(storage, look)
    assert said == ["ext4", f"/scratch/cache/{HASH}", "1"]


def test_several_disks_are_one_file_system(storage: Bed) -> None:
    _, said = run(
        storage,
        """
        findmnt --noheadings --output TARGET,FSTYPE /scratch
        cat /etc/gpucluster/scratch
        cat /var/lib/localcloud/arrays | wc -w
        """,
        partition="raid",
    )
    assert [line.split() for line in said] == [["/scratch", "ext4"], ["/scratch"], ["3"]]

"""Four files of ParallelCluster, converted and booted without an edit, each with a job in a partition of its own."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from bed import Bed

from tests.cloud.moved_in import Account

SUBJECTS = ["gpucluster/parallelcluster/*", "tests/data/parallelcluster/*", "bootstrap/steps/storage/*"]
COVERED_BY = "test_moved_in.py deploys them; test_parallelcluster.py has every key"
SCRIPT = b'#!/bin/bash\necho "$(basename $0) $*" >> /var/tmp/scripts-ran\n'
KEYS = ("setup1.sh", "setup2.sh", "setup3.sh")


class Moved(NamedTuple):
    partition: str
    on_node: str
    """A command of the job, and what it prints."""
    prints: tuple[str, ...]
    on_head: str
    says: tuple[str, ...]


FILES = {
    "08": Moved("queue1", "findmnt -nro TARGET /data1; findmnt -nro TARGET /data2", ("/data1", "/data2"), "true", ()),
    "13": Moved(
        "queue2-nodes13",
        "cat /var/tmp/scripts-ran; findmnt -nro TARGET /data1",
        ("setup1.sh", "/data1"),
        "scontrol show config; cat /var/tmp/scripts-ran",
        ("CR_CPU_MEMORY", "setup1.sh"),
    ),
    "25": Moved(
        "queue1", "findmnt -nro TARGET /data2", ("/data2",), "scontrol show node queue1-1", ("ThreadsPerCore=1",)
    ),
    "31": Moved(
        "queue2",
        "findmnt -nro TARGET /home; cat /var/tmp/scripts-ran",
        ("/home", "setup3.sh"),
        "cat /var/tmp/scripts-ran; scontrol show config",
        ("setup1.sh 1.0.0 example-bucket", "CR_CPU_MEMORY"),
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_converted_file_boots_and_runs_a_job(name: str, empty_cloud: Bed) -> None:
    moved, account = FILES[name], Account(empty_cloud)
    converted = account.converted(name, in_subnet=False)
    assert converted.complete, converted.look
    for bucket in account.buckets:
        for key in KEYS:
            empty_cloud.client("s3").put_object(Bucket=bucket, Key=key, Body=SCRIPT)
    empty_cloud.config.write_text(converted.text)
    empty_cloud.up()
    shape = ("--partition", moved.partition, "--nodes", "1", "--ntasks-per-node", "1", "--launcher", "srun")
    done = empty_cloud.submit(*shape, "--follow", "--", "bash", "-c", f"hostname; {moved.on_node}")
    said = [line.partition("] ")[2] for line in done.log]
    assert done.exit_code == 0, done.told + "\n".join(done.log)
    assert f"{moved.partition}-1" in said
    assert all(any(part in line for line in said) for part in moved.prints), said
    told = empty_cloud.ssh("bash", "-c", moved.on_head)
    assert all(part.lower() in told.lower() for part in moved.says), told

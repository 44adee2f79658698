"""A pytest plugin: clusters that the tests of a session share, deployed by the CDK command line and booted here.

A test that fails shows what Slurm knew of the cluster at that moment.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from bed import ROOT, Bed

LOOK = """
sinfo --Node --format='%n %T %E'
squeue --format='%i %u %T %N %r'
sudo tail -n 30 /var/log/gpucluster/power.log
sudo grep -v Recovered /var/log/slurm/slurmctld.log | tail -n 40
"""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    beds = [each for each in getattr(item, "funcargs", {}).values() if isinstance(each, Bed)]
    if report.failed and report.when == "call" and beds:
        report.sections.append(("the cluster", _seen(beds[0])))
    return report


def _seen(bed: Bed) -> str:
    try:
        return bed.ssh("sh", "-c", f"({LOOK}) 2>&1 || :", timeout_s=30)
    except Exception as error:  # whatever the test has broken
        return f"its head node does not answer: {error}"


@contextmanager
def opened(bed: Bed) -> Iterator[Bed]:
    """A cluster with its local cloud, which always ends."""
    try:
        bed.open_cloud()
        yield bed
    finally:
        bed.close()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with opened(Bed.make(tmp_path_factory.mktemp("cluster"))) as bed:
        bed.up()
        yield bed


@contextmanager
def up_without_environments(folder: Path, more_keys: str = "") -> Iterator[Bed]:
    """A cluster whose jobs need no framework, and so it builds no environment. `more_keys`: of cluster.yaml."""
    with opened(replace(Bed.make(folder), python="/home/plain")) as bed:
        bed.config.write_text(bed.config.read_text().rstrip() + "\n" + more_keys)
        bed.up()
        bed.ssh("sh", "-c", f"sudo mkdir -p {bed.python}/bin && sudo ln -s /usr/bin/python3 {bed.python}/bin/python")
        yield bed


@pytest.fixture(scope="session")
def changing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """A second cluster, which tests change and finally end."""
    with opened(Bed.make(tmp_path_factory.mktemp("changing"))) as bed:
        bed.up()
        yield bed


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """A cluster of examples/servers: GPU nodes, nodes for parameter servers, and nodes for SMDDP."""
    bed = Bed.make(tmp_path_factory.mktemp("servers"))
    text = (ROOT / "examples" / "servers" / "cluster.yaml").read_text()
    more = "  - {name: big, instance_types: [p4d.24xlarge], max_nodes: 2}\n\nparameter_servers:"
    text = text.replace("\nparameter_servers:", more).replace("frameworks: [", "frameworks: [torch, smddp, ")
    bed.config.write_text(text)
    with opened(bed):
        bed.up()
        yield bed


STORAGE = """\
  - {name: raid, instance_types: [g5.48xlarge], max_nodes: 1}

storage:
  - mount: /fsx
    type: fsx-lustre
    deployment: scratch-2
    capacity_gib: 1200
    data_repositories:
      - {path: /data, s3: "s3://storage-tests/data", import: [new, changed, deleted]}
      - {path: /results, s3: "s3://storage-tests/results", export: [new, changed, deleted]}
      - {path: /kept, s3: "s3://storage-tests/kept"}
  - mount: /burst
    type: fsx-lustre
    lifetime: jobs
    idle_minutes: 0.05
    deployment: scratch-2
    capacity_gib: 1200
    data_repositories:
      - {path: /in, s3: "s3://storage-tests/burst/in", import: [new]}
      - {path: /out, s3: "s3://storage-tests/burst/out"}
  - {mount: /efs, type: efs, on_delete: delete}
  - mount: /ram
    type: beegfs-ram
    partition: train
    gib_per_node: 1
    scope: job
    source: s3://storage-tests/data/ram
    export: s3://storage-tests/jobs/ram

s3_access:
  - {uri: "s3://storage-tests/data", access: read}
  - {uri: "s3://storage-tests/jobs", access: read-write}

silence: [beegfs-client-kernel]
"""
"""/data follows S3, and S3 follows /results; files in /kept are exported on request."""


@pytest.fixture(scope="session")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """A cluster with every kind of storage: nodes of `train` have one NVMe disk, the node of `raid` has two."""
    bed = Bed.make(tmp_path_factory.mktemp("storage"))
    bed.config.write_text(bed.config.read_text().rstrip() + "\n" + STORAGE)
    with opened(bed):
        bed.client("s3").create_bucket(Bucket="storage-tests")
        bed.client("s3").put_object(Bucket="storage-tests", Key="data/ram/part-0", Body=bytes(2**20))
        bed.up()
        yield bed


USERS = """
users:
  - {name: alice}
  - {name: bob}
  - {name: carol, max_gpus: 1}

monitoring: {alarm_email: admin@example.org}
"""


@pytest.fixture(scope="session")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """A cluster of users who attack each other and the administrator; carol has a limit. Its jobs need no framework."""
    with up_without_environments(tmp_path_factory.mktemp("people"), USERS) as bed:
        yield bed


@pytest.fixture
def empty_cloud(tmp_path: Path) -> Iterator[Bed]:
    """An empty local cloud, for one test."""
    with opened(Bed.make(tmp_path)) as bed:
        yield bed

"""The nodes' mounts: the bundle's storage.json, values from Parameter Store, and the table that steps read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpucluster_node import addresses, storage

from gpucluster import config, render
from gpucluster.config.storage.fsx import lustre
from gpucluster.hardware.instances import INSTANCE_TYPES

BASE = """
name: Mine
region: us-east-1
partitions:
  - {name: train, instance_types: [g5.xlarge], max_nodes: 2}
"""
REPOSITORIES = (
    '{path: /in, s3: "s3://bucket/in", import: [new]}, {path: /out, s3: "s3://bucket/out", export: [new]}, '
    '{path: /both, s3: "s3://bucket/both", import: [new], export: [new]}, {path: /neither, s3: "s3://bucket/neither"}'
)
STORAGE = f"""
storage:
  - {{mount: /data/fsx, type: fsx-lustre, deployment: scratch-2, capacity_gib: 1200,
     data_repositories: [{REPOSITORIES}]}}
  - {{mount: /home, type: efs}}
  - {{mount: /ram, type: beegfs-ram, partition: train, gib_per_node: 1, scope: job}}
"""
ANSWERS = {
    "storage/data-fsx": {"type": "fsx-lustre", "mount": "/data/fsx", "dns_name": "a.fsx", "mount_name": "abc",
                         "efa": False, "version": "2.15", "file_system_id": "fs-1"},
    "storage/home": {"type": "efs", "mount": "/home", "dns_name": "b.efs", "access": "tls"},
}  # fmt: skip


def mounts(text: str) -> list[dict[str, Any]]:
    files = render.bundle(config.loads(text))
    found: list[dict[str, Any]] = json.loads(files["storage.json"])["mounts"]
    return found


def test_the_bundle_names_file_systems_and_the_parameters_with_their_addresses() -> None:
    assert [(each["mount"], each["type"], each["parameter"]) for each in mounts(BASE + STORAGE)] == [
        ("/data/fsx", "fsx-lustre", "storage/data-fsx"),
        ("/home", "efs", "storage/home"),
    ]
    assert mounts(BASE) == []


def test_import_only_folders_are_not_writable_for_all_users() -> None:
    assert mounts(BASE + STORAGE)[0]["for_everybody"] == ["/", "/out", "/both", "/neither"]


def test_the_table_has_a_word_in_each_column() -> None:
    """bash treats several tabs as one."""
    found = storage.resolve(mounts(BASE + STORAGE), ANSWERS.__getitem__, addresses.of)
    assert list(storage.table(found)) == [
        "/data/fsx\tfsx-lustre\ta.fsx\tabc\t-\t2.15\t/,/out,/both,/neither",
        "/home\tefs\tb.efs\t-\t-\t-\t/",
    ]


EXISTING = """
network: {vpc_id: vpc-11111111, subnet_id: subnet-11111111}
availability_zone: us-east-1a
storage:
  - {mount: /data, type: fsx-lustre, file_system_id: fs-0123456789abcdef0}
  - {mount: /home, type: efs, file_system_id: fs-0123456789abcdef1}
"""
LUSTRE = {
    "FileSystemType": "LUSTRE", "FileSystemTypeVersion": "2.12", "DNSName": "c.fsx",
    "LustreConfiguration": {"MountName": "abcdefgh"},
}  # fmt: skip


def answering(asked: list[Any], **answers: Any) -> Any:
    def ask(action: str, **arguments: Any) -> Any:
        asked.append((action, arguments))
        return answers[action]

    return ask


def test_only_fsx_knows_where_a_lustre_file_system_is_that_exists() -> None:
    asked: list[Any] = []
    ask = answering(asked, DescribeFileSystems={"FileSystems": [LUSTRE]})
    found = storage.resolve(mounts(BASE + EXISTING), ANSWERS.__getitem__, lambda mount: addresses.address(mount, ask))
    assert asked == [("DescribeFileSystems", {"FileSystemIds": ["fs-0123456789abcdef0"]})]
    assert list(storage.table(found)) == [
        "/data\tfsx-lustre\tc.fsx\tabcdefgh\t-\t2.12\t-",
        "/home\tefs\tb.efs\t-\t-\t-\t-",
    ]


VOLUME = {"mount": "/zfs", "type": "fsx-openzfs", "volume_id": "fsvol-0123456789abcdef0"}
NAMED = {"DescribeFileSystems": {"FileSystems": [{"FileSystemType": "OPENZFS", "DNSName": "fs-1.fsx"}]}}
MACHINE = {"Endpoints": {"Nfs": {"DNSName": "svm-1.fs-1.fsx"}, "Management": {"DNSName": "no"}}}


def volume(kind: str, **settings: str) -> dict[str, Any]:
    name = "OpenZFSConfiguration" if kind == "OPENZFS" else "OntapConfiguration"
    return {"Volumes": [{"VolumeType": kind, "FileSystemId": "fs-1", name: settings}]}


@pytest.mark.parametrize(
    ("mount", "answers", "row"),
    [
        (VOLUME, {"DescribeVolumes": volume("OPENZFS", VolumePath="/fsx/vol1"), **NAMED}, "fs-1.fsx\t/fsx/vol1"),
        (
            {**VOLUME, "type": "fsx-ontap"},
            {
                "DescribeVolumes": volume("ONTAP", JunctionPath="/vol1", StorageVirtualMachineId="svm-1"),
                "DescribeStorageVirtualMachines": {"StorageVirtualMachines": [MACHINE]},
            },
            "svm-1.fs-1.fsx\t/vol1",
        ),
    ],
    ids=["openzfs", "ontap"],
)
def test_a_volume_is_mounted_from_its_server_by_its_path(mount: dict[str, Any], answers: Any, row: str) -> None:
    found = {**addresses.address(mount, answering([], **answers)), **mount}
    assert list(storage.table([found])) == [f"/zfs\tnfs\t{row}\t-\t-\t-"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (volume("ONTAP"), "fsvol-0123456789abcdef0 is of the type ONTAP, not OPENZFS"),
        (volume("OPENZFS"), "fsvol-0123456789abcdef0 has no path"),
        (volume("OPENZFS", VolumePath="/fsx/a b"), "has the path '/fsx/a b'"),
    ],
)
def test_a_volume_that_cannot_be_mounted_is_named(answer: Any, why: str) -> None:
    with pytest.raises(addresses.Unusable, match=why):
        addresses.address(VOLUME, answering([], DescribeVolumes=answer, **NAMED))


def test_a_file_system_of_another_type_is_not_mounted() -> None:
    ask = answering([], DescribeFileSystems={"FileSystems": [{"FileSystemType": "WINDOWS"}]})
    with pytest.raises(addresses.Unusable, match="fs-0123456789abcdef0 is of the type WINDOWS, not LUSTRE"):
        addresses.address(mounts(BASE + EXISTING)[0], ask)


@pytest.mark.parametrize(("home", "volume", "state"), [
    ("", "/home", "/home/gpucluster"),
    ("storage: [{mount: /home, type: efs}]", "/srv/gpucluster", "/srv/gpucluster"),
    ("storage: [{mount: /home, type: fsx-lustre, on_delete: retain}]", "/srv/gpucluster", "/srv/gpucluster"),
])  # fmt: skip
def test_slurms_state_is_on_the_heads_volume(home: str, volume: str, state: str) -> None:
    files = render.bundle(config.loads(f"{BASE}{home}\n"))
    assert f"readonly VOLUME={volume}\nreadonly DATA={state}\n" in files["head.sh"]
    assert f"StateSaveLocation={state}/slurm-state\n" in files["slurm/slurm.conf"]
    assert json.loads(files["fleet.json"])["state"] == state
    head = json.loads(files["cloudwatch/head.json"])["metrics"]["metrics_collected"]
    assert head["disk"]["resources"] == ["/", volume], "its alarm watches that disk"


@pytest.mark.parametrize(
    ("type_", "fits"),
    [("p5.48xlarge", True), ("g6e.48xlarge", True), ("p6-b200.48xlarge", True), ("p4d.24xlarge", False),
     ("g5.48xlarge", False), ("c5n.18xlarge", False), ("g6.xlarge", False), ("m6i.large", False)],
)  # fmt: skip
def test_lustre_goes_over_efa_from_nitro_4_on(type_: str, fits: bool) -> None:
    assert lustre.over_efa(INSTANCE_TYPES[type_]) is fits
    assert f"LUSTRE_OVER_EFA={'yes' if fits else 'no'}" in render.machine(INSTANCE_TYPES[type_])

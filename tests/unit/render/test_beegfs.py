"""BeeGFS in memory as text: sizes, limits, what its versions read, and what jobs have left."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from gpucluster import config, render
from gpucluster.config.storage.beegfs.sizes import memory_gib, metadata_gib
from gpucluster.render import beegfs

CLUSTER = """\
name: c
region: us-east-1
partitions:
  - {{name: train, instance_types: [p4d.24xlarge], min_nodes: 2, max_nodes: 4}}
  - {{name: cpu, instance_types: [p4d.24xlarge], max_nodes: 4}}
storage:
  - {{mount: /ram, type: beegfs-ram, partition: train, gib_per_node: {gib}, scope: {scope}, version: "{version}"}}
"""


def bundle(tmp_path: Path, *, gib: int = 150, scope: str = "cluster", version: str = "8") -> dict[str, str]:
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER.format(gib=gib, scope=scope, version=version))
    return render.bundle(config.load(path))


def pairs(text: str) -> dict[str, str]:
    return {key: value.strip() for key, value in re.findall(r"^(\w+)\s*=(.*)$", text, re.MULTILINE)}


LIMITS = {  # GiB: low and emergency, in MiB
    16: (2048, 327),
    150: (19200, 3072),
    1000: (128000, 20480),
}


@pytest.mark.parametrize("gib", LIMITS)
def test_limits_are_a_part_of_the_target(tmp_path: Path, gib: int) -> None:
    low, emergency = LIMITS[gib]
    of_7 = pairs(bundle(tmp_path, gib=gib, version="7.4")["beegfs/beegfs-mgmtd.conf"])
    assert of_7["tuneStorageSpaceLowLimit"] == f"{low}M"
    assert of_7["tuneStorageSpaceEmergencyLimit"] == f"{emergency}M"
    assert (of_7["tuneStorageDynamicPools"], of_7["tuneMetaDynamicPools"]) == ("false", "false")
    of_8 = tomllib.loads(bundle(tmp_path, gib=gib)["beegfs/beegfs-mgmtd.toml"])
    assert of_8["cap-pool-storage-limits"]["space-low"] == f"{low}MiB"
    assert of_8["cap-pool-storage-limits"]["space-emergency"] == f"{emergency}MiB"


@pytest.mark.parametrize("gib", [1, 10, *LIMITS])
def test_an_empty_target_is_in_the_normal_pool(gib: int) -> None:
    for size in (gib, metadata_gib(gib)):
        found = beegfs.limits(size)
        assert 0 < found.emergency_mib < found.low_mib < size * 1024
        assert 0 < found.emergency_inodes < found.low_inodes < size * beegfs.INODES_PER_GIB


@pytest.mark.parametrize("gib", LIMITS)
def test_the_memory_is_as_large_as_the_file_says(tmp_path: Path, gib: int) -> None:
    script = bundle(tmp_path, gib=gib)["beegfs.sh"]
    assert f"readonly BEEGFS_STORAGE_GIB={gib} BEEGFS_STORAGE_INODES={gib * 65536}\n" in script
    assert f"readonly BEEGFS_METADATA_GIB={metadata_gib(gib)} " in script


def node_memory(files: dict[str, str]) -> dict[str, int]:
    lines = re.findall(r"^NodeName=(\w+)-\S+ .*RealMemory=(\d+)", files["slurm/slurm.conf"], re.MULTILINE)
    return {name: int(memory) for name, memory in lines}


@pytest.mark.parametrize("scope", ["cluster", "job"])
def test_jobs_get_the_remaining_memory(tmp_path: Path, scope: str) -> None:
    found = node_memory(bundle(tmp_path, gib=150, scope=scope))
    assert found["cpu"] - found["train"] == memory_gib(150) * 1024 == (150 + 4) * 1024


@pytest.mark.parametrize("version", ["7.4", "8"])
def test_each_version_gets_its_own_files(tmp_path: Path, version: str) -> None:
    names = {path.removeprefix("beegfs/") for path in bundle(tmp_path, version=version) if path.startswith("beegfs/")}
    of_version = {"7.4": {"beegfs-mgmtd.conf", "beegfs-helperd.conf"}, "8": {"beegfs-mgmtd.toml"}}
    common = {"beegfs-meta.conf", "beegfs-storage.conf", "beegfs-client.conf", "beegfs-mounts.conf", "interfaces"}
    assert names == common | of_version[version]


@pytest.mark.parametrize("version", ["7.4", "8"])
def test_settings_of_servers_and_clients(tmp_path: Path, version: str) -> None:
    files = bundle(tmp_path, version=version)
    meta, storage, client = (pairs(files[f"beegfs/beegfs-{name}.conf"]) for name in ("meta", "storage", "client"))
    for each in (meta, storage, client):
        assert each["sysMgmtdHost"] == "@MANAGEMENT@"
        assert each["connAuthFile"] == "/etc/beegfs/conn.auth"
        assert (each["connDisableAuthentication"], each["connUseRDMA"]) == ("false", "false")
    assert meta["storeUseExtendedAttribs"] == "false"
    for each in (meta, storage):
        assert (each["storeAllowFirstRunInit"], each["storeFsUUID"]) == ("false", "")
    assert client.get("connHelperdPortTCP") == {"7.4": "8006", "8": None}[version]


def test_a_cluster_without_beegfs_has_no_trace_of_it(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER.partition("storage:")[0].format())
    files = render.bundle(config.load(path))
    assert not [name for name in files if name.startswith("beegfs")]
    assert "readonly BEEGFS_ROLE=none\n" in files["head.sh"]


@pytest.mark.parametrize(
    ("scope", "head", "roles"),
    [("cluster", "management", {"train": "server", "cpu": "client"}), ("job", "none", {"train": "job", "cpu": "none"})],
)
def test_each_machine_gets_its_beegfs_role(tmp_path: Path, scope: str, head: str, roles: dict[str, str]) -> None:
    files = bundle(tmp_path, scope=scope)
    assert f"readonly BEEGFS_ROLE={head}\n" in files["head.sh"]
    found = {name: re.findall(r"^BEEGFS_ROLE=(\w+)", files[f"partitions/{name}.sh"], re.MULTILINE) for name in roles}
    assert found == {name: [role] for name, role in roles.items()}


def test_node_programs_get_the_servers(tmp_path: Path) -> None:
    assert json.loads(bundle(tmp_path)["beegfs.json"])["servers"] == ["train-1", "train-2"]
    assert json.loads(bundle(tmp_path, scope="job")["beegfs.json"])["servers"] == []

"""The local image's stand-in for BeeGFS: it accepts our templates' files, and refuses what BeeGFS would refuse."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

from gpucluster import config, render
from gpucluster.render import beegfs
from localcloud.machines.image import GUEST_FILES

PROGRAM = GUEST_FILES / "usr/lib/localcloud/beegfs-services"
CLUSTER = """\
name: c
region: us-east-1
partitions: [{{name: train, instance_types: [p4d.24xlarge], min_nodes: 2, max_nodes: 2}}]
storage: [{{mount: /ram, type: beegfs-ram, partition: train, gib_per_node: 150, version: "{version}"}}]
"""


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    loader = SourceFileLoader("beegfs_services", str(PROGRAM))
    module = module_from_spec(spec_from_loader(loader.name, loader))  # type: ignore[arg-type]
    loader.exec_module(module)
    monkeypatch.setattr(module, "ETC", str(tmp_path))
    monkeypatch.setattr(module.secret, "__defaults__", (f"{tmp_path}/conn.auth", "false"))
    return module


def configure(folder: Path, version: str) -> None:
    """As the steps do."""
    marks = {"@MANAGEMENT@": "head.c.internal", "@INTERFACE@": "lo", "@FOLDER@": f"{folder}/records"}
    for path, text in render.bundle(config.loads(CLUSTER.format(version=version))).items():
        if path.startswith("beegfs/"):
            here = text.replace("/etc/beegfs", str(folder))
            for mark, value in marks.items():
                here = here.replace(mark, value)
            (folder / path.removeprefix("beegfs/")).write_text(here)
    secret = folder / "conn.auth"
    secret.write_text("s3cret")
    secret.chmod(0o600)


@pytest.mark.parametrize("version", beegfs.RELEASES)
@pytest.mark.parametrize("service", ["meta", "storage", "client"])
def test_our_files_are_accepted(played: ModuleType, tmp_path: Path, version: str, service: str) -> None:
    configure(tmp_path, version)
    assert played.configuration(service)["sysMgmtdHost"] == "head.c.internal"


@pytest.mark.parametrize("version", beegfs.RELEASES)
def test_management_needs_its_records(played: ModuleType, tmp_path: Path, version: str) -> None:
    configure(tmp_path, version)
    for name in ("cert.pem", "key.pem"):
        (tmp_path / name).write_text("pem")
    with pytest.raises(played.Refused, match=r"not initialised|use --init"):
        played.management()
    folder = tmp_path / "records"
    if version == "8":
        folder.mkdir()
        played.manage(["--init", "--db-file", f"{folder}/mgmtd.sqlite"])
        with pytest.raises(played.Refused, match="exists already"):
            played.manage(["--init", "--db-file", f"{folder}/mgmtd.sqlite"])
    else:
        played.set_up("mgmtd", ["-p", str(folder), "-C", "-f"])
    assert played.management()[0].startswith(str(folder))


def spoil_key(folder: Path) -> None:
    path = folder / "beegfs-storage.conf"
    path.write_text(path.read_text() + "tuneNumWorker = 4\n")


def spoil_interface(folder: Path) -> None:
    (folder / "interfaces").write_text("eth99\n")


SPOILT = {
    "a key that BeeGFS has not": (spoil_key, "'tuneNumWorker' is invalid"),
    "a secret that others may read": (lambda folder: (folder / "conn.auth").chmod(0o644), "mode 644"),
    "an empty secret": (lambda folder: (folder / "conn.auth").write_text(""), "is empty"),
    "an interface that is not there": (spoil_interface, "no usable network interface"),
}


@pytest.mark.parametrize("what", SPOILT)
def test_files_with_which_a_service_does_not_start(played: ModuleType, tmp_path: Path, what: str) -> None:
    spoil, says = SPOILT[what]
    configure(tmp_path, "8")
    spoil(tmp_path)
    with pytest.raises(played.Refused, match=says):
        played.configuration("storage")


@pytest.mark.parametrize(
    ("service", "arguments", "says"),
    [
        ("storage", ["-s", "1", "-C"], "is undefined"),
        ("storage", ["-p", "FULL", "-C"], "not empty"),
        ("storage", ["-p", "NEW"], "give it -C"),
        ("storage", ["-p", "NEW", "-C", "-x"], "Invalid argument -x"),
        ("meta", ["-p", "NEW", "-C", "-i", "1"], "Invalid argument -i"),
    ],
)
def test_services_that_are_not_set_up(
    played: ModuleType, tmp_path: Path, service: str, arguments: list[str], says: str
) -> None:
    (tmp_path / "FULL").mkdir()
    (tmp_path / "FULL/file").touch()
    with pytest.raises(played.Refused, match=says):
        played.set_up(service, [str(tmp_path / each) if each in ("FULL", "NEW") else each for each in arguments])


def test_management_knows_servers_by_the_secret_and_a_number(played: ModuleType, tmp_path: Path) -> None:
    configure(tmp_path, "8")
    played.PORTS["mgmtd"] = 0
    with played.Registry(str(tmp_path / "nodes")) as registry:
        known = {"auth": registry.secret, "op": "register", "kind": "storage", "number": 1, "name": "train-1"}
        assert "error" in registry.answer({**known, "auth": "guess"}, "10.0.0.1")
        assert registry.answer(known, "10.0.0.1") == {}
        assert registry.answer(known, "10.0.0.1") == {}
        assert "taken by train-1" in registry.answer({**known, "name": "train-2"}, "10.0.0.2")["error"]
        listed = registry.answer({"auth": registry.secret, "op": "list"}, "10.0.0.9")["nodes"]
        assert listed == {"storage 1": {"address": "10.0.0.1", "name": "train-1"}}

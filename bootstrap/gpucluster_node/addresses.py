"""The addresses of file systems on FSx that exist already: only FSx knows them. Python's standard library only, because
/home may be on one, and nodes mount it before they install anything.

usage: addresses home      prints DNS name, name or path, and version of the file system of /home, separated by tabs
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpucluster_node import aws_api

Mount = Mapping[str, Any]
Ask = Callable[..., Mapping[str, Any]]
"""Calls an action of FSx with its arguments."""
BUNDLE = Path(__file__).resolve().parents[1]


class Unusable(Exception):
    """FSx has the file system, and nodes cannot mount it."""


OVER_NFS = ("fsx-openzfs", "fsx-ontap")


def is_existing(mount: Mount) -> bool:
    """Whether only FSx knows its address."""
    return mount["type"] in OVER_NFS or (mount["type"] == "fsx-lustre" and "file_system_id" in mount)


def address(mount: Mount, ask: Ask) -> dict[str, str]:
    """`mount_name`: Lustre's name, or the path of the volume. Raises Unusable."""
    of_type = {"fsx-lustre": _of_lustre, "fsx-openzfs": _of_openzfs, "fsx-ontap": _of_ontap}
    return of_type[str(mount["type"])](mount, ask)


def _of_lustre(mount: Mount, ask: Ask) -> dict[str, str]:
    system_id = str(mount["file_system_id"])
    system = ask("DescribeFileSystems", FileSystemIds=[system_id])["FileSystems"][0]
    if system.get("FileSystemType") != "LUSTRE":
        raise Unusable(f"{system_id} is of the type {system.get('FileSystemType')}, not LUSTRE")
    return {
        "dns_name": system["DNSName"],
        "mount_name": system["LustreConfiguration"]["MountName"],
        "version": system.get("FileSystemTypeVersion", ""),
    }


def _of_openzfs(mount: Mount, ask: Ask) -> dict[str, str]:
    volume = _volume(mount, "OPENZFS", ask)
    system = ask("DescribeFileSystems", FileSystemIds=[volume["FileSystemId"]])["FileSystems"][0]
    return _over_nfs(mount, system["DNSName"], volume["OpenZFSConfiguration"].get("VolumePath"))


def _of_ontap(mount: Mount, ask: Ask) -> dict[str, str]:
    """Clients of ONTAP mount from a virtual machine, which has a name of its own."""
    settings = _volume(mount, "ONTAP", ask)["OntapConfiguration"]
    ids = [settings["StorageVirtualMachineId"]]
    machine = ask("DescribeStorageVirtualMachines", StorageVirtualMachineIds=ids)["StorageVirtualMachines"][0]
    return _over_nfs(mount, machine["Endpoints"]["Nfs"]["DNSName"], settings.get("JunctionPath"))


def _volume(mount: Mount, kind: str, ask: Ask) -> Mapping[str, Any]:
    found: Mapping[str, Any] = ask("DescribeVolumes", VolumeIds=[str(mount["volume_id"])])["Volumes"][0]
    if found.get("VolumeType") != kind:
        raise Unusable(f"{mount['volume_id']} is of the type {found.get('VolumeType')}, not {kind}")
    return found


def _over_nfs(mount: Mount, dns_name: str, path: str | None) -> dict[str, str]:
    """/etc/fstab separates its fields by spaces."""
    if not path or any(character.isspace() for character in path):
        raise Unusable(f"{mount['volume_id']} has {f'the path {path!r}' if path else 'no path'}: it cannot be mounted")
    return {"dns_name": dns_name, "mount_name": path, "version": ""}


def ask_fsx(action: str, **arguments: Any) -> Mapping[str, Any]:
    return aws_api.ask("fsx", action, **arguments)


def of(mount: Mount) -> dict[str, str]:
    """Ends the program with the reason if FSx does not return the address."""
    try:
        return address(mount, ask_fsx)
    except (*aws_api.ERRORS, Unusable) as error:
        sys.exit(f"FSx does not return where {mount['mount']} is: {error}")


def of_home(bundle: Path = BUNDLE) -> Mapping[str, Any]:
    mounts = json.loads((bundle / "storage.json").read_text())["mounts"]
    home = next(each for each in mounts if each["mount"] == "/home")
    if is_existing(home):
        return of(home)
    path = json.loads((bundle / "fleet.json").read_text())["ssm_path"]
    found: Mapping[str, Any] = json.loads(aws_api.parameter(path + home["parameter"]))
    return found


def main() -> None:
    found = of_home()
    print("\t".join((found["dns_name"], found["mount_name"], found["version"] or "-")))


if __name__ == "__main__":
    main()

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


def is_existing(mount: Mount) -> bool:
    """Whether only FSx knows its address."""
    return "file_system_id" in mount and mount["type"] == "fsx-lustre"


def address(mount: Mount, ask: Ask) -> dict[str, str]:
    """`mount_name`: Lustre's name. Raises Unusable."""
    system_id = str(mount["file_system_id"])
    system = ask("DescribeFileSystems", FileSystemIds=[system_id])["FileSystems"][0]
    if system.get("FileSystemType") != "LUSTRE":
        raise Unusable(f"{system_id} is of the type {system.get('FileSystemType')}, not LUSTRE")
    return {
        "dns_name": system["DNSName"],
        "mount_name": system["LustreConfiguration"]["MountName"],
        "version": system.get("FileSystemTypeVersion", ""),
    }


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

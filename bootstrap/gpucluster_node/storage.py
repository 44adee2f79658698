"""The cluster's file systems and their addresses.

usage: storage resolve      prints the bundle's storage.json as JSON, each mount with the values of its SSM parameter
       storage table        reads that from standard input; prints a line per mount, with columns separated by tabs:
                            mount, type (`nfs` for volumes of OpenZFS and ONTAP), DNS name, Lustre's name or a path,
                            whether over EFA, version, directories for everybody

The head node writes the result to /home for the compute nodes: Parameter Store answers 40 calls a second.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gpucluster_node import addresses, fleet
from gpucluster_node.aws import AWS_ERRORS, client
from gpucluster_node.log import start_logging

Mount = Mapping[str, Any]
NOTHING = "-"
"""Placeholder for an empty column, because bash treats several tabs as one."""


def resolve(
    mounts: list[Mount], ask: Callable[[str], Mapping[str, Any]], find: Callable[[Mount], Mapping[str, Any]]
) -> list[Mount]:
    """`ask`: returns the parameter of a name. Values of the cluster file take precedence. `find`: asks FSx for the
    address of a file system that exists already.

    A file system with `lifetime: jobs` has no permanent address: see lustre_users.py.
    """
    return [each if each.get("lifetime") == "jobs" else {**_known(each, ask, find), **each} for each in mounts]


def _known(
    mount: Mount, ask: Callable[[str], Mapping[str, Any]], find: Callable[[Mount], Mapping[str, Any]]
) -> Mapping[str, Any]:
    return find(mount) if addresses.is_existing(mount) else ask(mount["parameter"])


def table(mounts: list[Mount]) -> Iterator[str]:
    """Without file systems with `lifetime: jobs`: see lustre_users.py."""
    for each in mounts:
        if each.get("lifetime") == "jobs":
            continue
        columns = (
            each["mount"],
            "nfs" if each["type"] in addresses.OVER_NFS else each["type"],
            each.get("dns_name"),
            each.get("mount_name"),
            "efa" if each.get("efa") else None,
            each.get("version"),
            ",".join(each.get("for_everybody", ())),
        )
        yield "\t".join(str(column or NOTHING) for column in columns)


def main() -> None:
    start_logging()
    if sys.argv[1] == "table":
        for line in table(json.load(sys.stdin)["mounts"]):
            print(line)
        return
    mounts = json.loads(Path(fleet.BUNDLE, "storage.json").read_text())["mounts"]
    cluster, ssm = fleet.load(), client("ssm")
    try:
        found = resolve(mounts, lambda name: fleet.parameter(ssm, cluster, name), addresses.of)
    except AWS_ERRORS as error:
        sys.exit(f"Parameter Store does not return where the file systems are: {error}")
    print(json.dumps({"mounts": found}, indent=2))


if __name__ == "__main__":
    main()

from __future__ import annotations

import os
from pathlib import Path
from tempfile import mkdtemp

from validator_cases.case import Case, Keys, cluster, partition

FOLDER = Path(mkdtemp())
"""Scripts are there: a local path counts from the cluster file's folder, or is absolute."""
SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
OF_GOOD = "a8076d3d28d21e02012b20eaf7dbf75409a6277134439025f282e368e3305abf"
IN_S3 = "s3://my-bucket/setup.sh"


def local(name: str, content: bytes, **keys: object) -> Keys:
    (FOLDER / name).write_bytes(content)
    return partition(scripts=[{"source": str(FOLDER / name), **keys}])


def pipe(name: str) -> str:
    os.mkfifo(FOLDER / name)
    return str(FOLDER / name)


def named(source: str, **keys: object) -> Keys:
    return partition(scripts=[{"source": source, "sha256": SHA256, **keys}])


GOOD = local("good.sh", b"#!/bin/sh\n")
HEADS = cluster(head_node={"scripts": [{"source": IN_S3, "sha256": SHA256, "time_limit_minutes": 180}] * 4})
FORM = "must be a file such as ./setup.sh, s3://bucket/key or https://host/path, got "

CASES: dict[str, Case | list[Case]] = {
    "script-source-form": [
        Case(fails=named(wrong), key="partitions[0].scripts[0].source", says=f"{FORM}{wrong!r}", passes=named(right))
        for wrong, right in (
            ("s3://my-bucket", IN_S3),
            ("s3://my-bucket/scripts/", IN_S3),
            ("http://example.com/setup.sh", "https://example.com/setup.sh"),
            ("https://example.com", "https://example.com/setup.sh?v=1"),
            ("https://me:secret@example.com/setup.sh", "https://example.com/setup.sh"),
            ("ftp://example.com/setup.sh", "https://example.com:8443/setup.sh"),
        )
    ]
    + [Case(fails=named(" "), key="partitions[0].scripts[0].source", says=f"{FORM}' '", passes=GOOD)],
    "script-when": Case(
        fails=named(IN_S3, when="boot"),
        key="partitions[0].scripts[0].when",
        says="must be before or after, got 'boot'",
        passes=named(IN_S3, when="before"),
    ),
    "script-minutes": [
        Case(
            fails=named(IN_S3, time_limit_minutes=minutes),
            key="partitions[0].scripts[0].time_limit_minutes",
            says=f"must be at {says}, got {minutes}",
            passes=named(IN_S3, time_limit_minutes=180),
        )
        for minutes, says in ((0, "least 1"), (181, "most 180"))
    ],
    "script-sha256-form": Case(
        fails=named(IN_S3, sha256="9f86"),
        key="partitions[0].scripts[0].sha256",
        says="must be a SHA-256 in 64 hexadecimal digits, got '9f86'",
        passes=named(IN_S3),
    ),
    "script-file-runs": [
        Case(
            fails=local(name, content),
            key="partitions[0].scripts[0].source",
            says=f"{FOLDER / name} {says}",
            passes=GOOD,
        )
        for name, content, says in (
            ("bare.sh", b"echo\n", "does not begin with #!, so no node can run it"),
            ("empty.sh", b"", "does not begin with #!, so no node can run it"),
            (
                "windows.sh",
                b"#!/bin/sh\r\necho\r\n",
                "has the line ends of Windows (CRLF), with which no node can run it",
            ),
            ("binary.sh", b"#!/bin/sh\n\xff", "is not UTF-8 text: byte 10 is 0xff"),
            (
                "large.sh",
                b"#!/bin/sh\n" + b"#" * (1 << 20),
                "has more than the 1048576 bytes that a script may have",
            ),
        )
    ]
    + [
        Case(
            fails=partition(scripts=[{"source": str(FOLDER / "none.sh")}]),
            key="partitions[0].scripts[0].source",
            says=f"{FOLDER / 'none.sh'} cannot be read: No such file or directory",
            passes=GOOD,
        ),
        Case(
            fails=cluster(parameter_servers={"scripts": [{"source": str(FOLDER)}]}),
            key="parameter_servers.scripts[0].source",
            says=f"{FOLDER} cannot be read: Is a directory",
            passes=GOOD,
        ),
        Case(
            fails=partition(scripts=[{"source": pipe("pipe.sh"), "sha256": SHA256}]),
            key="partitions[0].scripts[0].source",
            says=f"{FOLDER / 'pipe.sh'} cannot be read: it is no regular file",
            passes=GOOD,
        ),
        Case(
            fails=partition(scripts=[{"source": "/dev/zero"}]),
            key="partitions[0].scripts[0].source",
            says="/dev/zero cannot be read: it is no regular file",
            passes=GOOD,
        ),
    ],
    "script-file-is-pinned": Case(
        fails=local("good.sh", b"#!/bin/sh\n", sha256=SHA256),
        key="partitions[0].scripts[0].sha256",
        says=f"{FOLDER / 'good.sh'} has the SHA-256 {OF_GOOD}",
        passes=local("good.sh", b"#!/bin/sh\n", sha256=OF_GOOD),
    ),
    "script-pinned": [
        Case(
            fails=partition(scripts=[{"source": source}]),
            key="partitions[0].scripts[0].source",
            says="has no sha256: a user who can change it there can run any program as root on these nodes",
            passes=named(source),
        )
        for source in (IN_S3, "https://example.com/setup.sh")
    ],
    "script-within-reach": Case(
        fails={
            **named("https://example.com/setup.sh"),
            "network": {"internet": "none"},
            "software": {"image": "ami-01234567"},
        },
        key="partitions[0].scripts[0].source",
        says="with network.internet: none no node reaches it",
        passes={**named(IN_S3), "network": {"internet": "none"}, "software": {"image": "ami-01234567"}},
    ),
    "scripts-minutes": Case(
        fails=HEADS,
        key="head_node.scripts",
        says="their time limits are 720 minutes together, and may be 600",
        passes=cluster(head_node={"scripts": HEADS["head_node"]["scripts"][:3]}),
    ),
}

"""`users` of cluster.yaml: people who have their own account on the cluster."""

import re
from typing import Annotated, ClassVar
from zlib import crc32

from pydantic import AfterValidator, Field

from gpucluster.config.fields import Count
from gpucluster.config.limits import Limit
from gpucluster.config.section import Section
from gpucluster.config.value_checks import field, form, refuse

FIRST_UID, LAST_UID = 20_000, 59_999
"""Debian's policy leaves 1000 to 59999 to people. Images number their own accounts from 1000."""
UIDS = "https://www.debian.org/doc/debian-policy/ch-opersys.html: 9.2.2: dynamically allocated user accounts"


@field("user-public-key-form", section="Users", source="man sshd.8: AUTHORIZED_KEYS FILE FORMAT")
def _public_key(value: str) -> str:
    """public_key is the line of a public SSH key, as in a .pub file."""
    if "PRIVATE KEY" in value:
        raise refuse("is a private key, which must stay secret", "write the line of the .pub file beside it")
    if re.match(r"[~./]\S*$", value):
        raise refuse(f"must be a public SSH key, got the path {value!r}", "write the line that this file contains")
    if not value.isprintable() or not _is_key(value):
        raise refuse(
            f"must be a public SSH key such as ssh-ed25519 AAAA…, got {_short(value)}",
            "`ssh-keygen -t ed25519` makes a key; write the line of its .pub file",
        )
    return value


def _is_key(value: str) -> bool:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key

    try:
        load_ssh_public_key(value.encode())
    except (ValueError, UnsupportedAlgorithm):
        return False
    return True


def _short(value: str) -> str:
    return repr(value if len(value) <= 40 else f"{value[:40]}…")


UserName = Annotated[
    str,
    form(
        "user-name-form",
        "Users",
        "A user's name",
        r"[a-z][a-z0-9_-]{0,31}",
        "lower-case letters, digits, hyphens and underscores, starting with a letter, at most 32 characters",
        "man useradd.8: CAVEATS: names",
    ),
]
PublicKey = Annotated[str, AfterValidator(_public_key)]


class User(Section):
    heading: ClassVar[str] = "Users"

    name: UserName
    uid: Annotated[int, Field(strict=True, ge=1001, le=LAST_UID), Limit("user-uid-range", UIDS)] | None = None
    public_key: PublicKey | None = None
    fair_share: Annotated[Count, Limit("user-fair-share", "man sacctmgr.1: Fairshare: an integer")] = 1
    max_jobs: Annotated[Count, Limit("user-max-jobs", "man sacctmgr.1: MaxJobs")] | None = None
    max_gpus: Annotated[Count, Limit("user-max-gpus", "man sacctmgr.1: GrpTRES")] | None = None

    @property
    def number(self) -> int:
        """The uid on every node. It depends only on the name, not on other users, so files on /home keep their owner
        even if the user is removed and added again."""
        return self.uid or FIRST_UID + crc32(self.name.encode()) % (LAST_UID - FIRST_UID + 1)

    @property
    def limits(self) -> str:
        """Arguments of `sacctmgr modify user`; -1 removes a limit."""
        return f"fairshare={self.fair_share} maxjobs={self.max_jobs or -1} grptres=gres/gpu={self.max_gpus or -1}"

    @property
    def key(self) -> str:
        """Its type and data, without the comment."""
        return " ".join((self.public_key or "").split()[:2])

"""`users` of cluster.yaml: people who have their own account on the cluster."""

import re
from typing import Annotated, ClassVar
from zlib import crc32

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from gpucluster.config.fields import Count
from gpucluster.config.invisible import name_of as invisible_name
from gpucluster.config.limits import Limit
from gpucluster.config.section import Section
from gpucluster.config.value_checks import field, form, refuse

BILLING_OF_GPU = 100_000
"""What a GPU, or a node that has some, weighs in a user's limit. The CPUs of nodes without GPUs weigh 1 each, and the
rest of the limit below the next GPU is for them, more than a cluster has. So only nodes with GPUs reach the limit."""
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
    line = value.strip()  # a block scalar (|) ends in a newline
    if not line.isprintable() or not _is_key(line):
        raise _refused(line)
    return line


def _refused(value: str) -> PydanticCustomError:
    """Names what is wrong with a text that is nearly a key."""
    lines = [line.strip() for line in value.splitlines() if line.strip()]
    if "BEGIN" in value:
        import_it = "`ssh-keygen -i -f FILE` prints it as one line; for a PEM file, `ssh-keygen -i -m PKCS8 -f FILE`"
        return refuse(f"must be a line as in a .pub file of OpenSSH, got {_short(lines[0])}", import_it)
    if len(lines) > 1:
        return _several(lines)
    if strange := next((index for index, each in enumerate(value) if not each.isprintable()), None):
        what = f"its character {strange + 1} is invisible: {invisible_name(value[strange])}"
        return refuse(f"must be a public SSH key, got {_short(value)}", f"{what}; remove it")
    words = value.split()
    first = next((index for index, word in enumerate(words) if _TYPE.match(word)), None)
    if first and _is_key(" ".join(words[first:])):
        return refuse(f"must begin with the key's type, such as ssh-ed25519, got {_short(value)}", "write no options")
    hint = "`ssh-keygen -t ed25519` makes a key; write the line of its .pub file"
    if first == 0:
        hint = (
            f"what follows {words[0]} is cut off, or a character of it is wrong: copy the line of the .pub file again"
        )
    return refuse(f"must be a public SSH key such as ssh-ed25519 AAAA…, got {_short(value)}", hint)


def _several(lines: list[str]) -> PydanticCustomError:
    keys = [line for line in lines if _is_key(line)]
    if len(keys) > 1:
        return refuse(f"must be one public SSH key, got {len(keys)}", "a user has one key: write one line")
    if not keys and _is_key("".join(lines)):
        return refuse(f"must be one line, got a key that is broken into {len(lines)}", "write it in one line")
    hint = f"write only the line {_short(keys[0])}" if keys else "write the line of the .pub file, as one line"
    return refuse(f"must be one line, a public SSH key, got {len(lines)} lines", hint)


_TYPE = re.compile(r"(sk-)?(ssh-|ecdsa-)\S+$")
"""man sshd.8: AUTHORIZED_KEYS FILE FORMAT: the types of keys."""


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
        gpus = self.max_gpus or -1
        billing = BILLING_OF_GPU * (self.max_gpus + 1) - 1 if self.max_gpus else -1
        return f"fairshare={self.fair_share} maxjobs={self.max_jobs or -1} grptres=gres/gpu={gpus},billing={billing}"

    @property
    def key(self) -> str:
        """Its type and data, without the comment."""
        return " ".join((self.public_key or "").split()[:2])

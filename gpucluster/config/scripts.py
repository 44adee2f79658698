"""The user's own scripts on nodes: the section of cluster.yaml, and the files that it names."""

import errno
import os
import re
import stat
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Annotated, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from gpucluster.addresses import S3, in_s3
from gpucluster.config.limits import Limit
from gpucluster.config.s3_form import s3_uri
from gpucluster.config.section import Section
from gpucluster.config.value_checks import field, form, refuse

MOST_BYTES = 1 << 20
"""The most that a script may have. Local ones travel in the bundle, which every node downloads."""
HTTPS = "https://"
BASH = "man bash.1: COMMAND EXECUTION: the first line of a script names its interpreter"


@field("script-source-form", section="Scripts", source="RFC 3986: a URL; man curl.1: --proto =https")
def _source(value: str) -> str:
    """A script's source is a file beside cluster.yaml such as ./setup.sh, an object s3://bucket/key, or a URL
    https://…"""
    what = "must be a file such as ./setup.sh, s3://bucket/key or https://host/path"
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):/", value)
    if in_s3(value):
        if not value.removeprefix(S3).partition("/")[2].strip("/") or value.endswith("/"):
            raise refuse(f"{what}, got {value!r}", "name the object, not its folder")
        return s3_uri(value)
    if value.startswith(HTTPS):
        url = urlsplit(value)
        if not url.hostname or url.path in ("", "/") or url.username or not re.fullmatch(r"[!-~]+", value):
            raise refuse(f"{what}, got {value!r}", "the URL needs a host and a path, and no password or spaces")
        return value
    if scheme:
        hint = f"write {HTTPS}" if scheme[1].lower() == "http" else "copy it beside cluster.yaml, or to a bucket"
        raise refuse(f"{what}, got {value!r}", hint)
    if not value.strip() or not value.isprintable():
        raise refuse(f"{what}, got {value!r}")
    return value


Sha256 = Annotated[
    str,
    form(
        "script-sha256-form",
        "Scripts",
        "sha256",
        r"[0-9a-f]{64}",
        "a SHA-256 in 64 hexadecimal digits",
        "man sha256sum.1: the digest of each file",
        "`sha256sum FILE` prints it",
    ),
]


class Script(Section):
    heading: ClassVar[str] = "Scripts"

    when: Annotated[
        Literal["before", "after"],
        Limit("script-when", "https://docs.aws.amazon.com/parallelcluster/latest/ug/custom-bootstrap-actions-v3.html"),
    ] = "after"
    source: Annotated[str, AfterValidator(_source)]
    sha256: Sha256 | None = None
    args: tuple[str, ...] = ()
    time_limit_minutes: Annotated[
        int, Field(strict=True, ge=1, le=180), Limit("script-minutes", "man slurm.conf.5: ResumeTimeout")
    ] = 30

    @property
    def is_local(self) -> bool:
        return not self.source.startswith((S3, HTTPS))

    @property
    def name(self) -> str:
        """The last part of its address, as a file's name."""
        path = urlsplit(self.source).path if self.source.startswith(HTTPS) else self.source
        return re.sub(r"[^A-Za-z0-9._-]", "-", path.rstrip("/").rpartition("/")[2])

    def file(self, folder: Path) -> Path:
        """For a local one. `folder`: that of the cluster file."""
        return folder / Path(self.source).expanduser()

    def content(self, folder: Path) -> bytes:
        """A local one; of a larger file one byte more than a script may have. Raises OSError, for a pipe or a device
        too, of which reading might never end."""
        with open(os.open(self.file(folder), os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "it is no regular file")
            return file.read(MOST_BYTES + 1)

    def digest(self, folder: Path) -> str | None:
        """The SHA-256 that it must have on nodes; None: any. Raises OSError."""
        if self.is_local:
            return sha256(self.content(folder)).hexdigest()
        return self.sha256


def minutes(scripts: Sequence[Script]) -> int:
    """How long they may take together."""
    return sum(each.time_limit_minutes for each in scripts)

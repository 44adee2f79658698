"""Rules about `scripts`: what can be known of a node's script before a node runs it."""

from __future__ import annotations

from gpucluster.addresses import in_s3
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.nodes import HeadNode, ParameterServers, Partition
from gpucluster.config.scripts import BASH, HTTPS, MOST_BYTES, Script, minutes
from gpucluster.config.validators import Findings, Validators

validator = Validators("Scripts")

MOST_MINUTES = 600
RUN_COMMAND = "https://docs.aws.amazon.com/parallelcluster/latest/ug/custom-bootstrap-actions-v3.html: Warning"


@validator("script-file-runs", f"{BASH}; man execve.2: ENOEXEC, and ENOENT for an interpreter that ends in \\r")
def script_file_runs(script: Script, path: Path, config: ClusterConfig) -> Findings:
    """A local script is a text file of at most 1 MiB that begins with #! and has no lines of Windows."""
    if not script.is_local:
        return
    file, place = script.file(config.folder), (*path, "source")
    try:
        found = script.content(config.folder)
    except OSError as error:
        hint = "a path counts from the folder of cluster.yaml"
        yield Finding(place, f"{file} cannot be read: {error.strerror}", hint)
        return
    if fault := _fault(found):
        yield Finding(place, f"{file} {fault[0]}", fault[1].format(file=file))


def _fault(found: bytes) -> tuple[str, str] | None:
    """What is wrong with the file, and what to do."""
    if len(found) > MOST_BYTES:
        hint = "keep data and programs in S3, and let the script download them"
        return f"has more than the {MOST_BYTES} bytes that a script may have", hint
    if not found.startswith(b"#!"):
        return "does not begin with #!, so no node can run it", "its first line must be as #!/bin/bash"
    if b"\r\n" in found:
        return "has the line ends of Windows (CRLF), with which no node can run it", "sed -i 's/\\r$//' {file}"
    try:
        found.decode()
    except UnicodeDecodeError as error:
        return f"is not UTF-8 text: byte {error.start} is 0x{found[error.start]:02x}", "keep programs in S3"
    return None


@validator("script-file-is-pinned", "man sha256sum.1: the digest of each file")
def script_file_is_pinned(script: Script, path: Path, config: ClusterConfig) -> Findings:
    """A local script has the SHA-256 that the file gives for it."""
    if not script.is_local or script.sha256 is None:
        return
    try:
        got = script.digest(config.folder)
    except OSError:  # script-file-runs says why
        return
    if got != script.sha256:
        hint = "see what has changed in it, then write this one, or remove sha256: the file travels as it is"
        yield Finding((*path, "sha256"), f"{script.file(config.folder)} has the SHA-256 {got}", hint)


@validator("script-pinned", RUN_COMMAND, level="warning")
def script_pinned(script: Script, path: Path, config: ClusterConfig) -> Findings:
    """A script in S3 or on a web server has a sha256: otherwise a person who can change it there can
    run any program as root on all nodes."""
    if script.is_local or script.sha256:
        return
    get = f"aws s3 cp {script.source} -" if in_s3(script.source) else f"curl -sSfL {script.source}"
    message = "has no sha256: a user who can change it there can run any program as root on these nodes"
    yield Finding((*path, "source"), message, f"`{get} | sha256sum` prints it: write sha256: …")


@validator("script-within-reach", "https://docs.aws.amazon.com/vpc/latest/privatelink/gateway-endpoints.html")
def script_within_reach(script: Script, path: Path, config: ClusterConfig) -> Findings:
    """Without internet no script comes from a web server."""
    if script.source.startswith(HTTPS) and config.network.internet == "none":
        message = "with network.internet: none no node reaches it"
        yield Finding((*path, "source"), message, "copy it to S3, or beside cluster.yaml")


@validator("scripts-minutes", "AWS::CloudFormation::WaitCondition Timeout: at most 43,200 s")
def scripts_minutes(nodes: HeadNode | Partition | ParameterServers, path: Path, config: ClusterConfig) -> Findings:
    """The time limits of a node's scripts are at most 600 minutes together."""
    if minutes(nodes.scripts) > MOST_MINUTES:
        message = f"their time limits are {minutes(nodes.scripts)} minutes together, and may be {MOST_MINUTES}"
        yield Finding((*path, "scripts"), message, "a node is billed while its scripts run: lower them", at="key")

"""A command as it is sent to the login shell of an account on the cluster, and its output without what the account's
own files, such as ~/.bashrc, print before it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from gpucluster.errors import RemoteError
from gpucluster.head import streams

BEGIN = b"gpucluster:begin\n"
"""Printed to both outputs before the command. If it is missing, the command did not start."""

# Slurm's commands read variables as options, and those of sbatch override the job's #SBATCH lines ("INPUT ENVIRONMENT
# VARIABLES" in man sbatch.1, and in those of the others). An account may have set them for its own jobs. Those that
# remain say how the controller is reached (man slurm.1; authentication.html of Slurm).
_CLEARED = r"""
for name in $(env | sed -n 's/^\(S[A-Z]*_[A-Za-z0-9_]*\)=.*/\1/p'); do
  case $name in
    SLURM_CONF | SLURM_CONF_SERVER | SLURM_JWT | SLURM_SACK_*) ;;
    SLURM_* | SBATCH_* | SALLOC_* | SRUN_* | SQUEUE_* | SINFO_* | SACCT_* | SCANCEL_* | SCONTROL_*) unset "$name" ;;
    SATTACH_* | SBCAST_* | SCRONTAB_* | SDIAG_* | SPRIO_* | SREPORT_* | SSHARE_* | SSTAT_*) unset "$name" ;;
  esac
done
"""
_MARKED = r"""
printf 'gpucluster:begin\n' >&2
printf 'gpucluster:begin\n'
"""


def around(argv: Sequence[str], setting: str = "") -> list[str]:
    """Begins with the mark, and without the account's variables for Slurm. `setting`: lines of sh before the command,
    which is in "$@"."""
    return ["sh", "-c", f'{_CLEARED}{setting}{_MARKED}exec "$@"', "sh", *argv]


def without_settings(argv: Sequence[str]) -> list[str]:
    """For a command whose outputs are the user's terminal."""
    return ["sh", "-c", f'{_CLEARED}exec "$@"', "sh", *argv]


def after_mark(output: bytes) -> bytes | None:
    """None: the command did not start."""
    _, began, rest = output.partition(BEGIN)
    return rest if began else None


def messages(errors: bytes) -> str:
    """The command's stderr. All of it, if the account's files have sent the mark elsewhere."""
    rest = after_mark(errors)
    return (errors if rest is None else rest).decode(errors="replace")


def pieces_after_mark(pieces: Iterator[bytes | None]) -> Iterator[bytes | None]:
    """The pieces of a command's output while it arrives; None is passed on."""
    before: bytes | None = b""
    for piece in pieces:
        if before is None or piece is None:
            yield piece
            continue
        before += piece
        if rest := after_mark(before):
            yield rest
        before = before if BEGIN not in before else None


def output_after_mark(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """As `pieces_after_mark`, of a command that ends. Raises RemoteError if it did not start."""
    before: bytes | None = b""
    for piece in pieces:
        if before is None:
            yield piece
        elif (rest := after_mark(before + piece)) is None:
            before += piece
        else:
            before = None
            if rest:
                yield rest
    if before is not None:
        raise RemoteError(
            f"the head node did not run a command: {last_line(before.decode(errors='replace'), 'no output')}"
        )


def put_argv(path: str, mode: int) -> list[str]:
    script = 'umask 077 && cat >"$1.new" && chmod "$2" "$1.new" && mv "$1.new" "$1"'
    return ["sh", "-c", script, "sh", path, f"{mode:o}"]


def tail_argv(path: str, offset: int) -> list[str]:
    """`tail` ends with stdin, which ends with the connection; otherwise it would stay until the file grows. While it
    boots, the head node has no /home at first."""
    script = '{ until [ -e "$2" ]; do sleep 1; done; exec tail --bytes="+$1" -f "$2"; } & cat >/dev/null; kill $!'
    return ["sh", "-c", script, "sh", str(offset + 1), path]


def lines_of(tail: Callable[[int], Iterator[bytes | None]]) -> Iterator[str]:
    """The lines of a file. `tail` gives what it holds from a byte on, and None at the end. It may end early, as a
    connection does: the next one continues at the same byte."""
    offset, rest = 0, b""
    while True:
        for data in tail(offset):
            if data is None:
                yield from streams.last_line(rest)
                return
            offset += len(data)
            *lines, rest = (rest + data).split(b"\n")
            yield from (line.decode(errors="replace") for line in lines)


def last_line(text: str, none: str) -> str:
    lines = [line for line in re.split(r"\s*\n", text.strip()) if line]
    return lines[-1] if lines else none

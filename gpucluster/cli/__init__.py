"""The command line: `gpucluster VERB`. One file per verb, imported when it is used.

This file must stay quick to import: `gpucluster --help` loads only this file, click and the errors. Therefore the
help line of each verb is here. To add a verb: a line in SECTIONS, and a module of that name with a click command
`command`.

Exit codes: 0 done, 2 the user's input, 3 AWS or capacity, 4 the job failed, 1 anything else, 130 interrupted.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import click

from gpucluster.cli.frame import cluster_file
from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.frame.screen import Screen
from gpucluster.cluster_file import nearest
from gpucluster.errors import INTERRUPTED_EXIT_CODE, GpuClusterError
from gpucluster.meant import did_you_mean

SECTIONS = {
    "Prepare": {
        "doctor": "Check whether this machine has what `up` needs, on AWS and with --local.",
        "init": "Write a commented cluster.yaml, or a job from a template, to start from.",
        "types": "List instance types: GPUs, EFA, memory, price.",
        "validate": "Check a cluster.yaml offline and list every problem.",
        "plan": "Show what `up` would create or change, and the price per hour.",
        "render": "Write the files that nodes boot with to a folder, to read them.",
    },
    "The cluster": {
        "up": "Create or update the cluster on AWS, or on this machine with --local.",
        "status": "Show the head node, the compute nodes and the jobs.",
        "top": "Show nodes, GPUs, jobs and the price of an hour, again and again.",
        "ui": "Show nodes, jobs, logs, curves and money on a page in your browser.",
        "list": "List all clusters of your AWS account in one region.",
        "stop": "Stop the head node, for example overnight; the queue and data stay.",
        "start": "Start the head node after `stop`.",
        "head": "Replace the head node; the queue and running jobs stay.",
        "image": "Build machine images, so that nodes install nothing at boot.",
        "env": "List, build and check the Python environments of jobs.",
        "context": "Use a Slurm cluster that GpuCluster did not build.",
        "down": "Delete the cluster; asks first.",
    },
    "Jobs": {
        "submit": "Submit a job, such as a training program on several nodes.",
        "jobs": "List jobs.",
        "logs": "Show a job's log, from all its nodes.",
        "metrics": "Draw a job's metrics and the load of its nodes, or write them to files.",
        "why": "Explain why a job is pending or slow, or how it ended.",
        "cancel": "Cancel jobs.",
        "tensorboard": "Open TensorBoard with the event files of jobs.",
        "results": "Show the results and metrics of a sweep or an array.",
        "cost": "Show what jobs and nodes have cost, and what was wasted.",
        "resubmit": "Run the failed elements of a sweep or an array again.",
        "bench": "Compare the speed of a program on several numbers of nodes, and with several launchers.",
    },
    "Shells, files and ports": {
        "ssh": "Open a shell on the head node, or run a command there.",
        "shell": "Open a shell on a compute node, as a job of its own.",
        "cp": "Copy files to the cluster or from it.",
        "sync": "Copy new and changed files to the cluster or from it; continues after an interruption.",
        "fetch": "Copy a job's folder to this machine.",
        "data": "Pack a data set into shards, or check shards.",
        "forward": "Make a port of the cluster reachable on this machine, such as TensorBoard's.",
        "ssh-config": "Make plain ssh, scp, rsync and editors reach the cluster.",
    },
}
VERBS = {verb: line for section in SECTIONS.values() for verb, line in section.items()}
HIDDEN = ("tunnel",)
"""Programs start these, not people."""
ROOMS = {
    "reach": frozenset({"cp", "fetch", "forward", "shell", "ssh", "ssh-config", "sync", "tunnel"}),
    "seeing": frozenset({"metrics", "tensorboard", "top", "ui"}),
}
"""The folders of the verbs whose modules are not in this one."""


class Verbs(click.Group):
    """Knows every verb's name and help line without importing it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in (*VERBS, *HIDDEN):
            return None
        room = next((f"{room}." for room, verbs in ROOMS.items() if cmd_name in verbs), "")
        command: click.Command = import_module(f"gpucluster.cli.{room}{cmd_name.replace('-', '_')}").command
        return cluster_file.accept(command, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in (*VERBS, *HIDDEN):
            raise click.UsageError(_unknown_verb(args[0]), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, VERBS))
        for title, verbs in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(verb.ljust(width), line) for verb, line in verbs.items()])


SYNONYMS = {
    "apply": "up",
    "bash": "ssh",
    "config-ssh": "ssh-config",
    "copy": "cp",
    "create": "up",
    "dashboard": "ui",
    "delete": "down",
    "deploy": "up",
    "destroy": "down",
    "diff": "plan",
    "exec": "ssh",
    "help": "--help",
    "kill": "cancel",
    "launch": "up` for a cluster, or `gpucluster submit",
    "instances": "types",
    "ls": "list",
    "ps": "jobs",
    "queue": "jobs",
    "rm": "down",
    "run": "submit",
    "rsync": "sync",
    "sbatch": "submit",
    "salloc": "shell",
    "scancel": "cancel",
    "scp": "cp",
    "sinfo": "status",
    "squeue": "jobs",
    "srun": "submit",
    "terminate": "down",
}
"""Verbs of other tools."""


def _unknown_verb(got: str) -> str:
    if got in SYNONYMS:
        return f"no such verb: {got!r}; use `gpucluster {SYNONYMS[got]}`"
    if got.endswith((".yaml", ".yml")):
        return f"no such verb: {got!r}; -c {got} selects a cluster file, `gpucluster submit {got}` submits a job"
    hint = did_you_mean(got, VERBS)
    return f"no such verb: {got!r}" + (f", {hint}" if hint else "")


def _version(ctx: click.Context, parameter: click.Parameter, asked: bool) -> None:
    if not asked:
        return
    from importlib.metadata import PackageNotFoundError, version

    try:
        number = version("gpucluster")
    except PackageNotFoundError:
        number = "from a source tree"
    click.echo(f"gpucluster {number}")
    ctx.exit()


FIRST_STEPS = """\b
First steps:
  gpucluster init                    # writes cluster.yaml
  gpucluster plan                    # shows the price
  gpucluster up                      # creates the cluster; with --local on this machine
  gpucluster submit --nodes 2 --follow -- python train.py
  gpucluster down                    # deletes the cluster

`gpucluster VERB --help` explains a verb. Exit codes: 0 done, 2 invalid input, 3 AWS or the cluster refused,
has no capacity, or cannot be reached, 4 the job failed, 130 interrupted, 1 any other error.
"""


@click.command(
    cls=Verbs,
    subcommand_metavar="VERB [ARGUMENTS]...",
    epilog=FIRST_STEPS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "-c",
    "--config",
    "config_path",
    metavar="FILE",
    envvar="GPUCLUSTER_CONFIG",
    help="Cluster file, before or after the verb.  [env: GPUCLUSTER_CONFIG; default: the nearest cluster.yaml, "
    "here or in a folder above]",
)
@click.option(
    "--context",
    "context_name",
    metavar="NAME",
    help="Slurm cluster to use instead of a cluster file, see `gpucluster context`; before or after the verb.  "
    "[env: GPUCLUSTER_CONTEXT]",
)
@click.option("--debug", is_flag=True, help="Show a traceback if something fails.")
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version and exit."
)
@click.pass_obj
def cli(context: CliContext, config_path: str | None, context_name: str | None, debug: bool) -> None:
    """Build a Slurm cluster for GPU training from one file, on AWS or on one Linux machine, and run jobs on it."""
    if config_path:
        context.choose(Path(config_path))
    else:
        context.config_path = nearest(Path())
    context.debug = debug
    context.context_name = context_name or ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one verb and returns the exit code. An error is printed to stderr as one message."""
    streams = sys.stdout, sys.stderr
    try:
        sys.stdout, sys.stderr = (each and Screen(each) for each in streams)  # None: closed by the shell
        return _main(arguments)
    finally:
        sys.stdout, sys.stderr = streams


def _main(arguments: Sequence[str] | None) -> int:
    context = CliContext()
    # pydantic would read every installed distribution to look for plug-ins, and there are none to find
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        if arguments is None:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            # as for Ctrl-C: programs that a verb started, such as the CDK command line, must not outlive it
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:  # the terminal is closed; nohup ignores it
                signal.signal(signal.SIGHUP, signal.default_int_handler)
        result = cli.main(args=arguments, prog_name="gpucluster", obj=context, standalone_mode=False)
        sys.stdout.flush()
    except BaseException as error:
        if context.debug and not isinstance(error, (click.ClickException, click.exceptions.Exit)):
            _print_traceback()
        return _report(error)
    return result if isinstance(result, int) else 0


def coloured(text: str) -> str:
    """click removes the colours if stderr is no terminal."""
    if "NO_COLOR" in os.environ:
        return text
    return re.sub(
        r"^(?:.*?: )??(error|warning):",
        lambda found: found[0].replace(f"{found[1]}:", click.style(f"{found[1]}:", fg=COLOURS[found[1]], bold=True)),
        text,
        flags=re.MULTILINE,
    )


COLOURS = {"error": "red", "warning": "yellow"}


def _report(error: BaseException) -> int:
    match error:
        case GpuClusterError():
            click.echo(coloured(error.render()), err=True)
            return error.exit_code
        case click.ClickException():
            return _report_usage(error)
        case click.Abort() | KeyboardInterrupt():
            click.echo("interrupted", err=True)
            return INTERRUPTED_EXIT_CODE
        case BrokenPipeError():
            # The reader, such as `| head`, has ended. Python flushes stdout again at exit: discard that.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        case SystemExit():
            return error.code if isinstance(error.code, int) else 1
        case OSError(strerror=str()):
            return _report_system(error)
    click.echo(f"error: unexpected {type(error).__name__}: {error}", err=True)
    click.echo("hint: run it again with `gpucluster --debug …`, and report this bug with the output", err=True)
    return GpuClusterError.exit_code


def _report_system(error: OSError) -> int:
    """A full disk or an unreadable folder is not a bug, so no bug report is suggested."""
    where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    click.echo(coloured(f"error: {where}{error.strerror}"), err=True)
    if error.errno == errno.ENOSPC:
        # stdout may be on the full disk. Python flushes it again at exit: discard that.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return GpuClusterError.exit_code


def _report_usage(error: click.ClickException) -> int:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return 2
    from gpucluster.cli.frame import usage

    bad = isinstance(error, click.BadParameter) and not isinstance(error, click.MissingParameter) and error.param
    place = "command line: error" if bad else "error"
    click.echo("\n".join([coloured(f"{place}: {usage.message(error)}"), *usage.after(error)]), err=True)
    return 2


def _print_traceback() -> None:
    import traceback

    traceback.print_exc()

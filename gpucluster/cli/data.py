"""`gpucluster data`: packs a data set into shards, so that each rank reads its own part."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from gpucluster.addresses import in_s3
from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.frame.following import tell
from gpucluster.errors import DataError, UsageError

if TYPE_CHECKING:
    from gpucluster.data.run import Options

FORMATS = ("tar", "tfrecord", "recordio")


EXAMPLES = """\b
Examples:
  gpucluster data shard imagenet shards --shards train=1024,val=64
  gpucluster data shard /fsx/raw /fsx/imagenet --shards 1024 --array 16   # on the cluster's nodes
"""


@click.group()
def command() -> None:
    """Pack a data set of many small files into few large ones (shards), or check shards.

    Shards are read faster, and each rank reads its own. docs/data.md says how programs read them.
    """


def _shards(ctx: click.Context, parameter: click.Parameter, value: str) -> dict[str, int]:
    """`128`, or `train=128,val=8`."""
    pairs = [pair.rpartition("=") for pair in value.split(",")]
    if not all(number.isdigit() and int(number) for _, _, number in pairs):
        raise click.BadParameter(
            f"must be a number such as 128, or one for each split such as train=128,val=8, got {value!r}",
            ctx,
            parameter,
        )
    found = {name: int(number) for name, _, number in pairs}
    if len(found) < len(pairs):
        raise click.BadParameter(f"must name each split once, got {value!r}", ctx, parameter)
    return found


def _resize(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str:
    from gpucluster.data.resizing import Resize

    try:
        return str(Resize.parse(value)) if value else ""
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, parameter) from None


@command.command(short_help="Pack a data set into shards.", epilog=EXAMPLES)
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
@click.option(
    "--shards",
    required=True,
    metavar="N|SPLIT=N,...",
    callback=_shards,
    help="Number of shards, for all splits or for each: 128, or train=1024,val=64.",
)
@click.option("--format", type=click.Choice(FORMATS), default="tar", help="Format of the shards.  [default: tar]")
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), default=0, metavar="N", help="Seed of the shuffle.  [default: 0]"
)
@click.option(
    "--remainder",
    type=click.Choice(["spread", "drop"]),
    default="spread",
    help="If the samples do not divide equally: spread the rest over the first shards, or drop it.  [default: spread]",
)
@click.option(
    "--resize",
    metavar="SHORT[:QUALITY]",
    callback=_resize,
    help="Scale images down to a shorter side of SHORT pixels, as JPEGs of QUALITY (90), except those of val and test.",
)
@click.option(
    "--exclude", "lists", multiple=True, metavar="FILE",
    help="File with names of samples to skip, one per line; may be s3://BUCKET/KEY; repeatable.",
)  # fmt: skip
@click.option("--check/--no-check", default=True, help="Refuse truncated images.  [default: --check]")
@click.option(
    "--restart", is_flag=True, help="If DST has an unfinished run with other settings, delete it and begin again."
)
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Number of processes.  [default: one per CPU]")
@click.option(
    "--array", type=click.IntRange(1, 1000), metavar="N", help="Run as an array of N jobs on the cluster, at most 1000."
)
@click.option("-p", "--partition", metavar="NAME", help="With --array: partition to run on.  [default: the first]")
@click.option("-f", "--follow", is_flag=True, help="With --array: wait for the jobs. The exit code is 4 if one failed.")
@click.pass_obj
def shard(
    context: CliContext, /, source: str, target: str, remainder: str, workers: int | None,
    lists: tuple[str, ...], array: int | None, partition: str | None, follow: bool, **given: Any,
) -> int:  # fmt: skip
    """Shuffle the samples of SRC and pack them into shards in DST.

    SRC is a folder with train/CLASS/*.jpg or CLASS/*.jpg, or a list of files. Without --array, SRC and DST are paths on
    this machine. Either may be s3://BUCKET/PREFIX instead. To continue an interrupted run, run the same command again.
    The last line on stdout is JSON.
    """
    from gpucluster.data.run import Options

    options = Options(source, target, drop=remainder == "drop", workers=workers or 0, exclude_from=lists, **given)
    if array:
        return _on_cluster(context, options, array, partition, follow)
    if partition or follow:
        raise UsageError("--partition and --follow need --array", "add --array N to run on the cluster")
    from gpucluster.data import run

    _reach_s3(context, source, target, *lists)
    outcomes = run.shard(options, tell)
    click.echo(json.dumps({"data_sets": [asdict(each) for each in outcomes]}))
    return 0


def _on_cluster(context: CliContext, options: Options, count: int, partition: str | None, follow: bool) -> int:
    from gpucluster.cli.frame import following
    from gpucluster.cli.frame.connection import head
    from gpucluster.layout import expand
    from gpucluster.submission import shard_array

    layout = expand(context.load())
    request = shard_array.request(shard_array.with_own_lists(options), count, partition, layout)
    with head(context, layout.config) as remote:
        submitted = shard_array.submit(remote, request)
        parts = f"the {count} part{'s' * (count > 1)} of job {submitted.array_job_id}"
        tell(f"job {submitted.job_id} writes the manifest after {parts}")
        following.finish(remote, submitted.job_id, asdict(submitted), to_end=follow)
    return 0


@command.command(short_help="Compare shards with their manifest.")
@click.argument("target", metavar="DST")
@click.option("--quick", is_flag=True, help="Compare only the sizes, and read no data.")
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Number of processes.  [default: one per CPU]")
@click.pass_obj
def verify(context: CliContext, target: str, quick: bool, workers: int | None) -> int:
    """Compare the shards in DST with their manifest. The exit code is 1 if one is missing, damaged or incomplete."""
    from gpucluster.data.verify import verify

    _reach_s3(context, target)
    reports = verify(target, quick=quick, workers=workers or 0)
    for report in reports:
        for fault in report.faults:
            click.echo(f"{report.target}/{fault}", err=True)
    click.echo(json.dumps({"data_sets": [asdict(report) for report in reports]}))
    faults = sum(len(report.faults) for report in reports)
    if faults:
        raise DataError(f"{target}: {faults} fault{'s' * (faults > 1)}", "pack it again with `gpucluster data shard`")
    return 0


def _reach_s3(context: CliContext, *urls: str) -> None:
    """For a cluster in a local cloud: sets the environment so that boto3 in all processes uses its S3."""
    from gpucluster.cluster import local_cloud

    if not any(map(in_s3, urls)) or not context.config_path.exists():
        return
    config = context.load()
    record = local_cloud.read(context.config_path, config.name)
    for name, value in local_cloud.environment(record, region=config.region).items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value

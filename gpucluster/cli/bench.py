"""`gpucluster bench`: one command at several sizes, under several launchers and variants, side by side."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.frame.following import tell
from gpucluster.cli.frame.job_options import given_keys, job_options, name_values
from gpucluster.cli.frame.warn import warn
from gpucluster.cli.frame.with_program import WithProgram, split
from gpucluster.errors import INTERRUPTED_EXIT_CODE, JobFailedError, UsageError

if TYPE_CHECKING:
    from gpucluster.cli.training.benching import Bench as Training
    from gpucluster.head.remote import Remote
    from gpucluster.layout import Layout
    from gpucluster.measure.runs import Run
    from gpucluster.measure.settings import Setting
    from gpucluster.submission.prepare import Prepared


def _numbers(ctx: click.Context, parameter: click.Parameter, value: str) -> list[int]:
    parts = [part.strip() for part in value.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise click.BadParameter(f"must be numbers of nodes such as 1,2,4, got {value!r}", ctx, parameter)
    return sorted({int(part) for part in parts})


def _names(ctx: click.Context, parameter: click.Parameter, value: str) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))


def _targets(ctx: click.Context, parameter: click.Parameter, value: str) -> list[str]:
    from gpucluster.measure.settings import TARGETS

    names = _names(ctx, parameter, value)
    if not names or {*names} - {*TARGETS}:
        raise click.BadParameter(f"must be of {', '.join(TARGETS)}, got {value!r}", ctx, parameter)
    return names


EXAMPLES = """\b
Examples:
  gpucluster bench --nodes 1,2,4 --launchers horovodrun,torchrun -- python train.py
  gpucluster bench --variant bucket-mb=10 --variant bucket-mb=25 -- python train.py
  gpucluster bench --metrics 'throughput=images/s: ([0-9.]+)' --variant NCCL_ALGO=Ring -- python train.py
  gpucluster bench --feed --variant workers=12 job.yaml
  gpucluster bench --targets slurm,sagemaker --launchers torchrun,srun -- python train.py
"""


@click.command(cls=WithProgram, epilog=EXAMPLES)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[JOB.YAML] [-- COMMAND...]")
@click.option(
    "-N",
    "--nodes",
    default="1,2",
    metavar="N,...",
    callback=_numbers,
    help="Numbers of nodes to compare.  [default: 1,2]",
)
@click.option(
    "--launchers",
    default="torchrun",
    metavar="NAME,...",
    callback=_names,
    help="Launchers to compare; see `submit --launcher`.  [default: torchrun]",
)
@click.option(
    "--targets",
    default="slurm",
    metavar="NAME,...",
    callback=_targets,
    help="Where to compare: slurm is the cluster, sagemaker runs training jobs.  [default: slurm]",
)
@click.option(
    "--variant",
    "variants",
    multiple=True,
    metavar="NAME=VALUE[,NAME=VALUE,…]",
    help="Also run with `--NAME VALUE` at the end of the command. A NAME in capitals is an environment variable "
    "instead; repeatable.",
)
@click.option(
    "--feed",
    is_flag=True,
    help="Measure what limits the training, in three kinds of runs: training without the loader, the loader without "
    "training, and both. The program must read its batches through gpucluster_train.feed.Feed. There is one run of "
    "each, on 1 node, with the job's launcher, unless --repeats, --nodes or --launchers say otherwise.",
)
@click.option(
    "--repeats", type=click.IntRange(min=1), default=3, metavar="N", help="Runs of each setting.  [default: 3]"
)
@click.option(
    "--seed",
    type=int,
    default=0,
    metavar="N",
    help="The program gets it as GPUCLUSTER_SEED and for {seed}.  [default: 0]",
)
@click.option(
    "--metrics",
    multiple=True,
    metavar="NAME=REGEX",
    callback=name_values,
    help="Value to read from the log with a regular expression. The value `throughput` is the speed; repeatable.",
)
@click.option(
    "--per-rank", is_flag=True, help="The throughput that the program prints is that of one rank, not of all."
)
@job_options("partition", "gpus_per_node", "ntasks_per_node", "time", "env", "secrets", "workdir")
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw a plot to FILE, which ends with .png, .svg or .pdf.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object to stdout, and no table.")
@click.option("--dry-run", is_flag=True, help="List the runs and submit nothing. Needs no cluster.")
@click.pass_obj
def command(
    context: CliContext, /, words: tuple[str, ...], nodes: list[int], launchers: list[str], targets: list[str],
    variants: tuple[str, ...], feed: bool, repeats: int, seed: int, per_rank: bool, plot: Path | None, as_json: bool,
    dry_run: bool, **flags: Any,
) -> int:  # fmt: skip
    """Run one command on each number of nodes, with each launcher and each variant, and compare the speed.

    The metric `throughput` is the speed. Without it, `bench` compares the run times of the jobs. It prints a table,
    warnings about weak results, and a JSON object as the last line. The exit code is 4 if a run failed.
    """
    from gpucluster.measure import settings

    if plot:
        from gpucluster.measure.plot import check

        check(plot)
    file, given = split(words)
    given |= given_keys(flags)
    if feed:
        if plot or "sagemaker" in targets:
            unmet = "there is no plot of --feed" if plot else "it measures the feed on the cluster"
            raise UsageError(f"{'--plot' if plot else '--targets'}: {unmet}", "remove one of the two")
        nodes, repeats = _unless_given("nodes", nodes, [1]), _unless_given("repeats", repeats, 1)
        launchers = _unless_given("launchers", launchers, [_launcher(context, file, given)])
    if not launchers:
        raise UsageError("--launchers: no launcher given", "--launchers torchrun,horovodrun")
    parts, named = tuple(settings.PARTS) if feed else ("",), [""] if targets == ["slurm"] else targets
    wanted = settings.settings(launchers, [settings.variant(each) for each in variants], nodes, parts, named)
    benches = _Benches.prepare(context, file, given, wanted, seed)
    order = list(settings.order(wanted, repeats))
    if dry_run:
        warn(benches.doubts())
        click.echo(json.dumps({"runs": list(map(str, order))}) if as_json else "\n".join(map(str, order)))
        return 0
    warn(benches.checked())
    found = benches.run(context, order)
    _show_limits(found, as_json) if feed else _show(found, benches.metrics, per_rank, plot, as_json)
    if found.cut_short:
        return INTERRUPTED_EXIT_CODE
    return JobFailedError.exit_code if any(run.failed for run in found.runs) else 0


def _launcher(context: CliContext, file: Path | None, given: dict[str, Any]) -> str:
    from gpucluster.job import load
    from gpucluster.layout import expand

    return load(expand(context.load()), file, given).launcher


Given = TypeVar("Given")


def _unless_given(option: str, value: Given, otherwise: Given) -> Given:
    source = click.get_current_context().get_parameter_source(option)
    return otherwise if source is click.core.ParameterSource.DEFAULT else value


@dataclass(frozen=True)
class _Found:
    runs: list[Run]
    machines: int | None
    """The number of physical machines under the nodes of the largest run."""
    cut_short: bool
    """It was interrupted: earlier measurements are kept."""


@dataclass(frozen=True)
class _Benches:
    """The runs of each target."""

    cluster: _Bench | None
    training: Training | None

    @classmethod
    def prepare(
        cls, context: CliContext, file: Path | None, given: dict[str, Any], wanted: list[Setting], seed: int
    ) -> _Benches:
        """Raises ConfigError, JobSpecError, UsageError."""
        from gpucluster.layout import expand

        there = [each for each in wanted if each.target == "sagemaker"]
        here = [each for each in wanted if each.target != "sagemaker"]
        cluster = _Bench.prepare(expand(context.load()), file, given, here, seed) if here else None
        if not there:
            return cls(cluster, None)
        from gpucluster.cli.training import benching

        return cls(cluster, benching.Bench.prepare(context, file, given, there, seed))

    @property
    def metrics(self) -> Collection[str]:
        return self.cluster.first.spec.metrics if self.cluster else self.training.metrics if self.training else ()

    def doubts(self) -> Iterator[str]:
        jobs = self.cluster.jobs.values() if self.cluster else ()
        return (doubt for job in jobs for doubt in job.doubts())

    def checked(self) -> Iterator[str]:
        """The warnings about every job, before the first one runs. Raises UsageError."""
        if self.cluster:
            yield from self.cluster.checked()
        if self.training:
            yield from self.training.checked()

    def run(self, context: CliContext, order: list[Setting]) -> _Found:
        from gpucluster.measure import runs as measured

        def indented(text: str) -> None:
            tell(f"  {text}")

        runs: list[Run] = []
        cut_short, real = False, None
        places = dict[str, measured.Place]()
        if self.training:
            places["sagemaker"] = self.training.place(indented)
        with self.cluster.head(context) if self.cluster else contextlib.nullcontext() as remote:
            if self.cluster and remote:
                place = measured.OnCluster(remote, self.cluster.submitter(remote), indented)
                places |= {"": place, "slurm": place}
            try:
                for run in measured.run_all(order, places, tell):
                    runs.append(run)
            except KeyboardInterrupt:
                cut_short = True
            on_nodes = [run for run in runs if run.setting.target != "sagemaker"]
            most = max(on_nodes, key=lambda run: len(run.nodes), default=None)
            real = measured.machines(remote, most.nodes) if remote and most and most.nodes else None
        return _Found(runs, real, cut_short)


@dataclass(frozen=True)
class _Bench:
    layout: Layout
    file: Path | None
    """The job.yaml."""
    jobs: dict[Setting, Prepared]

    @classmethod
    def prepare(
        cls, layout: Layout, file: Path | None, given: dict[str, Any], wanted: list[Setting], seed: int
    ) -> _Bench:
        """Raises JobSpecError, UsageError."""
        from gpucluster.job import load
        from gpucluster.measure import settings
        from gpucluster.submission import prepare

        loaded = {setting: load(layout, file, settings.flags(given, setting)) for setting in wanted}
        specs = {setting: settings.as_run(spec, setting, seed) for setting, spec in loaded.items()}
        first = prepare.of(layout, specs[wanted[0]], file, given)
        # All settings have the same channels, whose local folders may be large: they are read once.
        same = {"channels": first.spec.channels}
        others = {setting: specs[setting].model_copy(update=same) for setting in wanted[1:]}
        more = {setting: prepare.of(layout, spec, file, given) for setting, spec in others.items()}
        return cls(layout, file, {wanted[0]: first, **more})

    @property
    def first(self) -> Prepared:
        return next(iter(self.jobs.values()))

    def checked(self) -> Iterator[str]:
        """The warnings about every job, before the first one runs. Raises UsageError."""
        self.first.secrets(os.environ)  # may raise
        for job in self.jobs.values():
            yield from job.checked(uploads=job is self.first)  # all have the same workdir

    @contextlib.contextmanager
    def head(self, context: CliContext) -> Iterator[Remote]:
        """With the jobs' local folders on it."""
        from gpucluster.cli.frame.connection import head
        from gpucluster.submission import uploads

        config = self.layout.config
        with head(context, config) as remote:
            uploads.upload(remote, self.first.inputs, config.name, context.config_path, tell)
            yield remote

    def submitter(self, remote: Remote) -> Callable[[Setting], tuple[str, int]]:
        from gpucluster.submission import prepare
        from gpucluster.submission import submit as submission

        def submit(setting: Setting) -> tuple[str, int]:
            # Each run has its own folder. The channels' local folders are already replaced by those on the cluster.
            job = prepare.of(self.layout, self.jobs[setting].spec, self.file, {})
            packed = job.packed_without_task(os.environ)
            return submission.submit(remote, job.request, packed).job_id, job.spec.world_size

        return submit


def _show(found: _Found, asked: Collection[str], per_rank: bool, plot: Path | None, as_json: bool) -> None:
    from gpucluster.cli.frame.columns import columns
    from gpucluster.measure.doubts import doubts
    from gpucluster.measure.report import as_json as payload
    from gpucluster.measure.report import chosen, report, table

    metrics = chosen(asked, [run for run in found.runs if not run.failed])
    compared = report(found.runs, metrics, found.machines, per_rank)
    said = doubts(compared)
    if not as_json and compared.rows:
        click.echo("\n".join(columns(table(compared))))
        _note(said)
    if plot and compared.rows:
        from gpucluster.measure.plot import plot as draw

        draw(compared, plot)
        tell(f"plot written to {plot}")
    click.echo(json.dumps(payload(compared, said)))


def _show_limits(found: _Found, as_json: bool) -> None:
    from gpucluster.measure import feed

    speeds, said = feed.speeds(found.runs), list(feed.doubts(found.runs))
    if not as_json and speeds:
        click.echo("\n".join(each.line() for each in speeds))
        _note(said)
    click.echo(json.dumps({"settings": [each.as_json() for each in speeds], "doubts": said}))


def _note(said: list[str]) -> None:
    click.echo("\n".join(["", *(f"note: {each}" for each in said), ""]) if said else "")

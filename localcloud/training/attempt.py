"""One run of a job's hosts. A spot job that is interrupted has several."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from localcloud.filesystems import servers
from localcloud.machines.spec import BootFault, Container
from localcloud.training import data, hosts, layout, store
from localcloud.training.data import Channel
from localcloud.training.jobs import Job
from localcloud.training.logs import Lines, Metrics, Stream
from localcloud.training.pipes import Pipe
from localcloud.training.site import Site

STOP_GRACE_S = 120.0  # botocore's documentation of StopTrainingJob
_PEERS_GRACE_S = 10.0
"""How long the other hosts may run on after one has failed. Assumed."""
_EVERY_S, _COPY_EVERY_S = 0.25, 2.0
_STOPPING = ("runtime", "stop", "wait")


@dataclass(frozen=True)
class Outcome:
    """Why the hosts have ended: "" by themselves, or failed | interrupted | runtime | stop | wait."""

    why: str = ""
    reason: str = ""


@dataclass
class Host:
    name: str
    place: layout.Place
    stream: Stream
    instance_id: str = ""
    lines: Lines = field(default_factory=Lines)
    read: int = 0  # bytes of its output
    code: int | None = None
    told: bool = False  # it has got SIGTERM


class Attempt:
    def __init__(
        self,
        site: Site,
        job: Job,
        folder: Path,
        credentials_path: str,
        kept: store.Store,
        logged: Any,
        metrics: Metrics,
    ) -> None:
        self._site, self._job, self._folder, self._path = site, job, folder, credentials_path
        self._kept, self._metrics = kept, metrics
        self._machines = site.runtime.hypervisor
        self._network = hosts.Network()
        self._pipes: list[Pipe] = []
        self._copies: list[store.Copies] = []
        self._trouble = ""
        self._mounts: dict[str, Path] = {}
        self._since = time.time()
        self.hosts = [
            Host(name, layout.Place(folder / name / "ml", folder / name / "others"), Stream(logged, job, name))
            for name in job.hosts
        ]

    def run(self) -> Outcome:
        """Raises Unreadable."""
        job, channels = self._job, data.channels(self._job.request)
        self._mounts = dict(self._mounted(channels))
        for words in ("Launching requested ML instances", "Preparing the instances for training"):
            job.move("Starting", words)
        job.move("Downloading", "Downloading input data")
        for number, host in enumerate(self.hosts):
            layout.make(host.place, job, channels, host.name)
            self._restore(host)
            self._fill(host, number, channels)
        job.move("Downloading", "Downloading the training image")
        self._watch_folders()
        self._network.open()
        for host in self.hosts:
            self._start(host)
        job.move("Training", "Training image download completed. Training in progress.")
        return self._watch()

    def _restore(self, host: Host) -> None:
        if path := layout.local_path(self._job.request, "CheckpointConfig", layout.CHECKPOINTS):
            self._kept.restore(str(self._job.request["CheckpointConfig"]["S3Uri"]), host.place.of(path))

    def _fill(self, host: Host, number: int, channels: list[Channel]) -> None:
        for channel in channels:
            if channel.system:
                host.place.data(channel.name).mkdir(parents=True)  # where it is mounted
                continue
            objects, count = self._kept.objects(channel), len(self.hosts)
            if channel.mode == "Pipe":
                epoch = partial(self._epoch, channel, objects, number)
                self._pipes.append(Pipe(host.place.data(""), channel.name, epoch, self._fail))
            else:
                folder = host.place.data(channel.name)
                folder.mkdir(parents=True)
                self._kept.download(data.share(objects, channel, number, count), folder)

    def _mounted(self, channels: list[Channel]) -> Iterator[tuple[str, Path]]:
        """Without machines nothing is mounted."""
        contents = self._site.contents
        for channel in channels if contents else ():
            if contents and channel.system:
                where = channel.system["FileSystemId"], channel.system["DirectoryPath"]
                try:
                    with self._site.runtime.locks.whole:
                        found = servers.folder(contents, *where)
                except FileNotFoundError:
                    raise data.Unreadable(f"Unable to mount directory {where[1]} of file system {where[0]}") from None
                yield layout.channel_path(channel), found

    def _epoch(self, channel: Channel, objects: list[data.Object], number: int, epoch: int) -> Iterator[bytes]:
        for found in data.share(objects, channel, number, len(self.hosts), epoch):
            yield from self._kept.content(found, channel)

    def _fail(self, words: str) -> None:
        self._trouble = f"ClientError: {words}"

    def _watch_folders(self) -> None:
        """From now on, changes of checkpoints and of TensorBoard's folder go to S3."""
        request = self._job.request
        if path := layout.local_path(request, "CheckpointConfig", layout.CHECKPOINTS):
            self._copy(path, str(request["CheckpointConfig"]["S3Uri"]))
        if path := layout.local_path(request, "TensorBoardOutputConfig", layout.TENSORBOARD):
            root = str(request["TensorBoardOutputConfig"]["S3OutputPath"]).rstrip("/")
            self._copy(path, f"{root}/{self._job.name}/tensorboard-output")

    def _copy(self, path: str, uri: str) -> None:
        self._copies.append(store.Copies(self._kept, [host.place.of(path) for host in self.hosts], uri))

    def _start(self, host: Host) -> None:
        request, channels = self._job.request, data.channels(self._job.request)
        container = Container(
            command=layout.command(request),
            environment=layout.environment(self._job, self._path),
            folders={**layout.folders(host.place, request, channels), **self._mounts},
            read_only=frozenset(layout.read_only(channels)),
            host_name=hosts.host_name(self._job, host.name),
        )
        spec = self._network.spec(self._job, host.name, container)
        host.instance_id = spec.instance_id
        self._machines.start(spec, BootFault())

    def _watch(self) -> Outcome:
        outcome, asked_at, copied_at = Outcome(), 0.0, time.monotonic()
        while not all([self._ended(host) for host in self.hosts]):  # each of them, also after the first that runs
            time.sleep(_EVERY_S)
            self._read()
            if time.monotonic() - copied_at > _COPY_EVERY_S:
                self._copy_changes()
                copied_at = time.monotonic()
            if not outcome.why and (outcome := self._cause()).why:
                asked_at = time.monotonic()
                if outcome.why in _STOPPING:
                    self._job.move("Stopping", "Stopping the training job")
            if outcome.why:
                self._signal()
            grace_s = _PEERS_GRACE_S if outcome.why == "failed" else STOP_GRACE_S
            if outcome.why and time.monotonic() - asked_at > grace_s:
                self._kill()
        self._read(last=True)
        for pipe in self._pipes:
            pipe.close()
        self._copy_changes()
        return outcome if outcome.why else self._cause()

    def _ended(self, host: Host) -> bool:
        if host.code is None and self._machines.state(host.instance_id) == "terminated":
            code = self._machines.exit_code(host.instance_id)
            host.code = 255 if code is None else code  # None: its machine could not run; its output has the reason
        return host.code is not None

    def _cause(self) -> Outcome:
        """Why the hosts must end now; "" if they may run on."""
        job, now = self._job, time.time()
        for host in self.hosts:
            if host.code:
                return Outcome("failed", self._reason(host))
        if self._trouble:
            return Outcome("failed", self._trouble)
        if job.stop_asked.is_set():
            return Outcome("stop")
        limits = job.request.get("StoppingCondition") or {}
        ran = now - job.began.timestamp() - job.waited_s if job.began else 0.0
        if ran > int(limits.get("MaxRuntimeInSeconds") or 86400):
            return Outcome("runtime")
        if job.spot and now - job.created.timestamp() > int(limits.get("MaxWaitTimeInSeconds") or 0):
            return Outcome("wait")
        names = (job.name, *(f"{job.name}/{host.name}" for host in self.hosts))
        due = [moment for name in names if (moment := self._site.runtime.faults.interruption_epoch_s(name))]
        return Outcome("interrupted" if job.spot and any(self._since < each <= now for each in due) else "")

    def _reason(self, host: Host) -> str:
        try:
            words = (host.place.ml / "output/failure").read_text(errors="replace").strip("\n")
        except OSError:
            words = ""
        return f"AlgorithmError: {words or f'Exit Code: {host.code}'}"

    def _signal(self) -> None:
        """Once to each; a host that has just started gets it when its program runs."""
        for host in self.hosts:
            host.told = host.told or self._machines.signal(host.instance_id, signal.SIGTERM)

    def _kill(self) -> None:
        for host in self.hosts:
            self._machines.terminate(host.instance_id, hard=True)

    def _read(self, *, last: bool = False) -> None:
        for host in self.hosts:
            content = self._machines.written(host.instance_id, host.read)
            host.read += len(content)
            if lines := host.lines.take(content, last=last):
                host.stream.write(lines)
                self._metrics.take(lines)

    def _copy_changes(self) -> None:
        for copies in self._copies:
            copies.copy()

    def upload(self, *, model: bool) -> None:
        """The archives of all hosts. Raises ClientError."""
        wanted = [("model", "model"), ("output/data", "output")] if model else [("output/data", "output")]
        for inside, name in wanted:
            folders = [host.place.ml / inside for host in self.hosts if (host.place.ml / inside).is_dir()]
            if self._job.packs:
                if name == "model" or store.files(folders):
                    self._kept.archive(folders, f"{self._job.output}/{name}.tar.gz")
            else:
                self._kept.spread(folders, f"{self._job.output}/{name}")

    def discard(self) -> None:
        for pipe in self._pipes:
            pipe.close()
        self._kill()
        self._network.close()
        store.remove(self._folder)

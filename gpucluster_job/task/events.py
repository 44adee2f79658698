"""TensorBoard's event files: $GPUCLUSTER_TENSORBOARD, a folder of the state, so that the next run goes on with it. It
is copied to S3 with the state, or by itself where the cluster has a bucket that jobs may write.

Nothing here ends the job.
"""

from __future__ import annotations

import os

from gpucluster_job.log import say
from gpucluster_job.runner import Runner
from gpucluster_job.settings import Settings
from gpucluster_job.task.asked import Asked
from gpucluster_job.task.copying import LAST_COPY_S, SOON_S, UNFINISHED, Copying

FOLDER = "tensorboard"
VARIABLE = "GPUCLUSTER_TENSORBOARD"
"""Only rank 0 gets it (ranks/identity.py)."""
LONGEST_S = 60.0
"""For the last copy: a job does not wait longer for pictures of itself."""
LATE = "[tensorboard] warning: the last copy to S3 was not completed in time; the cluster's own files are complete"


class Events:
    def __init__(self, runner: Runner, settings: Settings, asked: Asked) -> None:
        self._runner, self._settings, self._uri = runner, settings, asked.events
        self._folder, self._result = asked.state_folder / FOLDER, settings.folder / "tensorboard.json"
        self._copying: Copying | None = None

    def prepare(self) -> None:
        """The program makes the folder: TensorBoard's writers do."""
        os.environ[VARIABLE] = str(self._folder)
        if not self._uri:
            return
        kept = self._settings.folder / "tensorboard.copied"
        try:
            self._copying = Copying(self._folder, self._uri, kept, self._result, "watch-events", LATE).start()
        except OSError as error:
            say(f"[tensorboard] warning: event files are not copied to S3: {error}")

    def pending(self) -> dict[str, object]:
        """Fields of result.json until the last copy is finished: Slurm may end this process meanwhile (KillWait)."""
        has_files = self._copying and self._folder.is_dir()
        return {"tensorboard": {"s3": self._uri, "problem": UNFINISHED}} if has_files else {}

    def end(self) -> None:
        """Asks for the last copy, which runs beside that of the state."""
        if self._copying:
            self._copying.end()

    def finish(self, *, soon: bool) -> dict[str, object]:
        """A field of result.json, if there are event files. `soon`: Slurm is about to end the job."""
        if not self._copying:
            return {}
        found = self._copying.finished(LAST_COPY_S if self._runner.stopped else SOON_S if soon else LONGEST_S)
        said = self._result.exists() or self._copying.failed
        return {"tensorboard": {"s3": self._uri, **found}} if said else {}

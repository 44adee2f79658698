"""The state that a task's programs keep from run to run: $GPUCLUSTER_STATE, and its copy in S3.

Nothing here ends the job: if the copy fails, the log and result.json report it.
"""

from __future__ import annotations

import os
import shutil
from typing import Any

from gpucluster_job import containers
from gpucluster_job.log import Said, reason, say
from gpucluster_job.runner import Runner
from gpucluster_job.settings import GaveUp, Settings
from gpucluster_job.task.asked import Asked
from gpucluster_job.task.copying import LAST_COPY_S, SOON_S, UNFINISHED, Copying


class State:
    def __init__(self, runner: Runner, settings: Settings, asked: Asked) -> None:
        self._runner, self._settings, self._asked = runner, settings, asked
        self._folder = asked.state_folder
        self._copying: Copying | None = None
        self._problem: str | None = None

    def prepare(self) -> None:
        """Raises GaveUp if the folder cannot be created, or Stopped."""
        if self._asked.clean and not self._cleaned.exists():
            self._clean()
        try:
            self._folder.parent.mkdir(parents=True, exist_ok=True)
            if self._asked.s3:
                self._restore()
            self._folder.mkdir(exist_ok=True)
            found = any(self._folder.iterdir())
        except OSError as error:
            raise GaveUp(f"the state folder {self._folder} cannot be created: {error.strerror}") from None
        os.environ["GPUCLUSTER_STATE"] = str(self._folder)
        if containers.image() and self._asked.state:  # otherwise it is in the job's folder, which is mounted
            containers.share_with_ranks(f"{self._folder}:{self._folder}")
        if found:
            say(f"[state] {self._folder} is as the last run left it")
        if self._asked.s3 and not self._problem:
            self._copying = self._copy.start()

    @property
    def _cleaned(self) -> Any:
        """A requeued job must not delete the state of its first run."""
        return self._settings.folder / "state-cleaned"

    def _clean(self) -> None:
        try:
            if self._folder.exists():
                shutil.rmtree(self._folder)
            if self._asked.s3:
                code, said = self._sync("clean")
                if code:
                    raise GaveUp(f"the state in {self._asked.s3} cannot be deleted: {said}")
            self._cleaned.touch()
        except OSError as error:
            raise GaveUp(f"the state folder {self._folder} cannot be deleted: {error.strerror}") from None
        say(f"[state] {self._folder} was deleted, as --clean-state asks")

    def _restore(self) -> None:
        """If the copy cannot be read, the job continues from the local state, and never overwrites the copy."""
        code, said = self._sync("restore")
        if code:
            self._problem = said
            say(f"[state] warning: the state in {self._asked.s3} cannot be read, and is not changed: {said}")

    def _sync(self, verb: str) -> tuple[int, str]:
        """Its exit code, and its last error."""
        said = Said(lambda line: say(line) if line.startswith("[state] ") else None)
        code = self._runner.phase(self._copy.words(verb), said)
        errors = [line for line in said.lines if line.strip() and not line.startswith("[state] ")]
        return code, reason(errors[-1]) if errors else f"exit code {code}"

    @property
    def _copy(self) -> Copying:
        kept = self._folder.with_name(f".{self._folder.name}.copied")
        return Copying(self._folder, self._asked.s3, kept, self._settings.folder / "state.json")

    def pending(self) -> dict[str, object]:
        """Fields of result.json until the last copy is finished."""
        return {"state": {"s3": self._asked.s3, "problem": UNFINISHED}} if self._copying else {}

    def finish(self, *, soon: bool) -> dict[str, object]:
        """Fields of result.json. `soon`: Slurm is about to end the job."""
        if not self._asked.s3:
            return {}
        report: dict[str, Any] = {"s3": self._asked.s3, "problem": self._problem}
        if self._copying:
            self._copying.end()
            report.update(self._copying.finished(LAST_COPY_S if self._runner.stopped else SOON_S if soon else None))
        return {"state": report}

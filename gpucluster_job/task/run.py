"""This run of the task: restores the state at the start, saves state and record at the end, and starts the next run."""

from __future__ import annotations

from typing import Callable

from gpucluster_job import secret_file
from gpucluster_job.ending import STOPPED_BY, Ending, runs_again
from gpucluster_job.log import say
from gpucluster_job.runner import Runner, Tick
from gpucluster_job.settings import Settings
from gpucluster_job.task import runs
from gpucluster_job.task.asked import Asked
from gpucluster_job.task.events import Events
from gpucluster_job.task.limit import Limit
from gpucluster_job.task.state import State


class Run:
    def __init__(self, runner: Runner, settings: Settings) -> None:
        self._settings, self._asked = settings, Asked.read(settings.folder)
        self._limit, self._state = Limit(settings, self._asked), State(runner, settings, self._asked)
        self._events = Events(runner, settings, self._asked)
        self.warned = self.goes_on = False

    @property
    def reached_limit(self) -> bool:
        return self._limit.reached

    @property
    def limit_reason(self) -> str:
        return STOPPED_BY["TIME LIMIT"] + (
            "" if self._limit.has_more else f", in the last of its {self._limit.run} runs"
        )

    def prepare(self) -> None:
        if self._asked.resubmit_limit:
            say(f"[launcher] this is {self._limit.tell(self._limit.run)}")
            if said := self._limit.tell_end():
                say(f"[launcher] {said}")
        self._state.prepare()
        self._events.prepare()

    def watch_limit(self, end_ranks: Callable[[], None]) -> Tick | None:
        return self._limit.watch(end_ranks) if self._asked.resubmit_limit else None

    def pending(self) -> dict[str, object]:
        """Fields of result.json during the last copy, which may take long: Slurm may end this process
        meanwhile. Empty if nothing is copied."""
        found = {**self._state.pending(), **self._events.pending()}
        return {**found, **self._number()} if found else {}

    def finish(self, ending: Ending) -> dict[str, object]:
        """The task's fields of the final result.json."""
        self._events.end()
        found = {**self._state.finish(soon=self._limit.reached), **self._events.finish(soon=self._limit.reached)}
        if self._asked.resubmit_limit and ending.code and self._limit.stopped(ending, warned=self.warned):
            self.goes_on = self._limit.has_more
        return {**found, **self._number()}

    def _number(self) -> dict[str, object]:
        limit = self._asked.resubmit_limit
        return {"run": self._limit.run, "resubmit_limit": limit} if limit else {}

    def keep(self, result: dict[str, object]) -> None:
        """After the final result.json. This is the last step: Slurm ends this process when it requeues the job."""
        self._attempt(lambda: runs.write(self._asked, result), "the record of this run")
        if not self._asked.resubmit_limit:
            return
        if self.goes_on:
            self._attempt(lambda: self._limit.keep(result), "this run's result")
            if not self._limit.requeue():
                self._attempt(self._end, "the record that this run was the last")

    def _end(self) -> None:
        """Slurm did not requeue the job for us. It may have requeued it for another reason."""
        self._limit.unkeep()
        if not runs_again(self._settings):
            secret_file.remove(self._settings)

    def _attempt(self, write: Callable[[], None], what: str) -> None:
        try:
            write()
        except OSError as error:
            say(f"warning: {what} could not be written: {error}")

"""Waits for a head node that does not answer: it restarts or is replaced, or slurmctld is down. Jobs continue."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from gpucluster.errors import AccessError, CloudError, NotDeployedError

FIRST_PAUSE_S = 2.0
LONGEST_PAUSE_S = 30.0
Answer = TypeVar("Answer")


class Patience:
    """Reports the outage once, and its end once. It never gives up: the user detaches. `job_id` may be empty: it is not
    known yet."""

    def __init__(
        self,
        job_id: str,
        tell: Callable[[str], None],
        sleep: Callable[[float], None] = time.sleep,
        who: str = "the head node",
    ) -> None:
        self._job_id, self._tell, self._sleep, self._who = job_id, tell, sleep, who
        self._told, self._pause_s = "", FIRST_PAUSE_S

    def outlast(self, error: CloudError) -> None:
        """Returns when it is time to try again. Raises the error if the cluster is gone or AWS refuses this user."""
        if isinstance(error, (NotDeployedError, AccessError)):
            raise error
        if error.message != self._told:
            more = f" ({error.hint})" if error.hint else ""
            if not self._told:
                job = f"job {self._job_id} continues, and " if self._job_id else ""
                more += f"; {job}{self._who} is asked until it answers"
            self._tell(f"{error.message}{more}")
            self._told = error.message
        self._sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    def answered(self) -> None:
        if self._told:
            self._tell(f"{self._who} answers again")
        self._told, self._pause_s = "", FIRST_PAUSE_S

    def ask(self, question: Callable[[], Answer]) -> Answer:
        """Repeats the call until the head node answers."""
        while True:
            try:
                answer = question()
            except CloudError as error:
                self.outlast(error)
            else:
                self.answered()
                return answer

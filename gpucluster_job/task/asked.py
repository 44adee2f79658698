"""task.json in the job's folder: the task that the job is a run of, and whether it continues after its time limit."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class Asked:
    job: Path
    """The job's folder."""
    label: str = ""
    """PROJECT/NAME; "" for a job that is no task."""
    folder: str = ""
    state: str = ""
    s3: str = ""
    """The prefix that the state is copied to."""
    events: str = ""
    """The prefix that TensorBoard's event files are copied to, if the state is not copied to S3."""
    key: str = ""
    """A hash of everything that is compared with the last run."""
    force: bool = False
    clean: bool = False
    joins: bool = False
    """Accept an equal run that has not ended: a pipeline was submitted again."""
    resubmit_limit: int = 0

    @classmethod
    def read(cls, job: Path) -> Asked:
        try:
            found = cls(job=job, **json.loads((job / "task.json").read_text(encoding="utf-8")))
        except FileNotFoundError:
            return cls(job)
        return found.of_element(job.name) if "GPUCLUSTER_ARRAY_DIR" in os.environ else found

    def of_element(self, index: str) -> Asked:
        """Each element of an array has its own runs and state."""
        own_state = self.state and self.state != f"{self.folder}/state"
        return replace(
            self,
            label=self.label and f"{self.label}/{index}",
            folder=self.folder and f"{self.folder}/{index}",
            state=f"{self.state}/{index}" if own_state else self.folder and f"{self.folder}/{index}/state",
            s3=self.s3 and f"{self.s3}/{index}",
            events=self.events and f"{self.events}/{index}",
        )

    @property
    def state_folder(self) -> Path:
        return Path(self.state) if self.state else self.job / "state"

    @property
    def runs(self) -> Path:
        return Path(self.folder, "runs")

"""Slurm as the head node's programs ask it about running jobs: one job per `submit`, and the changes they ordered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpucluster_node import slurm

WIDTHS = (12, 12, 12, 12, 4, 14, 4000, 4000)
"""The values of the columns of slurm.RUNNING_COLUMNS."""


class PlayedSlurm:
    def __init__(self, folder: Path) -> None:
        self.folder, self.jobs, self.comments = folder, "", ""
        self.refuses = ""
        """A call that contains this fails."""
        self.ran: list[list[str]] = []

    def submit(self, *options: str, nodes: str = "train-1", array: tuple[str, str] = ("7", "N/A")) -> None:
        script = self.folder / "7.sbatch"
        script.write_text("".join(["#!/bin/bash\n", *(f"#SBATCH {option}\n" for option in options)]))
        fields = zip(("7", "N/A", *array, "0", "RUNNING", nodes, str(script)), WIDTHS, strict=True)
        self.jobs += "".join(f"{text:<{width}}|" for text, width in fields) + "\n"

    def run(self, argv: Sequence[str]) -> str:
        """In place of slurm.call."""
        if argv[-1] == "--Format=AdminComment:40":
            return f"{self.comments.rpartition('AdminComment=')[2]:<40}\n"
        if argv[0] == "squeue":
            assert "--nodelist=" not in " ".join(argv), "one question for all nodes"
            return self.jobs
        if self.refuses and self.refuses in " ".join(argv):
            raise slurm.SlurmError("not now")
        self.comments += "".join(f" AdminComment={each[13:]}" for each in argv if each.startswith("admincomment="))
        self.ran.append(list(argv))
        return ""

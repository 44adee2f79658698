"""A job of two nodes that a signal warns, and that runs until it is cancelled."""

from __future__ import annotations

from dataclasses import dataclass

from bed import Bed, wait_for

PROGRAM = "trap 'echo checkpoint written' USR1; echo up; while :; do sleep 1 & wait $!; done"
SIGNAL = ("--signal", "USR1@60")
RANKS = 2


@dataclass(frozen=True)
class Signalled:
    bed: Bed
    job_id: str
    log: str

    @classmethod
    def submitted(cls, bed: Bed) -> Signalled:
        shape = ("--nodes", str(RANKS), "--ntasks-per-node", "1", "--launcher", "srun", "--preflight", "off")
        job = bed.submit(*shape, *SIGNAL, "--", "bash", "-c", PROGRAM)
        return cls(bed, job.last["job_id"], f"{job.last['folder']}/log.txt")

    def text(self) -> str:
        """The lines of its log; empty while there is none."""
        return self.bed.ssh("sh", "-c", f"cat {self.log} 2>/dev/null || true")

    def wait_until_started(self, times: int, within_s: float) -> None:
        """times: how often all of its ranks have started."""
        wait_for(f"start {times} of both ranks", lambda: self.text().count("] up") >= RANKS * times, within_s)

    def checkpoints(self) -> int:
        return self.text().count("checkpoint written")

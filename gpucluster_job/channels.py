"""Before the command starts: lists the files of the job's channels, and copies some channels to each node."""

from __future__ import annotations

from gpucluster_job import containers, library
from gpucluster_job.log import Said, say
from gpucluster_job.runner import Runner
from gpucluster_job.settings import GaveUp, Settings


def prepare(runner: Runner, settings: Settings, nodes: list[str]) -> None:
    """Raises GaveUp, or Stopped."""
    if not (settings.folder / "channels.json").exists():
        return
    place = settings.folder / "channels"
    place.mkdir(exist_ok=True)
    for left in place.glob("failed-*"):
        left.unlink()
    (place / "nodes.txt").write_text("".join(f"{node}\n" for node in nodes))
    said, code = _run(runner, library.words("prepare"))
    if code:
        errors = [line[len("error: ") :] for line in said if line.startswith("error: ")]
        raise GaveUp(errors[-1] if errors else _ended("be listed", said))
    if not containers.copies_data():
        return
    said, code = _run(runner, [*settings.everywhere("--kill-on-bad-exit=1"), *library.words("fetch")])
    if code:
        failed = sorted(place.glob("failed-*"))
        if not failed:
            raise GaveUp(_ended("be copied to the nodes", said))
        node, reason = failed[0].read_text(encoding="utf-8").splitlines()[:2]
        raise GaveUp(reason, node)


def _run(runner: Runner, argv: list[str]) -> tuple[list[str], int]:
    """Writes the output about channels to the log."""
    said = Said(lambda line: say(line) if line.startswith("[channels]") else None)
    code = runner.phase(argv, said)
    return said.lines, code


def _ended(what: str, said: list[str]) -> str:
    others = [line for line in said if not line.startswith("[channels]")]
    return f"the channels could not {what}: {others[-1] if others else 'it printed nothing'}"

"""Creates the job's container on each node before any rank starts, because ranks that start together would each fetch
the image."""

from __future__ import annotations

import time

from gpucluster_job import containers
from gpucluster_job.log import Said, say
from gpucluster_job.runner import Runner
from gpucluster_job.settings import GaveUp, Settings, plural


def make(runner: Runner, settings: Settings) -> None:
    """Raises GaveUp, or Stopped."""
    image = containers.image()
    if not image:
        return
    began = time.monotonic()
    said = Said()
    argv = [*settings.everywhere(f"--container-image={image}"), *containers.options(), "true"]
    if runner.phase(argv, said) == 0:
        say(f"[container] {image} is on {plural(settings.nodes, 'node')} ({time.monotonic() - began:.0f} s)")
        return
    for line in said.lines:
        say(f"[container] {line}")
    others = [line for line in said.lines if not (line.startswith("srun: error: ") and "task" in line)]
    last = others[-1] if others else "it printed nothing"
    if "unrecognized option" in last:
        raise GaveUp("the nodes have no pyxis, which a job with a container_image needs")
    raise GaveUp(f"the container image {image} could not be started on the nodes: {last}")

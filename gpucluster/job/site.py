"""What a job must bring to a cluster that GpuCluster did not build, where nothing of GpuCluster is installed."""

from __future__ import annotations

from collections.abc import Iterator

from gpucluster.config.document import Finding
from gpucluster.job import container
from gpucluster.job.spec import JobSpec
from gpucluster.layout import Site


def check(spec: JobSpec, site: Site, name: str) -> Iterator[Finding]:
    """`name`: the context's."""
    if spec.container_image and not site.pyxis:
        none = f"the cluster {name} cannot run containers: srun there knows no --container-image"
        yield Finding(("container_image",), none, "name a venv or conda environment there with --python FOLDER")
    elif not spec.python and not container.replaces_environment(spec):
        also = ", or an image with --container-image" if site.pyxis else ""
        none = f"the cluster {name} has no environments of GpuCluster"
        yield Finding(("python",), none, f"name the folder of a venv or conda environment there with --python{also}")
    for key, channel in spec.channels.items():
        if channel.how == "copy":
            none = f"the nodes of the cluster {name} have no scratch of GpuCluster to copy it to"
            yield Finding(("channels", key, "mode"), none, "use mode: mount, and a folder that all nodes share")

"""The folders of an array's elements: `<job's folder>/<index>/`, each with its own log and result.

Shared files are linked into each, so that the programs of an element find everything in the element's folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import PurePosixPath

from gpucluster.job import arrays
from gpucluster.job.spec import JobSpec
from gpucluster.submission.snapshot import File

INDEXES = "elements"
"""A file of the array's folder: one index per line."""
PARAMETERS = "parameters.json"
_LINKED_WHOLE = ("lib", "bin")
_OF_THE_ARRAY = ("job.sbatch", "job.yaml", "env.json", "log.txt", "secrets.sh", "notify.json")


def files(spec: JobSpec, shared: Mapping[str, File]) -> dict[str, File]:
    """`shared`: the files of the array's folder."""
    numbers = spec.elements
    if not numbers:
        return {}
    links = _links(shared)
    found = {INDEXES: File("".join(f"{number}\n" for number in numbers))}
    for number, parameters in zip(numbers, _parameters(spec), strict=True):
        own = {"log.txt": File(""), PARAMETERS: File(json.dumps(parameters) + "\n"), **links}
        if "secrets.sh" in shared:  # each element removes its copy when it ends
            own["secrets.sh"] = shared["secrets.sh"]
        found |= {f"{number}/{name}": file for name, file in own.items()}
    return found


def _parameters(spec: JobSpec) -> list[dict[str, str]]:
    return list(arrays.parameters(spec.sweep)) if spec.sweep else [{} for _ in spec.elements]


def _links(shared: Mapping[str, File]) -> dict[str, File]:
    """Folders of programs are linked whole; other folders file by file, because a job writes into them."""
    tops = {PurePosixPath(name).parts[0] for name in shared}
    found = {top: File(f"../{top}", link=True) for top in _LINKED_WHOLE if top in tops}
    for name in shared:
        if name not in _OF_THE_ARRAY and PurePosixPath(name).parts[0] not in _LINKED_WHOLE:
            found[name] = File("../" * len(PurePosixPath(name).parts) + name, link=True)
    return found

"""`silence`: findings that the user does not want, and what may stand there. Its own faults cannot be silenced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from gpucluster.config.document import Finding
from gpucluster.config.models import ClusterConfig
from gpucluster.config.validators import Validator


@dataclass(frozen=True)
class Outcome:
    findings: tuple[Finding, ...] = ()
    silenced: tuple[Finding, ...] = ()


def sort_out(config: ClusterConfig, found: Iterable[Finding]) -> Outcome:
    names = config.__dict__.get("silence", ())  # not there where it was refused itself
    heard = [finding for finding in found if finding.validator not in names]
    unheard = [finding for finding in found if finding.validator in names]
    return Outcome(tuple(heard), tuple(unheard))


def misused(config: ClusterConfig, known: Mapping[str, Validator]) -> Iterator[Finding]:
    for index, name in enumerate(config.silence):
        path = ("silence", index)
        if name not in known:
            near = get_close_matches(name.lower().replace("_", "-"), known, n=1)
            yield Finding(
                path,
                f"{name!r} is no validator",
                f"did you mean {near[0]!r}?" if near else "docs/validators.md lists them",
            )
        elif not known[name].can_be_silenced:
            yield Finding(path, f"{name!r} cannot be silenced: what it refuses cannot be read", "correct the value")

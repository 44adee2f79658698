"""`silence`: findings that the user does not want, and what may stand there. Its own faults cannot be silenced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gpucluster.config.document import Finding
from gpucluster.config.models import ClusterConfig
from gpucluster.config.validators import Validator
from gpucluster.meant import did_you_mean


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
            hint = did_you_mean(name, known, "docs/validators.md lists them; remove the name if the rule has gone")
            yield Finding(path, f"there is no validator {name!r}", hint, "warning")
        elif not known[name].can_be_silenced:
            yield Finding(
                path, f"{name!r} cannot be silenced: a value that it refuses cannot be used", "correct the value"
            )

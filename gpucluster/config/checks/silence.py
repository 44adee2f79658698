"""Applies `silence` to findings, and checks the names in it. Errors in `silence` itself cannot be silenced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from gpucluster.config.document import Finding
from gpucluster.config.models import ClusterConfig
from gpucluster.config.validators import Validator
from gpucluster.meant import did_you_mean


class Outcome(NamedTuple):
    findings: tuple[Finding, ...] = ()
    silenced: tuple[Finding, ...] = ()


def sort_out(config: ClusterConfig, found: Iterable[Finding]) -> Outcome:
    names = config.__dict__.get("silence", ())  # missing if `silence` itself was refused
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

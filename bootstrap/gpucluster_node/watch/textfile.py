"""A file in Prometheus's text format, for node_exporter's collector textfile.

https://prometheus.io/docs/instrumenting/exposition_formats/. The collector refuses a file with timestamps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}


@dataclass
class Textfile:
    _metrics: dict[str, list[str]] = field(default_factory=dict)

    def gauge(self, name: str, value: float, /, **labels: object) -> None:
        """A value that is not known is left out."""
        self._add(name, "gauge", value, labels)

    def counter(self, name: str, value: float, /, **labels: object) -> None:
        self._add(name, "counter", value, labels)

    def _add(self, name: str, kind: str, value: float, labels: Mapping[str, object]) -> None:
        if math.isnan(value):
            return
        lines = self._metrics.setdefault(name, [f"# TYPE {name} {kind}"])
        said = ",".join(f'{key}="{_escaped(str(text))}"' for key, text in labels.items())
        labelled = name + "{" + said + "}" if said else name
        lines.append(f"{labelled} {value:.15g}")

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for lines in self._metrics.values() for line in lines)


def _escaped(text: str) -> str:
    return "".join(_ESCAPES.get(character, character) for character in text)

"""Templates to HTML. Every value is escaped: names of jobs, lines of logs and names of metrics are what users wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined

from gpucluster.ui import wording


def environment() -> Environment:
    found = Environment(
        loader=PackageLoader("gpucluster.ui"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "when": wording.when,
        "duration": wording.duration,
        "usd": wording.usd,
        "number": wording.number,
        "gib": wording.gib,
        "line": wording.line,
        "count": wording.count,
        "quoted": lambda text: quote(text, safe="/"),
    }
    return found


ENVIRONMENT = environment()


def render(template: str, values: Mapping[str, Any]) -> str:
    return ENVIRONMENT.get_template(template).render(values)

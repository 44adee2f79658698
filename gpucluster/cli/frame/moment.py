"""A moment as an option: `10m` ago, `14:02` or `2026-11-29T14:02` by the clock of the cluster, which is UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import click

_AGO = re.compile(r"(\d{1,9}(?:\.\d{1,3})?) ?(s|m|h|d)", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def moment(value: str) -> float:
    """Unix seconds; negative: that many seconds ago, which the head node counts by its own clock."""
    if found := _AGO.fullmatch(value):
        return -float(found[1]) * _SECONDS[found[2]] or -0.001
    if re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?", value, re.ASCII):
        return _of_clock(value)
    try:
        at = datetime.fromisoformat(value)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{value!r} is no time: write 90s, 10m, 2h or 1d for that long ago, or 14:02 or 2026-11-29T14:02 (UTC)"
        ) from None


def _of_clock(value: str) -> float:
    """Today, or yesterday if that time has not come yet."""
    hour, minute, second = ([int(word) for word in value.split(":")] + [0])[:3]
    now = datetime.now(UTC)
    try:
        at = now.replace(hour=hour, minute=minute, second=second, microsecond=0)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is no time: {error}") from None
    return (at if at <= now else at - timedelta(days=1)).timestamp()

"""Times as Slurm writes them, and shorter: 2:00:00, 1-12:00:00, 90m."""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator

from gpucluster.config.value_checks import refuse

_TIME = r"(?:(\d+)-(\d{1,2})(?::([0-5]?\d))?(?::([0-5]?\d))?|(\d+)(?::([0-5]?\d))?(?::([0-5]?\d))?)"
_DURATION = r"(\d+)\s*([smhd])"
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds_of(time: str) -> int:
    """Parses Slurm's forms M, M:S, H:M:S, D-H, D-H:M, D-H:M:S, and 90m, 24h, 2d. Raises ValueError."""
    if short := re.fullmatch(_DURATION, time):
        return int(short[1]) * _SECONDS[short[2]]
    if not (match := re.fullmatch(_TIME, time)):
        raise ValueError(time)
    days, hours, minutes, seconds, *rest = (int(part) if part else 0 for part in match.groups())
    if match[1] is None:
        first, second, third = rest
        hours, minutes, seconds = (first, second, third) if match[7] else (0, first, second)
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def slurm_time(seconds: int) -> str:
    """`[D-]HH:MM:SS`, as squeue shows it."""
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return (f"{days}-" if days else "") + f"{hour:02d}:{minute:02d}:{second:02d}"


def _time(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        return value
    try:
        seconds = seconds_of(value.strip())
    except ValueError:
        raise refuse(
            f"must be a time such as 2:00:00 (hours:minutes:seconds), 1-12:00:00 or 90m, got {value!r}"
        ) from None
    if seconds <= 0:
        raise refuse(f"must be greater than zero, got {value!r}")
    return slurm_time(seconds)


TimeLimit = Annotated[str, BeforeValidator(_time)]

"""`--resize SHORT[:QUALITY]`: images to train on, packed as smaller JPEGs.

Pillow does it, which only this needs, and which is therefore imported when an image is there.
"""

from __future__ import annotations

import importlib.util
import io
import re
from dataclasses import dataclass

from gpucluster.errors import UsageError

QUALITY = 90
SIDES, QUALITIES = range(32, 4097), range(1, 96)
"""Pillow's documentation advises against qualities above 95, which only make larger files."""
UNCHANGED = ("val", "valid", "validation", "test")
"""Splits that are packed as they are, so that accuracies can be compared with published ones."""
SUFFIX = ".jpg"
_GREY, _COLOURS = "L", "RGB"


@dataclass(frozen=True)
class Resize:
    short: int
    """Pixels of the shorter side."""
    quality: int = QUALITY
    """That of JPEG."""

    @classmethod
    def parse(cls, text: str) -> Resize:
        """Raises ValueError."""
        found = re.fullmatch("([0-9]+)(?::([0-9]+))?", text)
        made = cls(int(found[1]), int(found[2] or QUALITY)) if found else None
        if made is None or made.short not in SIDES or made.quality not in QUALITIES:
            raise ValueError(
                f"must be SHORT[:QUALITY] such as 288 or 288:90, with {SIDES[0]} to {SIDES[-1]} pixels and a JPEG "
                f"quality of {QUALITIES[0]} to {QUALITIES[-1]}, got {text!r}"
            )
        return made

    def __str__(self) -> str:
        return f"{self.short}:{self.quality}"


def require() -> None:
    """Raises UsageError if Pillow is missing here."""
    if importlib.util.find_spec("PIL") is None:
        raise UsageError(
            "--resize: needs Pillow, which this machine's Python does not have",
            "pip install pillow; on a cluster's nodes: apt-get install python3-pil",
        )


def resized(name: str, content: bytes, resize: Resize) -> tuple[str, bytes]:
    """Name and content of an image whose shorter side has at most `short` pixels. A JPEG that is small enough stays as
    it is. No picture is turned: readers of shards look at pixels, not at EXIF's orientation. Raises ValueError."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content)) as image:
            small = min(image.size) <= resize.short
            if small and image.format == "JPEG":
                return name, content
            image.draft(None, (2 * resize.short, 2 * resize.short))  # libjpeg's own scaling, to twice the size or more
            picture = image if image.mode in (_GREY, _COLOURS) else image.convert(_COLOURS)
            if not small:
                share = resize.short / min(picture.size)
                width, height = (max(resize.short, round(side * share)) for side in picture.size)
                picture = picture.resize((width, height), Image.Resampling.BICUBIC)
            made = io.BytesIO()
            picture.save(made, "JPEG", quality=resize.quality)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        said = "it is no image that Pillow knows" if "cannot identify" in str(error) else str(error)
        raise ValueError(f"cannot be resized: {said}") from None
    return f"{name.rpartition('.')[0] or name}{SUFFIX}" if image.format != "JPEG" else name, made.getvalue()

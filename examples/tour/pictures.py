"""Pictures of the sitting: a terminal as SVG, and the page in Debian's Chromium as PNG."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright
from rich.console import Console
from rich.text import Text
from sitting import COLUMNS, HERE, ROOT, Seen

FOLDER = ROOT / "docs" / "pictures"
CHROMIUM = "/usr/bin/chromium"


def terminal(name: str, seen: Seen) -> None:
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(seen.ansi))
    console.save_svg(str(FOLDER / f"tour-{name}.svg"), title=seen.command)


class Browser:
    """The page of `gpucluster ui`."""

    def __init__(self, page: Page, url: str) -> None:
        self._page = page
        self._base = url.partition("?")[0].rstrip("/")
        page.goto(url)

    def picture(
        self, name: str, path: str, *, wait_s: float = 3, height: int = 480, dark: bool = False, whole: bool = True
    ) -> None:
        self._page.set_viewport_size({"width": 1280, "height": height})
        self._page.emulate_media(color_scheme="dark" if dark else "light")
        self._page.goto(self._base + path)
        self._page.wait_for_timeout(wait_s * 1000)
        file = FOLDER / f"tour-{name}.png"
        self._page.screenshot(path=str(file), full_page=whole)
        with Image.open(file) as shown:  # of a page, 96 colours look like all of them, and are a third of the bytes
            shown.quantize(96).save(file, optimize=True)


@contextmanager
def browser(environment: dict[str, str]) -> Iterator[Browser]:
    argv = ["gpucluster", "-c", str(HERE / "cluster.yaml"), "ui"]
    with subprocess.Popen(argv, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        try:
            url = next(line.strip() for line in server.stdout if line.startswith("http"))
            with sync_playwright() as driver:
                chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
                yield Browser(chromium.new_page(device_scale_factor=1), url)
                chromium.close()
        finally:
            server.terminate()


def sizes() -> dict[Path, int]:
    return {each: each.stat().st_size for each in sorted(FOLDER.glob("tour-*"))}

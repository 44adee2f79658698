"""Draws overview.svg from cluster.yaml: `python docs/pictures/overview.py`. A test compares them."""

from __future__ import annotations

from pathlib import Path

from gpucluster.cluster import plan
from gpucluster.config import load
from gpucluster.layout import expand

HERE = Path(__file__).resolve().parent
FILE = HERE / "overview.svg"
INK, BLUE, GREEN, GREY = "#1f2933", "#2563a8", "#2f7d4f", "#6b7683"


def box(x: int, y: int, width: int, height: int, title: str, lines: list[str], color: str, dashes: str = "") -> str:
    style = f' stroke-dasharray="{dashes}"' if dashes else ""
    place = f'x="{x}" y="{y}" width="{width}" height="{height}" rx="8"'
    shape = f'<rect {place} fill="#fff" stroke="{color}" stroke-width="2"{style}/>'
    middle, texts = x + width // 2, [(title, "bold", color), *((line, "normal", INK) for line in lines)]
    return shape + "".join(
        f'<text x="{middle}" y="{y + 26 + 20 * row}" font-weight="{weight}" fill="{fill}">{text}</text>'
        for row, (text, weight, fill) in enumerate(texts)
    )


def arrow(x1: int, y1: int, x2: int, y2: int, text: str, both: bool = False) -> str:
    start = ' marker-start="url(#tip)"' if both else ""
    ends = f'x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"'
    line = f'<line {ends} stroke="{GREY}" stroke-width="2" marker-end="url(#tip)"{start}/>'
    place = f'x="{(x1 + x2) // 2}" y="{y1 - 8}"' if y1 == y2 else f'x="{x1 + 74}" y="{(y1 + y2) // 2 + 5}"'
    return f'{line}<text {place} font-size="13" fill="{GREY}">{text}</text>'


def picture() -> str:
    config = load(HERE.parents[1] / "cluster.yaml")
    (train,) = config.partitions
    _, nodes = plan.lines(expand(config))
    always = plan.bill(expand(config)).usd_per_hour_min
    node = f"{nodes.usd_per_node_hour:.2f}"
    drawn = [
        box(10, 20, 170, 90, "your machine", ["train.py", "gpucluster submit"], INK),
        arrow(184, 65, 282, 65, "SSH"),
        box(290, 20, 190, 90, "head node", ["Slurm, /home", f"always on: ${always:.2f}/hour"], BLUE),
        arrow(484, 65, 602, 65, "a job: launch"),
        box(610, 20, 270, 90, f"0 to {train.max_nodes} GPU nodes", [
            f"{train.instance_types[0]}: ${node}/hour each",
            f"terminated after {train.idle_minutes} idle minutes",
        ], GREEN, "7 5"),
        arrow(745, 114, 745, 178, "data, checkpoints", both=True),
        box(610, 186, 270, 50, "S3, Lustre, BeeGFS, NVMe", [], GREY),
        f'<rect x="270" y="4" width="622" height="242" rx="10" fill="none" stroke="{GREY}" stroke-dasharray="2 4"/>',
        f'<text x="352" y="236" font-size="13" fill="{GREY}">your AWS account</text>',
    ]  # fmt: skip
    tip = '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    tip += f'orient="auto-start-reverse"><path d="M0 0 8 4 0 8z" fill="{GREY}"/></marker>'
    frame = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 250" font-family="sans-serif" font-size="15"'
    body = "\n".join(drawn)
    ground = '<rect width="900" height="250" fill="#fff"/>'
    return f'{frame} text-anchor="middle">\n{ground}\n<defs>{tip}</defs>\n{body}\n</svg>\n'


if __name__ == "__main__":
    FILE.write_text(picture())

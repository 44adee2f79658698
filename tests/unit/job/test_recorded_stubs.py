"""A stub of a command in the shell tier prints what the real one printed somewhere; the rest is in a list here.

`localcloud/tests/unit/machines/test_stand_ins.py` holds the image's stand-ins to the same.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from localcloud.machines.image import GUEST_FILES
from localcloud.testing.recorded import RECORDS
from localcloud.testing.spoken import name_of, said_by_shell, stand_ins, words

ROOT = Path(__file__).resolve().parents[3]
UNRECORDED_STUBS = {
    ("test_preflight_scripts.py", "nvidia-smi"): "a GPU without ECC: [N/A] as its manual says; no row was found",
}  # fmt: skip


def stubs(path: Path) -> Iterator[tuple[str, str]]:
    """(command, body) of every stub of a command for which there are records, in a file of the shell tier."""
    tree = ast.parse(path.read_text())
    known = {each.name for each in RECORDS.iterdir()} | {"lfs", "lctl", "mount.lustre", "exportfs", "beegfs-ctl"}
    for node in ast.walk(tree):
        pairs: list[tuple[ast.expr | None, ast.expr]] = []
        if isinstance(node, ast.Call) and name_of(node.func) == "command" and len(node.args) > 1:
            pairs = [(node.args[0], node.args[1])]
        elif isinstance(node, ast.Dict):
            pairs = list(zip(node.keys, node.values, strict=True))
        for name, body in pairs:
            command = str(name.value).rpartition("/")[2] if isinstance(name, ast.Constant) else ""
            if command in known:
                yield command, "\n".join(words(body))


def test_a_stub_prints_what_was_recorded() -> None:
    said = {
        (path.name, command): text
        for path in (ROOT / "tests/shell").rglob("*.py")
        for command, body in stubs(path)
        for text in said_by_shell(body)
        if not re.search(r"calls\b|\{", text)
    }
    for (file, command), reason in UNRECORDED_STUBS.items():
        print(f"not recorded: {command} in {file}: {reason}")
    assert set(said) == set(UNRECORDED_STUBS), said


def test_every_record_is_used() -> None:
    """By a stand-in or a test, by its name, or by its beginning where names are put together."""
    own = [ROOT / "tests" / tier for tier in ("unit", "shell", "nightly")] + [
        ROOT / "localcloud/tests",
        ROOT / "localcloud/testing",
    ]
    files = [path for folder in own for path in folder.rglob("*.py")] + [GUEST_FILES / name for name in stand_ins()]
    text = "\n".join(path.read_text() for path in files)
    together = {"query-gpu-", "q-fabric-", "version-"}
    for path in RECORDS.rglob("*.txt"):
        assert path.stem in text or path.stem.startswith(tuple(together)), f"nobody reads {path.relative_to(RECORDS)}"

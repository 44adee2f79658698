"""Texts in the image's stand-ins that come from no record."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from localcloud.machines.image import GUEST_FILES

OWN_VOICE = "localcloud: "
SPEAKERS = {"print", "exit", "SystemExit", "write", "writelines"}
RECORDED = {"own_words", "fill", "line", "Record", "say", "not_played"}


def stand_ins() -> list[str]:
    folders = [GUEST_FILES / name for name in ("usr", "opt")]
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file() and "records" not in path.parts)
    programs = (path for path in files if path.stem != "records" and path.read_bytes().startswith(b"#!"))
    return sorted(str(path.relative_to(GUEST_FILES)) for path in programs)


def words(node: ast.AST) -> Iterator[str]:
    """The texts with letters in an expression, except those from a record."""
    if isinstance(node, ast.Call) and name_of(node.func) in RECORDED:
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.search("[A-Za-z]", node.value):
        yield node.value
    for name, child in ast.iter_fields(node):
        for each in child if isinstance(child, list) else [child]:
            if isinstance(each, ast.AST) and name not in ("format_spec", "slice", "test", "func"):
                yield from words(each)


def name_of(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def said_by_python(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and name_of(node.func) in SPEAKERS and not _to_a_file(node):
            for argument in node.args:
                found = list(words(argument))
                if found and not found[0].startswith(OWN_VOICE):
                    yield ast.unparse(argument)


def _to_a_file(call: ast.Call) -> bool:
    target = call.func.value if isinstance(call.func, ast.Attribute) else None
    return name_of(call.func).startswith("write") and not (
        isinstance(target, ast.Attribute) and target.attr[:3] == "std"
    )


def said_by_shell(text: str) -> Iterator[str]:
    for line in text.splitlines():
        for found in re.findall(r"\b(?:echo|printf) (?:>&|[^|&;])*", line.partition(" #")[0]):
            to_a_file = re.search(r">>?\s*[^&\s]", found)
            text_in_it = re.search("[A-Za-z]", found.partition(" ")[2])
            if text_in_it and not line.lstrip().startswith("#") and not to_a_file and OWN_VOICE not in found:
                yield found.strip().removesuffix(" >&2")

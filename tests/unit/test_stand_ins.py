"""A stand-in speaks recorded words, or says that the local cloud speaks. What does neither is in a closed list here.

Our belief of what a real command prints cannot confirm itself then: a new line needs a record with its source.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.ec2 import catalogue
from localcloud.machines.image import GUEST_FILES
from localcloud.tests.recorded import RECORDS

ROOT = Path(__file__).parents[2]
OWN_VOICE = "localcloud: "
UNRECORDED = {
    "usr/bin/lfs": {
        "f'{path}: (0x{flags:08x}){words}{archive}'": "three of its forms are in lustre/hsm_state.txt",
    },
    "usr/local/sbin/resize2fs": {'echo "$said"': "the real resize2fs runs, and this is what it said"},
}  # fmt: skip
SPEAKERS = {"print", "exit", "SystemExit", "write", "writelines"}
RECORDED = {"own_words", "fill", "line", "Record", "say", "not_played"}


def stand_ins() -> list[str]:
    folders = [GUEST_FILES / name for name in ("usr", "opt")]
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file() and "records" not in path.parts)
    programs = (path for path in files if path.stem != "records" and path.read_bytes().startswith(b"#!"))
    return sorted(str(path.relative_to(GUEST_FILES)) for path in programs)


def words(node: ast.AST) -> Iterator[str]:
    """The texts with letters that an expression is made of, but for what comes from a record."""
    if isinstance(node, ast.Call) and _name(node.func) in RECORDED:
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.search("[A-Za-z]", node.value):
        yield node.value
    for name, child in ast.iter_fields(node):
        for each in child if isinstance(child, list) else [child]:
            if isinstance(each, ast.AST) and name not in ("format_spec", "slice", "test", "func"):
                yield from words(each)


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def said_by_python(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and _name(node.func) in SPEAKERS and not _to_a_file(node):
            for argument in node.args:
                found = list(words(argument))
                if found and not found[0].startswith(OWN_VOICE):
                    yield ast.unparse(argument)


def _to_a_file(call: ast.Call) -> bool:
    target = call.func.value if isinstance(call.func, ast.Attribute) else None
    return _name(call.func).startswith("write") and not (isinstance(target, ast.Attribute) and target.attr[:3] == "std")


def said_by_shell(text: str) -> Iterator[str]:
    for line in text.splitlines():
        for found in re.findall(r"\b(?:echo|printf) (?:>&|[^|&;])*", line.partition(" #")[0]):
            to_a_file = re.search(r">>?\s*[^&\s]", found)
            text_in_it = re.search("[A-Za-z]", found.partition(" ")[2])
            if text_in_it and not line.lstrip().startswith("#") and not to_a_file and OWN_VOICE not in found:
                yield found.strip().removesuffix(" >&2")


@pytest.mark.parametrize("name", stand_ins())
def test_a_stand_in_prints_what_was_recorded(name: str) -> None:
    text = (GUEST_FILES / name).read_text()
    said = set((said_by_python if "python3" in text.splitlines()[0] else said_by_shell)(text))
    listed = UNRECORDED.get(name, {})
    assert said == set(listed), f"{name}: add a record to {RECORDS.relative_to(ROOT)}, with its source"


def test_the_list_of_what_is_not_recorded_is_closed() -> None:
    for name, texts in UNRECORDED.items():
        for text, reason in texts.items():
            print(f"not recorded: {name}: {text}: {reason}")
    assert set(UNRECORDED) <= set(stand_ins())


UNRECORDED_STUBS = {
    ("test_preflight_scripts.py", "nvidia-smi"): "a GPU without ECC: [N/A] as its manual says; no row was found",
}  # fmt: skip


def stubs(path: Path) -> Iterator[tuple[str, str]]:
    """(command, body) of every stub of a command for which there are records, in a file of the shell tier."""
    tree = ast.parse(path.read_text())
    known = {each.name for each in RECORDS.iterdir()} | {"lfs", "lctl", "mount.lustre", "exportfs", "beegfs-ctl"}
    for node in ast.walk(tree):
        pairs: list[tuple[ast.expr | None, ast.expr]] = []
        if isinstance(node, ast.Call) and _name(node.func) == "command" and len(node.args) > 1:
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
        for path in (ROOT / "tests/shell").glob("*.py")
        for command, body in stubs(path)
        for text in said_by_shell(body)
        if not re.search(r"calls\b|\{", text)
    }
    for (file, command), reason in UNRECORDED_STUBS.items():
        print(f"not recorded: {command} in {file}: {reason}")
    assert set(said) == set(UNRECORDED_STUBS), said


def test_every_record_is_used() -> None:
    """By a stand-in or a test, by its name, or by its beginning where names are put together."""
    own = [ROOT / "tests" / tier for tier in ("unit", "shell", "nightly")] + [ROOT / "localcloud/tests"]
    files = [path for folder in own for path in folder.rglob("*.py")] + [GUEST_FILES / name for name in stand_ins()]
    text = "\n".join(path.read_text() for path in files)
    together = {"query-gpu-", "q-fabric-", "version-"}
    for path in RECORDS.rglob("*.txt"):
        assert path.stem in text or path.stem.startswith(tuple(together)), f"nobody reads {path.relative_to(RECORDS)}"


RUNS = {
    "fi_info": [["-p", "efa"], ["-p", "efa", "-t", "FI_EP_RDM"], ["--version"], ["-p", "verbs"]],
    "nvidia-smi": [["-L"], [], ["-q"], ["--query-gpu=colour", "--format=csv"]],
    "dcgmi": [["--version"], ["discovery", "-l"]],
    "nv-fabricmanager": [["--version"]],
    "nvcc": [["--version"]],
    "modprobe": [["nosuchmodule"], ["--all", "nosuchmodule"]],
}
TYPES = ("p5.48xlarge", "p3dn.24xlarge", "g4dn.xlarge", "m5.large")


def patterns(command: str) -> list[re.Pattern[str]]:
    """Of every recorded line of a command, with any word in its fields."""
    found = []
    for path in (RECORDS / command).glob("*.txt"):
        header, _, body = path.read_text().partition("# output:\n")
        fields = re.findall(r"^# field: \w+ = (.*)$", header, re.MULTILINE)
        for line in body.splitlines():
            pattern = re.escape(line)
            for field in sorted((each.strip('"') for each in fields), key=len, reverse=True):
                pattern = pattern.replace(re.escape(field), f".{{{len(field)}}}" if field != field.strip() else r"\S.*")
            found.append(re.compile(pattern))
    return found


@pytest.mark.parametrize("command", RUNS)
def test_every_line_that_a_stand_in_prints_is_one_of_a_record(tmp_path: Path, command: str) -> None:
    (program,) = (GUEST_FILES / name for name in stand_ins() if name.rpartition("/")[2] == command)
    known = patterns(command)
    for type_ in TYPES:
        (tmp_path / "hardware.json").write_text(json.dumps(dataclasses.asdict(catalogue.hardware(type_))))
        environment = {
            "LOCALCLOUD_RUN": str(tmp_path), "LOCALCLOUD_MODULES": str(tmp_path / "m"), "PATH": "/usr/bin:/bin",
        }  # fmt: skip
        for arguments in RUNS[command]:
            done = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, check=False)
            printed = (done.stdout + done.stderr).splitlines()
            assert printed
            strange = [line for line in printed if not any(pattern.fullmatch(line) for pattern in known)]
            assert not strange, (type_, arguments)


def test_a_line_of_ones_own_is_found() -> None:
    """The checks above can fail."""
    assert list(said_by_python('print(f"GPU {n}: made up")')) == ["f'GPU {n}: made up'"]
    assert not list(
        said_by_python('print(own_words(f"GPU {n}")); print(record.fill(text), end=""); print("localcloud: x")')
    )
    assert list(said_by_shell('if x; then echo "made up" >&2; fi')) == ['echo "made up"']
    assert not list(said_by_shell('# echo made up\necho "$x" >"$file"\necho "localcloud: no"'))
    assert not any(pattern.fullmatch("    fabric: efa-indirect") for pattern in patterns("fi_info"))

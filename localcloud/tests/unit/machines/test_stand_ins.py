"""Stand-ins print recorded lines, or lines marked as the local cloud's own. A list here has all exceptions.

So a guess about a real command cannot confirm itself: a new line needs a record with its source.
"""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
from pathlib import Path

import pytest

from localcloud.ec2 import catalogue
from localcloud.machines.image import GUEST_FILES
from localcloud.testing.recorded import RECORDS
from localcloud.testing.spoken import said_by_python, said_by_shell, stand_ins

UNRECORDED = {
    "usr/bin/lfs": {
        "f'{path}: (0x{flags:08x}){words}{archive}'": "three of its forms are in lustre/hsm_state.txt",
    },
    "usr/local/sbin/resize2fs": {'echo "$said"': "the real resize2fs runs, and this is what it said"},
}  # fmt: skip


@pytest.mark.parametrize("name", stand_ins())
def test_a_stand_in_prints_what_was_recorded(name: str) -> None:
    text = (GUEST_FILES / name).read_text()
    said = set((said_by_python if "python3" in text.splitlines()[0] else said_by_shell)(text))
    listed = UNRECORDED.get(name, {})
    assert said == set(listed), f"{name}: add a record to {RECORDS.relative_to(GUEST_FILES)}, with its source"


def test_the_list_of_unrecorded_texts_is_complete() -> None:
    for name, texts in UNRECORDED.items():
        for text, reason in texts.items():
            print(f"not recorded: {name}: {text}: {reason}")
    assert set(UNRECORDED) <= set(stand_ins())


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
    """Patterns of all recorded lines of a command; their fields match any word."""
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


def test_an_unrecorded_line_is_found() -> None:
    """The checks above can fail."""
    assert list(said_by_python('print(f"GPU {n}: made up")')) == ["f'GPU {n}: made up'"]
    assert not list(
        said_by_python('print(own_words(f"GPU {n}")); print(record.fill(text), end=""); print("localcloud: x")')
    )
    assert list(said_by_shell('if x; then echo "made up" >&2; fi')) == ['echo "made up"']
    assert not list(said_by_shell('# echo made up\necho "$x" >"$file"\necho "localcloud: no"'))
    assert not any(pattern.fullmatch("    fabric: efa-indirect") for pattern in patterns("fi_info"))

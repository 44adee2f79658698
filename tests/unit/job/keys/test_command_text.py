"""A command as text is split as bash splits it, or refused if only a shell could run it."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from gpucluster.config import loads
from gpucluster.config.parse import parse
from gpucluster.errors import JobSpecError
from gpucluster.job.load import loads as load
from gpucluster.layout import expand

LAYOUT = expand(
    loads("name: T\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.xlarge], max_nodes: 4}]\n")
)

LINES = [
    "python train.py",
    "python train.py model.lr=0.1 'data.sizes=[1,2]' +trainer.devices=8 ~none 'hydra.run.dir=out/${now:%Y-%m-%d}'",
    "python train.py --where 'a > b' --not \"c | d; e && f\" 'it''s'",
    'python train.py "a \\"b\\" \\$HOME \\\\ \\x" a\\ b \\$HOME \\\'',
    "python train.py '' \"\" a''b",
    "python train.py --re 'loss: (.*)$' --end a$ \"b$\" c#d '# e'",
    "python train.py   --lr 0.1 \t --n 3  ",
    "python train.py 'two\nlines'",
    "python train.py \\\n  --lr 0.1 \\\n  --n 3",
    'python train.py "a\\\nb"',
    "python train.py é 'ü ä'",
]


def words(text: str) -> tuple[str, ...]:
    return load(LAYOUT, parse("job:\n", "job.yaml")._replace(data={"command": text}), {}).command


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash on this machine")
@pytest.mark.parametrize("line", LINES)
def test_the_words_are_those_of_bash(line: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f"set -- {line}\nprintf '%s\\0' \"$@\""], capture_output=True, text=True, check=True
    )
    assert list(words(line)) == done.stdout.split("\0")[:-1]


@pytest.mark.parametrize(
    "text",
    [
        "command: >\n  python train.py\n  --lr 0.1\n",
        "run: |\n  python train.py --lr 0.1\n",
        "command: |+\n  # the first try\n  python train.py --lr 0.1   # slow\n\n",
        "command: |\n  python train.py \\\n    --lr 0.1\n",
        "command: |-\n\n  python train.py --lr 0.1\n",
    ],
)
def test_a_block_of_yaml_is_one_command(text: str) -> None:
    assert load(LAYOUT, parse(text, "job.yaml"), {}).command == ("python", "train.py", "--lr", "0.1")


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("a && b", "'&&'"),
        ("a || b", "'||'"),
        ("a | b", "'|'"),
        ("a; b", "';'"),
        ("a > b", "'>'"),
        ("a <b", "'<'"),
        ("a &", "'&'"),
        ("a $HOME", "'$'"),
        ('a "$HOME"', "'$'"),
        ("a $(b)", "'$'"),
        ("a ${b}", "'$'"),
        ("a `b`", "'`'"),
        ('a "`b`"', "'`'"),
        ("a\nb", r"'\n'"),
        ("a 'x'\n\n  b", r"'\n'"),
    ],
)
def test_what_only_a_shell_could_run_is_refused(text: str, mark: str) -> None:
    with pytest.raises(JobSpecError) as raised:
        words(text)
    (problem,) = raised.value.problems
    assert (problem.message, problem.hint) == (f"needs a shell for {mark}", "write a list: [bash, -c, '…']")


@pytest.mark.parametrize("text", ["a 'b", 'a "b', "a \\"])
def test_an_unfinished_text_is_refused(text: str) -> None:
    with pytest.raises(JobSpecError) as raised:
        words(text)
    assert "cannot be split into words: no closing" in raised.value.problems[0].message


def test_characters_that_are_no_operators_in_a_word_stay() -> None:
    assert words("python a.py --url=http://x?a=1&b=2 f(x) *.jpg {lr}")[2:] == (
        "--url=http://x?a=1&b=2",
        "f(x)",
        "*.jpg",
        "{lr}",
    )

"""What a terminal would obey is shown as its escape, whichever verb prints it."""

from __future__ import annotations

import io
import sys
import unicodedata

import click
import pytest

from gpucluster import cli
from gpucluster.cli.frame import screen

SEEN = (*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD, *range(0x13430, 0x13440))
"""Formats that are drawn: signs around numbers, and joiners of hieroglyphs. Others are those of shorthand."""
CONTROLS = [
    chr(code)
    for code in range(0x110000)
    if unicodedata.category(chr(code)) in ("Cc", "Cf", "Zl", "Zp", "Cs")
    and code not in (*SEEN, *range(0x1BCA0, 0x1BCA4))
]
HOSTILE = {
    "\x1b]52;c;cm0gLXJmIC8K\x07": r"\x1b]52;c;cm0gLXJmIC8K\x07",  # sets the clipboard
    "\x1b]0;root@head\x1b\\": r"\x1b]0;root@head\x1b\ ".strip(),  # sets the title
    "\x1b[2J\x1b[H": r"\x1b[2J\x1b[H",  # clears the screen
    "\x1b[1A\x1b[2K": r"\x1b[1A\x1b[2K",  # overwrites the line before
    "\x9b2J": r"\x9b2J",
    "\x1bP$q\x1b\\": r"\x1bP$q\x1b\ ".strip(),
    "\x1b[8mhidden": r"\x1b[8mhidden",
    "\x1b[1;8mhidden": r"\x1b[1;8mhidden",
    "\x1b[008mhidden": r"\x1b[008mhidden",
    "\x1b[38;5;1;8mhidden": r"\x1b[38;5;1;8mhidden",
    "\x1b[48;2;1;2;3;8mhidden": r"\x1b[48;2;1;2;3;8mhidden",
    "\x1b[38;8mhidden": r"\x1b[38;8mhidden",
    "a\rb": r"a\rb",
    "\u202egnp.exe": r"\u202egnp.exe",
    "bo\u200bb": r"bo\u200bb",
    "\udcff": r"\udcff",
}


@pytest.mark.parametrize(("text", "escaped"), HOSTILE.items(), ids=map(ascii, HOSTILE))
def test_hostile_text(text: str, escaped: str) -> None:
    assert screen.shown(text) == escaped
    assert screen.one_line(text) == escaped


@pytest.mark.parametrize(
    "text",
    [
        *("\x1b[31mred\x1b[0m", "\x1b[1;33mwarning:\x1b[m", "\x1b[38;5;8mgrey\x1b[39m", "\x1b[38;2;8;8;8mx"),
        *("two\n\tlines\n", "naïve – 日本語 👍🏽 e\u0301", "no-break\u00a0space"),
    ],
)
def test_colours_and_writing_stay(text: str) -> None:
    assert screen.shown(text) == text


def test_no_control_of_unicode_passes() -> None:
    for each in CONTROLS:
        assert screen.one_line(each) == ascii(each)[1:-1], ascii(each)
        assert screen.shown(each) == (each if each in "\n\t" else ascii(each)[1:-1])
    assert screen.shown_log("10 %\r20 %\b") == "10 %\r20 %\b"
    assert screen.shown_log("\x1b]0;x\x07\n") == "\\x1b]0;x\\x07\n"


@pytest.mark.timeout(20)
def test_a_long_text_takes_no_longer_than_its_length() -> None:
    assert len(screen.shown("\x1b[" + "3" * 1_000_000)) == 1_000_005
    assert len(screen.shown("\x1b[1;" * 200_000)) == 200_000 * 7


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def prints() -> None:
        click.echo("out \x1b]0;x\x07")
        click.echo("log \x1b]0;x\x07\r", file=screen.of_logs())
        print("print \x1b]0;x\x07")
        click.echo("err \x1b]0;x\x07", err=True)
        raise ValueError("unexpected \x1b]0;x\x07")

    monkeypatch.setattr(cli, "cli", prints)


@pytest.mark.usefixtures("verb")
def test_whatever_a_verb_prints(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout, sys.stderr
    assert cli.main([]) == 1
    said = capsys.readouterr()
    assert said.out == "out \\x1b]0;x\\x07\nlog \\x1b]0;x\\x07\r\nprint \\x1b]0;x\\x07\n"
    assert "err \\x1b]0;x\\x07\n" in said.err and "unexpected \\x1b]0;x\\x07\n" in said.err
    assert (sys.stdout, sys.stderr) == before


@pytest.mark.usefixtures("verb")
def test_a_stream_that_the_shell_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert cli.main([]) == 1


def test_bytes_pass() -> None:
    raw = io.BytesIO()
    stream = screen.Screen(io.TextIOWrapper(raw))
    stream.buffer.write(b"\x1b]0;x\x07")
    assert raw.getvalue() == b"\x1b]0;x\x07"
    assert not stream.isatty()

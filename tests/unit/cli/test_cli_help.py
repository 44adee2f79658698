"""The help texts: for somebody who sees the tool for the first time, and in one style."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from gpucluster.cli import HIDDEN, SECTIONS, VERBS, cli, main
from gpucluster.cli.frame.cluster_file import WITH_CONTEXT

ROOT = Path(__file__).resolve().parents[3]
Captured = pytest.CaptureFixture[str]
BARE = ("TEXT", "INTEGER", "INTEGER RANGE", "FLOAT", "PATH", "DIR", "VALUE")
"""click's own names of values, which say nothing about the value."""


def commands(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for part in command.commands.values():
            yield from commands(f"{name} {part.name}", part)
    else:
        yield name, command


def every_command() -> dict[str, click.Command]:
    context = click.Context(cli, info_name="gpucluster")
    found = {}
    for verb in (*VERBS, *HIDDEN):
        command = cli.get_command(context, verb)
        assert command
        found |= dict(commands(verb, command))
    return found


COMMANDS = every_command()


def options(command: click.Command) -> dict[str, tuple[str, str]]:
    """Name -> (what is printed on the left, the text)."""
    context = click.Context(command, info_name="x")
    shown = (each for each in command.params if isinstance(each, click.Option))
    return {max(each.opts, key=len): record for each in shown if (record := each.get_help_record(context))}


@pytest.mark.parametrize("name", COMMANDS)
def test_each_option_says_what_its_value_is(name: str) -> None:
    found = options(COMMANDS[name])
    assert {option: left for option, (left, _) in found.items() if left.split()[-1] in BARE} == {}


@pytest.mark.parametrize("name", COMMANDS)
def test_each_option_is_explained_by_sentences_with_its_default_in_brackets(name: str) -> None:
    texts = {option: text for option, (_, text) in options(COMMANDS[name]).items()}
    assert {option: text for option, text in texts.items() if not re.match(r"[A-Z]|required: ", text)} == {}
    assert {option: text for option, text in texts.items() if not text.endswith((".", "]"))} == {}
    assert {option: text for option, text in texts.items() if re.search("default", text.split("  [")[0], re.I)} == {}


@pytest.mark.parametrize("name", COMMANDS)
def test_each_verb_is_explained_by_a_first_sentence_that_fits_its_line(name: str) -> None:
    text = COMMANDS[name].help or ""
    assert re.match(r"[A-Z][a-z]+ [^.]+\.", text.replace("\n", " ")), text
    assert "..." not in text


@pytest.mark.parametrize("option", ["--json", "--yes", "--region", "--partition", "--follow"])
def test_an_option_of_several_verbs_has_one_letter_and_one_kind_of_value(option: str) -> None:
    left = {found[option][0] for found in map(options, COMMANDS.values()) if option in found}
    assert len(left) == 1


def test_the_verbs_are_in_sections_and_the_first_steps_are_commands(capsys: Captured) -> None:
    assert main(["--help"]) == 0
    printed = capsys.readouterr().out
    assert [line for line in printed.splitlines() if line.removesuffix(":") in SECTIONS] == [f"{t}:" for t in SECTIONS]
    steps = re.findall(r"^    gpucluster (\S+)", printed, re.MULTILINE)
    assert steps == ["init", "plan", "up", "submit", "down"]
    assert "3 AWS or the cluster refused" in printed


def test_submit_shows_each_option_in_one_section() -> None:
    command = COMMANDS["submit"]
    text = command.get_help(click.Context(command, info_name="submit", terminal_width=200, max_content_width=200))
    shown = [line for line in text.splitlines() if line.startswith("  -")]
    assert len(shown) == len(options(command)) + len({"--help"})
    titles = [line for line in text.splitlines() if re.fullmatch(r"\S.*:", line)]
    assert (titles[0], titles[-1], len(titles) > 6) == ("Name, size and time:", "Options:", True)


@pytest.mark.parametrize("name", COMMANDS)
def test_only_verbs_that_work_with_a_context_offer_one(name: str) -> None:
    assert ("--context" in options(COMMANDS[name])) == (name.split()[0] in WITH_CONTEXT)


@pytest.mark.parametrize(
    "words",
    [
        ["validate", "--context", "lab"],
        ["--context", "lab", "validate"],
        ["--context", "lab", "env", "list"],
        ["env", "list", "--context", "lab"],
        ["doctor", "--context", "lab"],
    ],
    ids=" ".join,
)
def test_a_context_is_refused_where_it_would_be_ignored(words: list[str], capsys: Captured) -> None:
    assert main(words) == 2
    verb = next(word for word in words if word in VERBS)
    told = capsys.readouterr().err
    assert told.startswith(f"error: --context: `gpucluster {verb}` works only with a cluster that GpuCluster built\n")
    assert "hint: -c FILE chooses a cluster file; with a context you can use cancel, cp, " in told


@pytest.mark.parametrize("words", [["--context", "lab", "init"], ["types", "--context", "lab"]], ids=" ".join)
def test_a_verb_without_a_cluster_says_so(words: list[str], capsys: Captured) -> None:
    assert main(words) == 2
    verb = next(word for word in words if word in VERBS)
    assert capsys.readouterr().err.startswith(f"error: --context: `gpucluster {verb}` works without a cluster\n")


@pytest.mark.parametrize("verb", ["validate", "init", "env"])
def test_help_is_shown_with_a_context(verb: str, capsys: Captured) -> None:
    assert main(["--context", "lab", verb, "--help"]) == 0
    assert f"Usage: gpucluster {verb} " in capsys.readouterr().out


def test_the_contexts_that_the_help_names_are_those_that_work() -> None:
    context = cli.get_command(click.Context(cli), "context")
    assert context
    named = re.search(r"The verbs (.+) use the first", " ".join((context.help or "").split()))
    assert named
    assert set(re.split(r", | and ", named[1])) == WITH_CONTEXT


EXAMPLES = [
    line.split("  #")[0].strip()
    for command in COMMANDS.values()
    for line in (command.epilog or "").splitlines()
    if line.startswith("  gpucluster ")
]


@pytest.mark.parametrize("line", EXAMPLES)
def test_each_example_is_a_command_that_its_verb_accepts(line: str) -> None:
    """Parsed, not run."""
    import shlex

    words = shlex.split(line)[1:]
    verb, rest = (f"{words[0]} {words[1]}", words[2:]) if words[0] in ("context", "data") else (words[0], words[1:])
    command = COMMANDS[verb]
    from gpucluster.cli.frame.context import CliContext

    command.make_context(verb, rest, obj=CliContext())


RUN = [line for line in EXAMPLES if re.match("gpucluster (submit|bench|init) (?!--context)", line)]


@pytest.mark.parametrize("line", RUN)
def test_each_example_that_needs_no_cluster_runs(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import shlex

    monkeypatch.chdir(tmp_path)
    verb, *rest = shlex.split(line)[1:]
    if verb in ("submit", "bench"):
        text = (ROOT / "cluster.yaml").read_text().replace("frameworks: [torch]", "frameworks: [torch, horovod]")
        bucket = "s3_access: [{uri: s3://bucket, access: read}]"
        role = "arn:aws:iam::123456789012:role/training"
        training = f"sagemaker: {{role_arn: {role}, bucket: bucket, instance_type: ml.g5.12xlarge}}"
        (tmp_path / "cluster.yaml").write_text(f"{text}\n{bucket}\n{training}\n")
        (tmp_path / "train.py").write_text("")
        (tmp_path / "job.yaml").write_text("command: [python, train.py]\n")
        rest = ["--dry-run", *rest]
    (tmp_path / "pcluster.yaml").write_text((ROOT / "tests/data/parallelcluster/15.yaml").read_text())
    assert main([verb, *rest]) == 0, capsys.readouterr().err


def test_there_are_examples_for_verbs_with_arguments() -> None:
    assert {line.split()[1] for line in EXAMPLES} >= {
        "submit",
        "init",
        "types",
        "cp",
        "sync",
        "fetch",
        "forward",
        "ssh",
    }


def test_the_help_of_data_shard_says_whose_paths_it_takes() -> None:
    text = " ".join((COMMANDS["data shard"].help or "").split())
    assert "Without --array, SRC and DST are paths on this machine." in text

"""The nightly tier: a file is skipped only if none of its subjects has changed since it passed."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import stamps

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[3]
TESTS = """\
SUBJECTS = ["locks/*.txt", "build.sh"]
def test_one(): pass
def test_two(): pass
"""
AT_EVERY_PUSH = {
    path.name
    for folder in ("tests", "localcloud/tests")
    for path in (ROOT / folder).rglob("test_*.py")
    if {"nightly", "chaos", "gpu"}.isdisjoint(path.parts)
}
COMMAND = ("-p", "tests.nightly_tier", "-p", "no:cacheprovider")


class Project:
    """A repository with a nightly test of two locks and a script, and an ordinary test."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.root = pytester.path
        self.test_file = self.root / "tests/nightly/test_slow.py"
        files = {
            "locks/a.txt": "a",
            "locks/b.txt": "b",
            "build.sh": "make",
            "tests/unit/test_quick.py": "def test(): pass",
        }
        for name, text in {**files, "tests/nightly/test_slow.py": TESTS, ".gitignore": "*.log\n__pycache__\n"}.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)
        subprocess.run(["git", "init", "--quiet"], cwd=self.root, check=True)

    def run(self, *words: str) -> pytest.RunResult:
        return self.pytester.runpytest_inprocess(*COMMAND, *words)

    def stamped(self) -> Project:
        stamps.write(self.root, self.test_file, stamps.fingerprint(self.root, self.test_file), 61.4)
        return self

    def why(self) -> str:
        """It is stale, and this is the reason."""
        found = stamps.state(self.root, self.test_file)
        assert found.stale
        return found.why


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # of other plugins: each run would import them anew
    return Project(pytester)


def test_a_file_without_a_stamp_is_run(project: Project) -> None:
    assert project.why() == "it has no stamp"


def test_a_file_whose_stamp_fits_is_left_out_and_says_when_it_passed(project: Project) -> None:
    found = stamps.state(project.stamped().root, project.test_file)
    assert not found.stale
    assert re.fullmatch(r"passed 20\d\d-\d\d-\d\d \d\d:\d\d at no commit in 61 s", found.why)


def test_the_commit_is_named(project: Project) -> None:
    who = ["-c", "user.name=x", "-c", "user.email=x"]
    for words in (["add", "."], [*who, "commit", "--quiet", "--message=x"]):
        subprocess.run(["git", *words], cwd=project.root, check=True)
    assert re.search(r"at [0-9a-f]{7,} in", stamps.state(project.stamped().root, project.test_file).why)


@pytest.mark.parametrize(
    ("path", "text", "changed"),
    [
        ("locks/b.txt", "B", "locks/*.txt"),
        ("locks/c.txt", "", "locks/*.txt"),
        ("build.sh", "make ", "build.sh"),
        ("tests/nightly/test_slow.py", TESTS + "\n", "tests/nightly/test_slow.py"),
    ],
)
def test_a_change_of_a_subject_or_of_the_test_is_named(project: Project, path: str, text: str, changed: str) -> None:
    (project.stamped().root / path).write_text(text)
    assert re.fullmatch(rf"changed since it passed .* in 61 s: {re.escape(changed)}", project.why())


def test_a_subject_under_another_name_is_a_change(project: Project) -> None:
    (project.stamped().root / "locks/b.txt").rename(project.root / "locks/c.txt")
    assert project.why().endswith(": locks/*.txt")


def test_a_deleted_subject_is_a_change(project: Project) -> None:
    (project.stamped().root / "locks/b.txt").unlink()
    assert project.why().endswith(": locks/*.txt")


def test_a_test_under_another_name_has_no_stamp(project: Project) -> None:
    project.test_file = project.stamped().test_file.rename(project.test_file.with_name("test_other.py"))
    assert project.why() == "it has no stamp"


def test_other_subjects_are_a_change(project: Project) -> None:
    project.stamped()
    project.test_file.write_text(TESTS.replace('"build.sh"', '".gitignore"'))
    assert ".gitignore" in project.why()


def test_a_stamp_of_more_subjects_than_the_file_names_does_not_fit(project: Project) -> None:
    found = stamps.fingerprint(project.root, project.test_file) | {"more": "0"}
    stamps.write(project.root, project.test_file, found, 1)
    assert project.why() == "no longer among its subjects: more"


def test_ignored_files_are_no_subjects(project: Project) -> None:
    project.test_file.write_text(TESTS.replace("locks/*.txt", "locks/*"))
    (project.stamped().root / "locks/x.log").write_text("noise")
    assert not stamps.state(project.root, project.test_file).stale


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "no SUBJECTS: name the files that it proves"),
        ("SUBJECTS = []", r"SUBJECTS must be a list of patterns, written out, got \[\]"),
        ("SUBJECTS = sorted(['a'])", "SUBJECTS must be a list of patterns, written out, got sorted"),
        ("SUBJECTS = ['locks/*.toml']", r"SUBJECTS: no file matches 'locks/\*.toml'"),
    ],
)
def test_a_file_that_does_not_say_what_it_proves_is_run_and_not_stamped(project: Project, line: str, said: str) -> None:
    project.stamped().test_file.write_text(f"{line}\ndef test(): pass\n")
    assert re.search(said, project.why())
    assert project.run("--nightly=stale").ret == 0
    refused = project.run("--nightly=stale", "--stamp")
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    assert re.search(said, refused.stderr.str())


def test_each_option_selects_its_files(project: Project) -> None:
    for words, passed in [((), 1), (("--nightly=stale",), 3), (("--nightly=all",), 3), (("tests/nightly",), 2),
                          (("tests/nightly/test_slow.py::test_one",), 1)]:  # fmt: skip
        project.run(*words).assert_outcomes(passed=passed)
    project.stamped()
    for words, passed in [((), 1), (("--nightly=stale",), 1), (("--nightly=all",), 3)]:
        project.run(*words).assert_outcomes(passed=passed)


def test_files_in_subfolders_are_selected_and_stamped(project: Project) -> None:
    deeper = project.root / "tests/nightly/jobs/test_deeper.py"
    deeper.parent.mkdir()
    deeper.write_text(TESTS)
    for words, passed in [((), 1), (("--nightly=stale",), 5), (("tests/nightly",), 4), (("tests/nightly/jobs",), 2),
                          (("tests/nightly/test_slow.py",), 2), (("tests",), 1)]:  # fmt: skip
        project.run(*words).assert_outcomes(passed=passed)
    project.run("--stamp", "tests/nightly/jobs").assert_outcomes(passed=2)
    assert stamps.read(project.root, deeper)
    project.run("--nightly=stale").assert_outcomes(passed=3)
    deeper.write_text(TESTS + "\n")
    assert stamps.state(project.root, deeper).why.endswith(": tests/nightly/jobs/test_deeper.py")


def test_a_run_lists_skipped_files_with_reasons(project: Project) -> None:
    project.run().stdout.fnmatch_lines(["nightly tier: 1 of 1 files left out: make test-all runs them"])
    lines = ["nightly tier: run: test_slow.py: it has no stamp", "run: test_slow.py: it has no stamp", "*3 passed*"]
    project.run("--nightly=stale").stdout.fnmatch_lines(lines)
    left_out = ["left out: test_slow.py: passed 20* at no commit in 61 s", "*1 passed*"]
    project.stamped().run("--nightly=stale").stdout.fnmatch_lines(left_out)


def test_the_oldest_of_the_outdated_files_run_as_long_as_there_is_time(project: Project) -> None:
    for name, passed, seconds in [("old", "2026-01-01", 50), ("older", "2025-01-01", 90), ("newest", "2026-02-01", 40)]:
        file = project.root / f"tests/nightly/test_{name}.py"
        file.write_text(TESTS)
        stamps.write(project.root, file, {}, seconds)
        all_stamps = json.loads((project.root / stamps.FILE).read_text())
        all_stamps[f"tests/nightly/{file.name}"]["passed"] = passed
        (project.root / stamps.FILE).write_text(json.dumps(all_stamps))
    project.stamped()
    for minutes, names in [(0, []), (1, ["old"]), (2, ["older"]), (3, ["newest", "old", "older"])]:
        run = project.run("--nightly=stale", f"--nightly-minutes={minutes}")
        run.assert_outcomes(passed=1 + 2 * len(names))
        lines = run.stdout.str().rpartition("nightly tier =")[2].splitlines()
        ran = [line.split(": ")[1] for line in lines if line.startswith("run: ")]
        assert ran == [f"test_{name}.py" for name in names]
        assert sum(line.startswith("no time for it in this run: ") for line in lines) == 3 - len(names)
        assert "left out: test_slow.py: passed" in run.stdout.str()


def test_workers_take_the_same_files_and_their_passes_are_stamped(project: Project) -> None:
    project.run("--nightly=stale", "--stamp", "-p", "xdist", "--numprocesses=2").assert_outcomes(passed=3)
    assert not stamps.state(project.root, project.test_file).stale
    project.run("--nightly=stale", "-p", "xdist", "--numprocesses=2").assert_outcomes(passed=1)


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "--numprocesses=2")])
def test_a_file_is_stamped_while_other_tests_still_run(project: Project, workers: tuple[str, ...]) -> None:
    """A run that is interrupted later keeps the stamp."""
    stamp = project.root / stamps.FILE
    waits = f"import pathlib, time\ndef test():\n while not pathlib.Path({str(stamp)!r}).exists(): time.sleep(0.05)"
    (project.root / "tests/unit/test_quick.py").write_text(waits)
    project.run("--stamp", *workers, "tests/nightly", "tests/unit").assert_outcomes(passed=3)


@pytest.mark.parametrize(
    "second",
    [
        "def test_two(): assert False",
        "import pytest\ndef test_two(): pytest.skip()",
        "import pytest\n@pytest.mark.xfail\ndef test_two(): assert False",
        "import pytest\n@pytest.fixture\ndef bed():\n yield\n assert False\ndef test_two(bed): pass",
        "def test_two(): open('build.sh', 'w').write('changed')",
    ],
)
def test_only_a_file_that_passed_whole_is_stamped(project: Project, second: str) -> None:
    project.test_file.write_text(TESTS.replace("def test_two(): pass", second))
    project.run("--nightly=all", "--stamp").stdout.fnmatch_lines(["test_slow.py: no stamp: *"])
    assert stamps.read(project.root, project.test_file) is None


def test_a_run_that_stops_before_the_last_test_stamps_nothing(project: Project) -> None:
    (project.root / "tests/unit/test_quick.py").write_text("def test(): assert False")
    done = project.run("-x", "--stamp", "tests/unit", "tests/nightly")
    done.stdout.fnmatch_lines(["test_slow.py: no stamp: 0 of its 2 tests ran"])


@pytest.mark.parametrize("words", [("-k", "one"), ("-m", "not x"), ("tests/nightly/test_slow.py::test_one",)])
def test_parts_of_a_file_are_not_stamped(project: Project, words: tuple[str, ...]) -> None:
    assert project.run("--nightly=all", "--stamp", *words).ret == pytest.ExitCode.USAGE_ERROR


def test_stamps_that_are_written_at_the_same_time_are_all_kept(project: Project) -> None:
    """Two runs in one clone, or two workers."""
    files = [project.root / f"tests/nightly/test_{number}.py" for number in range(40)]
    for file in files:
        file.touch()
    with ThreadPoolExecutor(len(files)) as pool:
        assert list(pool.map(lambda file: stamps.write(project.root, file, {}, 1), files))
    assert all(stamps.read(project.root, file) for file in files)


def test_the_stamp_of_a_file_that_is_gone_goes_with_the_next_stamp(project: Project) -> None:
    other = project.test_file.with_name("test_other.py")
    project.stamped().test_file.rename(other)
    stamps.write(project.root, other, {}, 1)
    assert [*json.loads((project.root / stamps.FILE).read_text())] == ["tests/nightly/test_other.py"]


def test_a_file_of_stamps_with_the_marks_of_a_merge_is_refused(project: Project) -> None:
    path = project.stamped().root / stamps.FILE
    path.write_text(f"<<<<<<< ours\n{path.read_text()}")
    with pytest.raises(SystemExit, match=r"tests/stamps.json: not JSON: .*: resolve the merge"):
        stamps.state(project.root, project.test_file)


def test_each_stamp_here_is_of_a_file_that_is_there() -> None:
    assert {*json.loads((ROOT / stamps.FILE).read_text())} <= {
        path.relative_to(ROOT).as_posix() for path in stamps.test_files(ROOT)
    }


@pytest.mark.parametrize("test_file", stamps.test_files(ROOT), ids=lambda path: path.stem)
def test_each_nightly_file_here_names_tests_that_cover_its_subjects_at_every_push(test_file: Path) -> None:
    found = re.search(r"^COVERED_BY = (\(\n(?: +.*\n)+\)|.*)", test_file.read_text(), re.MULTILINE)
    assert found, f"{test_file.name}: no COVERED_BY: name the tests of its subjects that run at every push, or nothing"
    words = ast.literal_eval(found[1])
    names = re.findall(r"test_\w+\.py", words)
    assert names or words.startswith("nothing")
    assert {*names} <= AT_EVERY_PUSH


@pytest.mark.parametrize("test_file", stamps.test_files(ROOT), ids=lambda path: path.stem)
def test_each_nightly_file_here_says_what_it_proves(test_file: Path) -> None:
    assert stamps.fingerprint(ROOT, test_file)

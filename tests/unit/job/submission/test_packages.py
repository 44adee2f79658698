"""What a job asks for beyond its environment: read from files as people have them, checked, and named by a key."""

from __future__ import annotations

import codecs
import contextlib
import json
import subprocess
from pathlib import Path

import pytest

from gpucluster.cli import main
from gpucluster.config import loads
from gpucluster.errors import JobSpecError, UsageError
from gpucluster.job import load
from gpucluster.layout import expand
from gpucluster.submission import packages
from gpucluster.submission.prepare import prepare
from gpucluster.submission.requirements import lines
from gpucluster_job.packages import installed, overlay

CLUSTER = (
    "name: Test\nregion: us-east-1\nsoftware: {containers: true}\n"
    "partitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n"
)
LAYOUT = expand(loads(CLUSTER))


def asked(folder: Path, environment: str = "torch", **flags):
    spec = load(LAYOUT, flags={"command": ("python", "train.py")} | flags)
    return packages.of(spec, environment, folder, folder)


def test_a_job_without_any(tmp_path):
    assert asked(tmp_path) is None


def test_a_requirements_file_as_pip_reads_it(tmp_path):
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "more.txt").write_text("einops\n")
    text = "# ours\n\ntorchvision  # pictures\n--extra-index-url https://example.com/simple\n-r base/more.txt\n"
    text += "tqdm==4.67.1 \\\n    --hash=sha256:0123 \\\n    --hash=sha256:4567\nrich>=13; python_version < '3'\n"
    (tmp_path / "requirements.txt").write_text(text)
    found = lines(["requirements.txt", "timm"], tmp_path)
    assert [(line.text, line.place) for line in found] == [
        ("torchvision", "requirements.txt:3"),
        ("--extra-index-url https://example.com/simple", "requirements.txt:4"),
        ("einops", "more.txt:1"),
        ("tqdm==4.67.1", "requirements.txt:6"),
        ("rich>=13; python_version < '3'", "requirements.txt:9"),
        ("timm", "requirements"),
    ]


@pytest.mark.parametrize(
    ("more", "listed"),
    [
        ({"with": ("torchvision",)}, "torchvision"),
        ({"setup": ("pip install .",)}, "setup: pip install ."),
        ({"with": ("timm", "tqdm"), "setup": ("pip install .",)}, "timm, tqdm; setup: pip install ."),
        ({"with": tuple(f"p{each}" for each in range(12))}, "p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, 2 more"),
    ],
)
def test_a_dry_run_names_the_packages_and_their_environment(
    tmp_path, monkeypatch, capsys, more: dict[str, tuple[str, ...]], listed: str
) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    words = [word for key, values in more.items() for value in values for word in (f"--{key}", value)]
    assert main(["submit", *words, "--dry-run", "--", "python", "train.py"]) == 0
    out, err = capsys.readouterr()
    assert err == f"packages on top of the environment torch: {listed}\n"
    assert out.startswith("#!/usr/bin/env bash\n")


def test_the_sentence_has_no_options_of_pip(tmp_path):
    (tmp_path / "requirements.txt").write_text("--index-url https://me:password@example.com/simple\ntimm\n")
    found = asked(tmp_path, requirements=("requirements.txt",))
    assert found.sentence() == "packages on top of the environment torch: timm"


def test_files_as_editors_leave_them(tmp_path):
    (tmp_path / "base.txt").write_text("einops==0.8.0 \\\n")
    (tmp_path / "requirements.txt").write_bytes(b"\xef\xbb\xbftimm\r\n-rbase.txt\n")
    assert [line.text for line in lines(["requirements.txt"], tmp_path)] == ["timm", "einops==0.8.0"]


def test_a_pyproject(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\ndependencies = ["torchvision", "tqdm>=4"]\n')
    assert asked(tmp_path, requirements="pyproject.toml").requirements == ("torchvision", "tqdm>=4")


def test_a_lock_of_uv_is_read_by_uv(tmp_path):
    from tests.wheels import wheel

    wheel(tmp_path / "wheels", "greeting", "1.5", "more")
    wheel(tmp_path / "wheels", "more", "0.3")
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "x"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = ["greeting"]\n'
        '[tool.uv]\nno-index = true\nfind-links = ["wheels"]\n'
    )
    subprocess.run(["uv", "lock", "--offline", "--quiet"], cwd=tmp_path, check=True)
    assert asked(tmp_path, requirements="uv.lock").requirements == ("greeting==1.5", "more==0.3")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("requirements.txt", "-e .\n", r"requirements.txt:1: -e \.: editable installs are not supported"),
        ("requirements.txt", "a\n--user\n", "requirements.txt:2: the option --user is not supported"),
        ("requirements.txt", "-r requirements.txt\n", "includes itself"),
        ("requirements.txt", "torch vision\n", "requirements.txt:1: 'torch vision' is not a requirement"),
        ("requirements.txt", "./missing.whl\n", "requirements.txt:1: no file ./missing.whl in the workdir"),
        ("pyproject.toml", "[tool.poetry]\n", "lists no dependencies under"),
        ("pyproject.toml", "[project\n", "is not valid TOML"),
        ("uv.lock", "version = 'x'\n", "`uv export` cannot read"),
    ],
)
def test_an_unreadable_requirement_is_reported_with_its_place(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=said):
        asked(tmp_path, requirements=name)


def test_several_packages_in_one_word_are_refused_with_how_to_write_them(tmp_path):
    with pytest.raises(UsageError, match="'tensorboard,tqdm' is not a requirement") as caught:
        asked(tmp_path, requirements=["tensorboard,tqdm"])
    assert (
        caught.value.hint
        == "give each package separately: --with tensorboard --with tqdm, or [tensorboard, tqdm] in job.yaml"
    )


def test_a_wheel_in_the_workdir(tmp_path):
    (tmp_path / "own.whl").write_text("1")
    first = asked(tmp_path, requirements="./own.whl[all]")
    assert first.requirements == ("./own.whl[all]",)
    (tmp_path / "own.whl").write_text("2")
    assert asked(tmp_path, requirements="./own.whl[all]").key != first.key


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match="none.txt: there is no such file"):
        asked(tmp_path, requirements="none.txt")


@pytest.mark.parametrize(
    ("environment", "requirement", "has"),
    [
        ("torch", "torch==2.3.0", "torch 2.13.0"),
        ("torch", "Torch<2.13", "Torch 2.13.0"),
        ("horovod", "horovod>=0.29", "horovod 0.28.1"),
        ("tensorflow", "tensorflow==2.21.0", "tensorflow 2.15.1"),
    ],
)
def test_another_framework_is_refused_with_both_versions(tmp_path, environment, requirement, has):
    with pytest.raises(UsageError) as refused:
        asked(tmp_path, environment, requirements=requirement)
    expected = f"requirements: {requirement} does not fit: the environment {environment} has {has}"
    assert refused.value.message == expected
    hint = refused.value.hint or ""
    assert all(way in hint for way in ("without a version", "`python: FOLDER`", "`container_image: IMAGE`"))


@pytest.mark.parametrize("requirement", ["torch", "torch>=2", "torch==2.13.0", "torch==1.0; python_version < '3'"])
def test_the_frameworks_own_version_fits(tmp_path, requirement):
    assert asked(tmp_path, requirements=requirement)


def test_a_build_of_the_frameworks_own_version_fits(tmp_path):
    """As uv.lock has it where the project names PyTorch's index."""
    assert asked(tmp_path, requirements=["torch==2.13.0+cu130 ; python_version > '3'"]).requirements == (
        "torch==2.13.0 ; python_version > '3'",
    )


def test_every_lock_names_its_framework():
    locks = [lock.stem for lock in packages.LOCKS.glob("*.txt")]
    assert len(locks) == 9
    for name in locks:
        assert set(packages.frameworks(name)) & {"torch", "tensorflow", "tensorflow-cpu", "mxnet", "mxnet-cu112"}, name


def test_the_key_depends_on_everything_that_matters(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "setup.py").write_text("1")
    (tmp_path / "train.py").write_text("1")
    job = {"requirements": ["timm"], "setup": ["pip install ./own"]}
    key = asked(tmp_path, **job).key
    (tmp_path / "train.py").write_text("2")
    assert asked(tmp_path, **job).key == key
    others = [
        job | {"requirements": ["timm<1"]},
        job | {"setup": ["pip install ./own", "true"]},
        {"setup": job["setup"]},
    ]
    assert len({key, *(asked(tmp_path, **each).key for each in others)}) == 4
    (tmp_path / "own" / "setup.py").write_text("2")
    assert asked(tmp_path, **job).key != key


def test_the_key_depends_on_a_folder_of_wheels_too(tmp_path):
    (tmp_path / "wheels").mkdir()
    (tmp_path / "requirements.txt").write_text("--find-links wheels\nmine\n")
    keys = []
    for content in ("1", "2"):
        (tmp_path / "wheels" / "mine-1.0-py3-none-any.whl").write_text(content)
        keys.append(asked(tmp_path, requirements="requirements.txt").key)
    assert keys[0] != keys[1]


def test_a_failed_build_is_reported_by_its_python_error():
    # pip 24.0: pip install --dry-run flash-attn, without torch in the build environment
    lines = """\
        File "<string>", line 22, in <module>
      ModuleNotFoundError: No module named 'torch'
      [end of output]
  
  note: This error originates from a subprocess, and is likely not a problem with pip.
error: subprocess-exited-with-error

× Getting requirements to build wheel did not run successfully.
│ exit code: 1
╰─> See above for output.

note: This error originates from a subprocess, and is likely not a problem with pip.
""".splitlines()
    said = overlay.reason(lines, "torch")
    assert said.startswith("ModuleNotFoundError: No module named 'torch'; install this package by setup: ")


@pytest.mark.parametrize(
    ("torch", "line"), [("2.7.1+cu126", "torchaudio==2.7.1\n"), ("2.4.1", "torchaudio==2.4.1\n"), ("2.13.0", "")]
)
def test_torchaudio_before_2_11_is_that_of_the_environments_torch(torch, line):
    below = [installed.Package("numpy", "2.4.6", compiled=True), installed.Package("torch", torch, compiled=True)]
    assert installed._undeclared(below) == line
    assert installed._undeclared(below[:1]) == ""


def test_the_files_of_the_jobs_folder(tmp_path):
    files = asked(tmp_path, requirements=["timm"], setup="apt moo\n").files()
    content = json.loads(files["packages/asked.json"].text)
    assert content["environment"] == "/home/gpucluster/envs/torch" and len(content["key"]) == 16
    assert files["packages/requirements.txt"].text == "timm\n"
    assert files["packages/setup.sh"].text.endswith("\napt moo\n\n")


def test_a_container_has_its_own(tmp_path):
    with pytest.raises(JobSpecError) as refused:
        asked(tmp_path, requirements="timm", container_image="docker://x")
    (problem,) = refused.value.problems
    assert (problem.key, problem.message) == (
        "--requirements",
        "the ranks run in a container, which has its own packages",
    )


def test_the_flag_with_adds_to_the_files_packages(tmp_path):
    (tmp_path / "job.yaml").write_text("command: [python, train.py]\nrequirements: timm\n")
    spec = load(LAYOUT, tmp_path / "job.yaml", {"with": ("einops",)})
    assert spec.requirements == ("timm", "einops")


@pytest.mark.parametrize(
    "data",
    [
        codecs.BOM_UTF16_LE + "timm\r\n# für\r\neinops\r\n".encode("utf-16-le"),  # PowerShell's > writes this
        codecs.BOM_UTF16_BE + "timm\neinops\n".encode("utf-16-be"),
        codecs.BOM_UTF32_LE + "timm\neinops\n".encode("utf-32-le"),
        codecs.BOM_UTF8 + b"timm\neinops\n",
        "# -*- coding: latin-1 -*-\n# für\ntimm\neinops\n".encode("latin-1"),
        "# für\n# vim: set fileencoding=cp1252 :\ntimm\neinops\n".encode("cp1252"),
        "# für\ntimm\neinops\n".encode(),
    ],
)
def test_the_encoding_is_the_one_that_pip_finds(tmp_path, data):
    """The same as pip's own reading."""
    from pip._internal.req.req_file import get_file_content

    path = tmp_path / "requirements.txt"
    path.write_bytes(data)
    theirs = [line for line in get_file_content(str(path), None)[1].splitlines() if not line.startswith("#")]
    assert [line.text for line in lines(["requirements.txt"], tmp_path)] == ["timm", "einops"]
    assert [line.strip("\ufeff") for line in theirs if line] == ["timm", "einops"] or data.startswith(
        codecs.BOM_UTF32_LE
    )


@pytest.mark.parametrize(
    ("name", "data", "said", "hint"),
    [
        ("requirements.txt", b"timm # f\xfcr\n", "it is not utf-8 text: byte 8 is 0xfc", "save it as UTF-8"),
        ("requirements.txt", "timm\n".encode("utf-16-le"), "it has NUL characters", "save it as UTF-8"),
        ("requirements.txt", b"# coding: klingon\ntimm\n", "the encoding 'klingon', which Python", "such as # -*-"),
        ("requirements.txt", b"# coding: hex\ntimm\n", "the encoding 'hex', which Python", "such as # -*-"),
        ("requirements.txt", b"# coding: ascii\nf\xfcr\n", "it is not ascii text: byte 17 is 0xfc", "save it as UTF-8"),
        ("pyproject.toml", b"# f\xfcr\n", "it is not utf-8 text: byte 3 is 0xfc", "TOML is UTF-8: save the file so"),
        ("requirements.txt", None, "there is no such file", "in job.yaml, paths are relative to that file"),
        ("requirements.txt", b"-r https://example.com/r.txt\n", "only files can be included", "download it"),
    ],
)
def test_an_unreadable_file_says_why(tmp_path, name, data, said, hint):
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(UsageError, match=said) as caught:
        lines([name], tmp_path)
    assert caught.value.hint and caught.value.hint.startswith(hint)


def test_lines_are_joined_and_counted_as_pip_does(tmp_path):
    from pip._internal.req.req_file import preprocess

    text = "# C:\\wheels\\\ntimm\nrich \\\n  >=13 \\\n\ntqdm \\\n# of tqdm \\\n>=4\neinops\\"
    (tmp_path / "requirements.txt").write_text(text)
    found = [(int(line.place.partition(":")[2]), line.text) for line in lines(["requirements.txt"], tmp_path)]
    assert [line for line in found if line[1] != ">=4"] == [line for line in preprocess(text) if line[1] != ">=4"]
    assert (2, "timm") in found


@pytest.mark.parametrize(
    "line",
    [
        "numpy @ file:///croot/numpy_and_numpy_base_1682520569166/work",
        "certifi @ file:///opt/conda/conda-bld/certifi_1655968806487/work/certifi",
        "numpy @ file:///home/conda/feedstock_root/build_artifacts/numpy_1707225/work/dist/numpy-1.26.4.whl#sha256=ab",
        "packaging @ file:///home/conda/feedstock_root/build_artifacts/bld/rattler-build_packaging_1745345660/work",
        "six @ file:///C:/ci/six_1605205426665/work",
        "mine @ file:///home/me/mine ; python_version > '3'",
    ],
)
def test_a_folder_of_the_machine_that_built_a_package_is_refused_with_its_line(tmp_path, line):
    """https://github.com/conda/conda/issues/11580, https://github.com/posit-dev/rsconnect-python/issues/166."""
    (tmp_path / "requirements.txt").write_text(f"timm\n{line}\n")
    with pytest.raises(UsageError, match=r"^requirements.txt:2: .* is on the machine where the package was built"):
        asked(tmp_path, requirements="requirements.txt")


def test_an_archive_on_shared_storage_may_be_a_url(tmp_path):
    assert asked(tmp_path, requirements=["mine @ file:///fsx/wheels/mine-1.0-py3-none-any.whl"])


def test_a_folder_on_shared_storage_may_be_a_url(tmp_path):
    storage = "storage: [{type: efs, mount: /shared}]\n"
    for line, accepted in (("mine @ file:///shared/mine", True), ("mine @ file:///sharedx/mine", False)):
        flags = {"command": ("hostname",), "requirements": (line,), "workdir": None}
        with contextlib.nullcontext() if accepted else pytest.raises(UsageError, match="where the package was built"):
            assert prepare(expand(loads(CLUSTER + storage)), None, flags).packages

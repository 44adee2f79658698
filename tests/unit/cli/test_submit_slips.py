"""`gpucluster submit` with habits from srun, sbatch and torchrun: understood as meant, or refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpucluster.cli import main
from gpucluster.job import sbatch_options

CLUSTER = "name: Test\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n"


@pytest.fixture
def submit(tmp_path, monkeypatch, capsys):
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "train.py").write_text("print()\n")
    monkeypatch.chdir(tmp_path)

    def call(*words, mode="--dry-run"):
        code = main(["submit", mode, *words])
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.mark.parametrize(
    ("words", "nodes", "command"),
    [
        (("--nodes", "2", "python", "train.py", "--lr", "3"), 2, "python train.py --lr 3"),
        (("python", "train.py", "-x", "--", "--nodes", "4"), 1, "python train.py -x -- --nodes 4"),
        (("--nodes", "2", "--", "python", "train.py", "--nodes", "4"), 2, "python train.py --nodes 4"),
        (("job.yaml", "--nodes", "3", "--", "python", "train.py", "--nodes", "4"), 3, "python train.py --nodes 4"),
        (("--nodes", "3", "job.yaml", "--time", "5"), 3, "python train.py"),
        (("--num-nodes", "2", "--gpus", "1", "--nproc-per-node", "1", "python", "train.py"), 2, "python train.py"),
    ],
)
def test_arguments_after_the_program_are_the_programs(submit, tmp_path, words, nodes, command):
    (tmp_path / "job.yaml").write_text("command: [python, train.py]\n")
    code, out, err = submit(*words)
    assert (code, err) == (0, "")
    assert f"#SBATCH --nodes={nodes}\n" in out
    assert out.endswith(f"\n  -- {command}\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--nodes", "2", "python", "train.py", "--nodes", "4"), "--nodes comes after python"),
        (("python", "train.py", "--time=10"), "--time comes after python"),
        (("python", "train.py", "--dry-run"), "write --dry-run before python; for the program, write -- before python"),
        (("--lr", "3", "python", "train.py"), "no such option: --lr\nhint: options of the program come after it"),
        (("--nice", "5", "python", "train.py"), "hint: pass it to sbatch: --sbatch-args=--nice=…"),
        (("--gres", "gpu:8", "python", "train.py"), "no such option: --gres\nhint: use --gpus-per-node instead"),
        (("--chdir", "a", "python", "train.py"), "no such option: --chdir\nhint: use --workdir instead"),
        (("--oversubscribe", "python", "train.py"), "hint: use --no-exclusive instead"),
        (("--wrap", "python train.py"), "hint: write it into the command, after the options: submit [OPTIONS] -- "),
        (("--mail_user", "me", "python", "train.py"), "hint: pass it to sbatch: --sbatch-args=--mail-user=…"),
        (("--error", "a", "python", "train.py"), "hint: the job's log, log.txt in its folder, has both streams"),
        (("--open-mode", "append", "python", "train.py"), "hint: a requeued job appends to the same log.txt"),
        (("--parsable", "python", "train.py"), "hint: submit reads what sbatch prints"),
        (("--wait", "python", "train.py"), "hint: --follow waits for the job"),
        (("--nodse", "2", "--", "a"), "did you mean '--nodes'?"),
    ],
)
def test_an_option_in_the_wrong_place(submit, words, message):
    code, out, err = submit(*words)
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--nodes=3", "the job's key nodes sets --nodes"),
        ("-N3", "the job's key nodes sets -N"),
        ("--out=/tmp/x", "the job's key output sets --out"),
        ("--error=x", "--error is not allowed: the job's log, log.txt in its folder, has both streams"),
        ("--array=1-4", "the job's key array sets --array"),
        ("--time=5", "the job's key time sets --time"),
        ("--wrap=x", "the job's key command sets --wrap"),
        ("--qos=high", "the job's key qos sets --qos"),
        ("-Ame", "the job's key account sets -A"),
        ("--mem-per-cpu=1G", "the job's key mem sets --mem-per-cpu"),
        ("-dafterok:1", "the job's key dependency sets -d"),
        ("-c4", "the job's key cpus_per_task sets -c"),
    ],
)
def test_options_of_sbatch_that_a_key_decides_are_refused(submit, option, message):
    code, _, err = submit(f"--sbatch-args={option}", "--nodes", "2", "--", "python", "train.py")
    assert code == 2
    assert message in err


@pytest.mark.parametrize("option", ["--time-min=5", "-wtrain-1", "--prefer=a|b", "--licenses=a"])
def test_other_options_are_passed_to_sbatch(submit, option):
    code, out, err = submit(f"--sbatch-args={option}", "--", "python", "train.py")
    assert (code, err) == (0, "")
    assert f"#SBATCH {option}\n" in out


@pytest.mark.parametrize("words", [("-o", "logs/%x-%j.out"), ("--output=logs/%x-%j.out",)])
def test_the_place_of_the_log_has_sbatchs_name_and_letter(submit, words):
    code, out, err = submit(*words, "python", "train.py")
    assert (code, err) == (0, "")
    assert "\nexport GPUCLUSTER_OUTPUT=logs/%x-%j.out\n" in out


def test_no_option_is_both_ours_and_passed_on():
    assert not sbatch_options.PASSED_ON & set(sbatch_options.KEYS)
    assert {name for name, key in sbatch_options.KEYS.items() if not key} == set(sbatch_options.WHY)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("mail_user: me", "hint: it is an option of sbatch: `sbatch_args: [--mail-user=…]`"),
        ("depends_on: 12", "depends_on: must be conditions of sbatch joined by commas, such as afterok:12"),
        ("memory: lots", "memory: must be a size for each node such as 64G, or 0 for all"),
        ("array: one", "array: must be indexes such as 0-11, 1,5,7 or 0-30:10"),
        ("max_retries: 3", "hint: write requeue: true"),
        ("requeue: maybe", "requeue: must be true or false, got 'maybe'"),
        ("channels: {train: s3://b/p}", "got 's3://b/p'\n"),
    ],
)
def test_keys_that_other_tools_have(submit, tmp_path, line, message):
    (tmp_path / "job.yaml").write_text(f"command: python train.py\n{line}\n")
    code, _, err = submit("job.yaml")
    assert code == 2
    assert message in err
    assert err.count("error:") == 1


@pytest.mark.parametrize("name", ["fsx", "s3://b/p"])
def test_a_wrong_channel_source_gives_one_error(submit, name):
    code, _, err = submit("--channel", f"train={name}", "--", "python", "train.py")
    assert (code, err.count("error:")) == (2, 1)
    assert err.startswith("command line: error: --channel.train.source: must be an ")


def test_the_short_form_of_a_channel(submit, tmp_path):
    (tmp_path / "job.yaml").write_text("command: python train.py\nchannels: {train: /home/data}\n")
    assert submit("job.yaml", "--workdir", str(tmp_path))[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("torchrun", "--nproc_per_node", "8", "train.py"), "starts torchrun, which starts ranks itself"),
        (("python", "-m", "torch.distributed.run", "train.py"), "starts torch.distributed.run"),
        (("--launcher", "srun", "--", "accelerate", "launch", "x.py"), "and srun would start 4 of them on each node"),
    ],
)
def test_a_launcher_in_a_launcher_is_refused(submit, words, message):
    code, _, err = submit(*words)
    assert code == 2
    assert message in err


def test_one_torchrun_on_each_node_is_what_srun_may_start(submit):
    assert submit("--launcher", "srun", "--ntasks-per-node", "1", "torchrun", "train.py")[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train.py",), "train.py is a script, and PATH has no program of that name"),
        (("python", "nosuch.py"), "no file nosuch.py in the workdir"),
    ],
)
def test_a_script_that_nodes_would_not_find(submit, tmp_path, words, message):
    code, out, err = submit(*words)
    assert (code, bool(out), err.startswith("warning: command: "), message in err) == (0, True, True, True)
    code, out, err = submit(str(tmp_path / "job"), *words, mode="--emit-only")
    assert (code, out, message in err) == (2, "", True)
    assert not (tmp_path / "job").exists()


@pytest.mark.parametrize(
    ("name", "warned"),
    [("WANDB_API_KEY", True), ("HF_TOKEN", True), ("TOKENIZERS_PARALLELISM", False), ("KEY_COUNT", False)],
)
def test_a_secret_in_plain_text_is_refused(submit, name, warned):
    code, _, err = submit("--env", f"{name}=abc", "--", "python", "train.py")
    assert (code, f"`--secrets {name}`" in err) == (0, warned)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--env", "A"), "command line: error: --env: must be NAME=VALUE, got 'A'"),
        (
            ("--env", "A B=3"),
            "command line: error: --env: must be a variable's name: letters, digits, underscores, got",
        ),
        (("--env", "=3"), "command line: error: --env: must be a variable's name: letters, digits, underscores, got"),
        (("--metrics", "loss"), "command line: error: --metrics: must be NAME=REGEX, got 'loss'"),
        (("--nodes", "two"), "command line: error: --nodes: must be a whole number, got 'two'"),
    ],
)
def test_errors_of_flags_have_one_style(submit, words, message):
    code, _, err = submit(*words, "--", "python", "train.py")
    assert code == 2
    assert err.startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a:\t- b\n\tc: 3", "not valid YAML"),
        ("- a\n", "must be a section of `key: value` lines"),
        ("---\na: 1\n---\nb: 2\n", "not valid YAML"),
    ],
)
def test_a_broken_job_file_has_one_error(submit, tmp_path, text, message):
    (tmp_path / "job.yaml").write_text(text)
    code, _, err = submit("job.yaml")
    assert (code, err.count("error:")) == (2, 1)
    assert message in err


def test_submit_has_an_option_for_each_of_sbatchs_that_a_key_sets(submit):
    said = {name: submit(f"--{name}")[2] for name, key in sbatch_options.KEYS.items() if key}
    assert {name: err for name, err in said.items() if "in job.yaml" in err} == {}


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--gres", "hint: use --gpus-per-node instead\n"),
        ("--mem", "hint: write mem in job.yaml\n"),
        ("--nice", "hint: it is an option of sbatch: `sbatch_args: [--nice=…]` in job.yaml\n"),
        ("--error", "hint: the job's log, log.txt in its folder, has both streams: `logs` and result.json read it\n"),
        ("--framework", "hint: write framework in job.yaml\n"),
        ("--channel", "hint: write channels in job.yaml\n"),
        ("--container-image", "hint: write container_image in job.yaml\n"),
        ("--launcher", "hint: did you mean '--launchers'?\n"),
        ("--wait", "hint: options of the program come after it: bench [OPTIONS] -- python train.py --wait …\n"),
        ("--requeue", "hint: options of the program come after it: bench [OPTIONS] -- python train.py --requeue …\n"),
        (
            "--no-requeue",
            "hint: options of the program come after it: bench [OPTIONS] -- python train.py --no-requeue …\n",
        ),
    ],
)
def test_bench_names_its_own_options_and_otherwise_keys_of_a_job_file(capsys, option, message):
    assert main(["bench", option, "4", "--", "python", "train.py"]) == 2
    assert capsys.readouterr().err == f"error: no such option: {option}\n{message}"


def test_bench_lists_its_runs_as_json_and_takes_secrets(tmp_path: Path, monkeypatch, capsys):
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    monkeypatch.chdir(tmp_path)
    words = ["bench", "--nodes", "1", "--repeats", "2", "--secrets", "TOKEN", "--dry-run", "--json", "--", "a"]
    assert main(words) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 2


ROOT = Path(__file__).resolve().parents[3]
JOBS = [path for path in sorted(ROOT.glob("examples/*/*.yaml")) if path.name != "cluster.yaml"]


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.name)
def test_every_example_job_names_a_cluster_that_takes_it(path: Path, monkeypatch, capsys):
    """In its first lines, as the command to copy; without -c it is the repository's own cluster.yaml."""
    monkeypatch.chdir(ROOT)
    words = next(
        line.lstrip("# ") for line in path.read_text().splitlines() if f"submit {path.relative_to(ROOT)}" in line
    )
    given = words.split()[1:]
    assert main([each for each in given if each != "--follow"] + ["--dry-run"]) == 0, capsys.readouterr().err

"""Elements of arrays and sweeps with the real runtime: a folder, log, result and working directory for each."""

from __future__ import annotations

import json
import subprocess

from stubbed_jobs import as_element, finished, prepare

# Prints its values from arguments and environment, and writes a file to the folder for checkpoints. The rank that fails
# waits for the others' files, because its end ends them.
PROGRAM = """
import glob, os, sys, time
variables = {name: value for name, value in os.environ.items() if name.startswith("GPUCLUSTER_SWEEP_")}
print("got", sys.argv[1:], sorted(variables.items()))
import helper
print("accuracy: " + helper.ACCURACY, flush=True)
with open(f"checkpoint-{os.environ['RANK']}.txt", "a") as file:
    file.write(sys.argv[1] + "\\n")
if sys.argv[1] == "--lr=0.01" and os.environ["RANK"] == "1":
    while len(glob.glob("checkpoint-*.txt")) < int(os.environ["WORLD_SIZE"]):
        time.sleep(0.05)
    sys.exit(3)
"""
SWEEP = {"lr": ("0.1", "0.01"), "seed.value": ("7",)}


def run_elements(tmp_path, indexes, secret=None, program=PROGRAM, **keys):
    """In parallel, as Slurm may run them."""
    job = prepare(tmp_path, secret or {}, {"launcher": "srun", "command": ("python", "train.py")} | keys)
    (tmp_path / "job" / "code" / "train.py").write_text(program)
    (tmp_path / "job" / "code" / "helper.py").write_text("ACCURACY = '0.5'\n")
    running = {i: subprocess.Popen(**as_element(job, "29", i, str(30 + i))) for i in indexes}
    return {i: finished(process.wait(timeout=60), tmp_path / "job" / str(i)) for i, process in running.items()}


def test_each_element_of_a_sweep_runs_with_its_values(tmp_path):
    found = run_elements(tmp_path, (0, 1), sweep=SWEEP, metrics={"accuracy": "accuracy: ([0-9.]+)"})
    for index, value in enumerate(SWEEP["lr"]):
        code, result, log, folder = found[index]
        given = f"['--lr={value}', '--seed.value=7']"
        variables = f"[('GPUCLUSTER_SWEEP_LR', '{value}'), ('GPUCLUSTER_SWEEP_SEED_VALUE', '7')]"
        assert f"[0 train-1] got {given} {variables}\n" in log
        assert log.count("got ") == 4, "the log of one element has the ranks of one element"
        assert (result["job_id"], result["metrics"]["accuracy"]["last"]) == (f"29_{index}", 0.5)
        assert (folder / "code" / "checkpoint-0.txt").read_text() == f"--lr={value}\n"
        assert json.loads((folder / "parameters.json").read_text()) == {"lr": value, "seed.value": "7"}
    assert (found[0][0], found[0][1]["exit_code"], found[0][1]["failed_rank"]) == (0, 0, None)
    assert (found[1][0] != 0, found[1][1]["failed_rank"]) == (True, 1)
    array = tmp_path / "job"
    assert sorted(path.name for path in (array / "code").iterdir() if path.suffix == ".txt") == []
    assert (array / "log.txt").read_text() == ""
    assert not (array / "result.json").exists()


def test_placeholders_take_the_place_of_options(tmp_path):
    command = ("python", "train.py", "--rate={lr}", "{lr}{seed.value}", "{other}")
    found = run_elements(tmp_path, (0,), sweep=SWEEP, command=command)
    assert "got ['--rate=0.1', '0.17', '{other}']" in found[0][2]


def test_an_array_has_its_indexes_and_no_values(tmp_path):
    program = "import os; print('index', os.environ['SLURM_ARRAY_TASK_ID'], os.getcwd())"
    found = run_elements(tmp_path, (2, 5), array="2,5%1", program=program)
    for index, (code, _, log, folder) in found.items():
        assert code == 0
        assert f"[0 train-1] index {index} {folder}/code\n" in log


def test_each_element_removes_its_own_secrets(tmp_path):
    program = "import os; print('token', len(os.environ['TOKEN']))"
    found = run_elements(tmp_path, (0,), secret={"TOKEN": "s3cret"}, array="0-1", program=program)
    assert "token 6" in found[0][2]
    assert not (tmp_path / "job" / "0" / "secrets.sh").exists()
    assert (tmp_path / "job" / "1" / "secrets.sh").exists()
    assert not (tmp_path / "job" / "secrets.sh").exists()


def test_a_requeued_element_finds_what_it_left(tmp_path):
    program = (
        "import os; open('checkpoint-' + os.environ['RANK'], 'a').write(os.environ.get('SLURM_RESTART_COUNT', '0'))"
    )
    job = prepare(tmp_path, {}, {"launcher": "srun", "command": ("python", "-c", program), "array": "0-1"})
    element = as_element(job, "29", 1, "29")
    for more in ({}, {"SLURM_RESTART_COUNT": "1"}):
        assert subprocess.run(**element | {"env": element["env"] | more}, timeout=60, check=False).returncode == 0
    assert (tmp_path / "job" / "1" / "code" / "checkpoint-0").read_text() == "01"


def test_two_elements_have_a_hostfile_each(tmp_path):
    found = run_elements(tmp_path, (0, 1), launcher="mpirun", array="0-1", program="print('hello')")
    assert [found[i][0] for i in (0, 1)] == [0, 0]
    assert [(found[i][3] / "hostfile").exists() for i in (0, 1)] == [True, True]

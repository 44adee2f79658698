"""The step that tells the checks what a node should have, and installs them around jobs."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from pathlib import Path

import pytest
from gpucluster_node.health import facts
from test_steps import BOOTSTRAP, Machine, source_of

from gpucluster import render
from gpucluster.hardware.instances import INSTANCE_TYPES
from localcloud.ec2 import catalogue
from localcloud.machines.image import GUEST_FILES

SOURCES = ("runner", "files", "this_machine", "node_program", "health")


def facts_file(folder: Path, type_: str, efa: str = "yes") -> Path:
    """Runs the step on a node of this type. Returns the file that it stored."""
    machine = Machine(folder)
    for name in ("files", "node_program", "health"):
        machine.step(name, machine.below(source_of(name).read_text(), "/opt/", "/var/", "/etc/"))
    machine.programs("/opt/")
    (folder / "bundle/machines").mkdir()
    (folder / f"bundle/machines/{type_}.sh").write_text(render.machine(INSTANCE_TYPES[type_]))
    (folder / "bundle/fleet.json").write_text("{}")
    code = folder / "bundle/gpucluster_node/health"
    code.mkdir(parents=True)
    for path in (code / "look.py", code.parent / "slurm.py"):
        path.touch()
    services = f"service_up() {{ touch {folder}/$1; }}\nreport_failure() {{ :; }}\n"
    header = f"{services}imds() {{ echo {type_}; }}\nthis_partition() {{ EFA={efa}; }}\n"
    done = machine.run(f"{header}run_step health", *SOURCES)
    assert done.returncode == 0, done.stderr + done.stdout
    return folder / "var/lib/gpucluster/health.json"


@pytest.mark.parametrize(
    ("type_", "efa", "expected"),
    [
        ("p5.48xlarge", "yes", facts.Facts(8, 32, True, ("/home",))),
        ("g5.12xlarge", "yes", facts.Facts(4, 1, False, ("/home",))),
        ("g5.12xlarge", "no", facts.Facts(4, 0, False, ("/home",))),
        ("m5.large", "yes", facts.Facts(0, 0, False, ("/home",))),
    ],
)
def test_the_step_stores_the_hardware_that_a_node_should_have(
    tmp_path: Path, type_: str, efa: str, expected: facts.Facts
) -> None:
    assert facts.load(facts_file(tmp_path, type_, efa), tmp_path / "none") == expected
    assert (tmp_path / "gpucluster-health-watch").exists() == (expected.gpus > 0)
    programs = {path.name for path in (tmp_path / "opt/gpucluster").glob("*.d/*")}
    assert programs == {"15-health", "84-preflight", "85-health"}


@pytest.mark.parametrize("type_", ["g5.12xlarge", "p4d.24xlarge", "p5.48xlarge", "m5.large"])
def test_a_healthy_node_passes_and_one_that_lost_hardware_does_not(tmp_path: Path, type_: str) -> None:
    """With the local cloud's own stand-ins."""
    hardware = dataclasses.asdict(catalogue.hardware(type_))
    data = json.loads(facts_file(tmp_path, type_).read_text()) | {"mounts": ["/"]}
    (tmp_path / "hardware.json").write_text(json.dumps(hardware))
    assert look(tmp_path, data) == []
    if hardware["gpus"]:
        lost = {"gpus": hardware["gpus"] - 1, "efa_interfaces": 0}
        (tmp_path / "hardware.json").write_text(json.dumps(hardware | lost))
        problems = look(tmp_path, data)
        assert problems[0] == f"nvidia-smi lists {lost['gpus']} of {hardware['gpus']} GPUs"
        assert problems[1] == f"fi_info lists 0 of {hardware['efa_interfaces']} EFA interfaces"
    assert look(tmp_path, data | {"mounts": ["/no-such"]})[-1] == "storage: nothing is mounted on /no-such"


def look(folder: Path, data: dict[str, object]) -> list[str]:
    code = (
        "import json, sys; from gpucluster_node.health import facts, look;"
        "print(json.dumps(look.look(lambda: facts.Facts(**json.loads(sys.argv[1])))))"
    )
    path = f"{GUEST_FILES}/usr/bin:{os.environ['PATH']}"
    environment = {"PATH": path, "PYTHONPATH": str(BOOTSTRAP), "LOCALCLOUD_RUN": str(folder)}
    environment["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = "http://127.0.0.1:9"
    argv = ["python3", "-c", code, json.dumps(data)]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)
    return [each for texts in json.loads(done.stdout).values() for each in texts]

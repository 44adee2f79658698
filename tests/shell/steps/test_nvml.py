"""What the sampler makes of NVML: the local cloud's library, compiled here, with events of a broken GPU."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path

import pytest
from gpucluster_node.watch.nvml import Nvml, NvmlError

SOURCE = Path(__file__).resolve().parents[3] / "localcloud/machines/guest/usr/src/libnvidia-ml.c"
EVENTS = """
/* As in nvidia-ml-py 13.615.71; 10: NVML_ERROR_TIMEOUT. The second GPU reports Xid 79 twice, and another event. */
typedef struct { gpu_t *gpu; unsigned long long type, data; unsigned int instance, compute_instance; } event_t;
static int sent, registered;
int nvmlEventSetCreate(void **set) { *set = &sent; return SUCCESS; }
int nvmlDeviceRegisterEvents(gpu_t *gpu, unsigned long long types, void *set)
{
    registered += gpu != NULL && types == 8 && set == &sent;
    return SUCCESS;
}
int nvmlEventSetWait_v2(void *set, event_t *found, unsigned int timeout_ms)
{
    if (set != &sent || timeout_ms || registered != 4 || sent >= 3) return 10;
    *found = (event_t){&gpus[1], sent == 2 ? 1 : 8, 79, 0, 0};
    sent++;
    return SUCCESS;
}
"""


def compiled(folder: Path, more: str = "") -> str:
    facts, source, library = folder / "hardware.json", folder / "nvml.c", folder / "libnvidia-ml.so.1"
    facts.write_text(json.dumps({"gpus": 4, "gpu_memory_mib": 24576}, indent=2))
    source.write_text(SOURCE.read_text().replace("/run/localcloud/hardware.json", str(facts)) + more)
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", library, source], check=True)
    return str(library)


def test_every_gpu_is_read(tmp_path: Path) -> None:
    gpus = Nvml(compiled(tmp_path)).read()
    assert [(gpu.index, gpu.minor) for gpu in gpus] == [(number, number) for number in range(4)]
    gpu = gpus[3]
    assert (gpu.memory, gpu.memory_used, gpu.power_w) == (24 * 2**30, 0, 25.0)
    assert (gpu.sm_clock_mhz, gpu.temperature_c, gpu.util_percent) == (210, 30, 0)
    assert gpu.slowed_by == (), "idle is not slowed"
    assert gpu.nvlink_bytes == 0 and gpu.xids == {}


def test_xids_are_counted_for_their_gpu(tmp_path: Path) -> None:
    nvml = Nvml(compiled(tmp_path, EVENTS))
    assert [gpu.xids for gpu in nvml.read()] == [{}, {79: 2}, {}, {}]
    assert nvml.read()[1].xids == {79: 2}


def test_a_function_that_the_driver_lacks_leaves_its_value_unknown(tmp_path: Path) -> None:
    compiled(tmp_path)
    source = (tmp_path / "nvml.c").read_text()
    assert "nvmlDeviceGetPowerUsage" in source
    (tmp_path / "nvml.c").write_text(source.replace("nvmlDeviceGetPowerUsage", "other"))
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "older.so", tmp_path / "nvml.c"], check=True)
    gpu = Nvml(str(tmp_path / "older.so")).read()[0]
    assert math.isnan(gpu.power_w) and gpu.temperature_c == 30


def test_a_gpu_that_has_fallen_off_the_bus_hides_no_other(tmp_path: Path) -> None:
    compiled(tmp_path)
    lost = "int nvmlDeviceGetHandleByIndex_v2(unsigned i, gpu_t **g) { return i == 1 ? 15 : found(i, g); }\n"
    source = (tmp_path / "nvml.c").read_text().replace("nvmlDeviceGetHandleByIndex_v2", "found")
    (tmp_path / "nvml.c").write_text(source + lost)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "lost.so", tmp_path / "nvml.c"], check=True)
    assert [gpu.index for gpu in Nvml(str(tmp_path / "lost.so")).read()] == [0, 2, 3]


def test_a_machine_without_the_driver_says_so(tmp_path: Path) -> None:
    with pytest.raises(NvmlError, match="cannot open shared object file"):
        Nvml(str(tmp_path / "none.so.1"))

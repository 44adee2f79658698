"""How fast one GPU trains and decodes, beside published figures. usage: speed.py JOB [--tiny] [--only PART...]

JOB is the folder of a job with the channels train and val: test_speed.py makes it of pictures like photos. The program
needs one H100 or H200, at most nine minutes (LIMIT_S), and a Python with torch, Pillow and DALI, whose package
gpucluster_train/dali.py names. It prints a row for each figure: what was measured, what this GPU should reach, what
others have published. A part that fails, or for which no time is left, is a row that says so. --tiny runs every part in
seconds on a CPU: that proves this program, and says nothing about a GPU.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "examples/imagenet")]
LIMIT_S = 540
PUBLISHED = {
    "ResNet-50": (4500, "A100: 2470 (NVIDIA DeepLearningExamples, PyTorch ResNet50 README), 2600 (timm#1491)"),
    "NHWC over NCHW": (1.4, "A100: 1.67 (horovod#3491), 1.48 (NVIDIA/apex#1445)"),
    "compile over eager": (None, "A100: 1.01 (PaddlePaddle/benchmark#1672)"),
    "EfficientNet-B0": (4500, "A100: 2489 torch, 3454 TensorFlow with XLA (NVIDIA DeepLearningExamples)"),
    "EfficientNet-B4": (650, "A100: 331 torch, 470 TensorFlow with XLA (NVIDIA DeepLearningExamples)"),
    "DALI": (
        7000,
        "A100: 7000, by its hardware decoder alone 5000 (NVIDIA's blog, in DALI#5362)",
    ),
    "real over resident": (
        0.95,
        "eight A100 with DALI: 0.84 to 0.98 of eight times one (NVIDIA DeepLearningExamples)",
    ),
    "data_wait": (None, "below 5"),
    "two ranks over one": (None, "NUMA binding alone: 1 to 10 % (PyTorch's tuning guide)"),
    "tokens/s": (45000, "H100: 45455, MFU 41.8 % (llm-foundry, 1.3 B, 8 GPUs)"),
    "MFU": (40, "H100: 41.8 (llm-foundry)"),
}
"""For one H100 or H200, the least that this project wants, and the figures of others that this was set by."""


@dataclass
class Row:
    figure: str
    measured: float | None
    unit: str
    kind: str = ""
    """A key of PUBLISHED."""
    note: str = ""

    def line(self) -> str:
        wanted, published = PUBLISHED.get(self.kind, (None, ""))
        value = "-" if self.measured is None else f"{self.measured:.4g} {self.unit}"
        goal = f"wanted {wanted:g}" if wanted else ""
        return " | ".join((f"{self.figure:44}", f"{value:18}", f"{goal:12}", self.note or published))


@dataclass(frozen=True)
class Bench:
    job: Path
    tiny: bool
    device: torch.device
    ends: float

    @property
    def dtype(self) -> torch.dtype:
        return torch.bfloat16 if self.device.type == "cuda" else torch.float32

    def seconds(self, work: Callable[[], object]) -> float:
        self.wait()
        began = time.perf_counter()
        work()
        self.wait()
        return time.perf_counter() - began

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def net(name: str, tiny: bool) -> nn.Module:
    efficientnet, resnet = (importlib.import_module(each) for each in ("efficientnet", "resnet"))
    makers = {"resnet50": resnet.resnet50, "b0": efficientnet.efficientnet_b0, "b4": efficientnet.efficientnet_b4}
    model: nn.Module = makers[name](1000, 0.125 if tiny else 1.0)
    return model


def resident(bench: Bench, name: str, batch: int, side: int, *, nhwc: bool = True, compiled: bool = False) -> float:
    """Images per second of training on one batch that stays on the GPU, as the recipe trains."""
    if bench.tiny:
        batch, side = 2, 32
    model = net(name, bench.tiny).to(bench.device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, fused=bench.device.type == "cuda")
    layout = torch.channels_last if nhwc else torch.contiguous_format
    pictures = torch.randn(batch, 3, side, side, device=bench.device).to(bench.dtype, memory_format=layout)
    labels = torch.randint(1000, (batch,), device=bench.device)
    forward: Any = torch.compile(model, backend="eager" if bench.tiny else "inductor") if compiled else model

    def steps(count: int) -> None:
        for _ in range(count):
            optimizer.zero_grad()
            with torch.autocast(bench.device.type, bench.dtype, enabled=bench.dtype is not torch.float32):
                loss = nn.functional.cross_entropy(forward(pictures), labels)
            loss.backward()
            optimizer.step()

    steps(1 if bench.tiny else 15)
    count = 1 if bench.tiny else 40
    return count * batch / bench.seconds(lambda: steps(count))


def resnet(bench: Bench) -> Iterator[Row]:
    nchw = resident(bench, "resnet50", 256, 224, nhwc=False)
    yield Row("ResNet-50, resident data, NCHW", nchw, "images/s")
    nhwc = resident(bench, "resnet50", 256, 224)
    yield Row("ResNet-50, resident data, NHWC", nhwc, "images/s", "ResNet-50")
    yield Row("of it, NHWC over NCHW", nhwc / nchw, "x", "NHWC over NCHW")
    yield from real(bench, nhwc)


def efficientnets(bench: Bench) -> Iterator[Row]:
    yield Row("EfficientNet-B0, resident data", resident(bench, "b0", 256, 224), "images/s", "EfficientNet-B0")
    yield Row("EfficientNet-B4, resident data", resident(bench, "b4", 64, 380), "images/s", "EfficientNet-B4")


def compiled(bench: Bench) -> Iterator[Row]:
    eager = resident(bench, "resnet50", 256, 224)
    found = resident(bench, "resnet50", 256, 224, compiled=True)
    yield Row("ResNet-50, torch.compile over eager", found / eager, "x", "compile over eager")


def decode(bench: Bench) -> Iterator[Row]:
    """The second of two epochs."""
    from gpucluster_train import dali
    from gpucluster_train.torch_samples import Samples

    if not dali.available():
        yield Row("DALI", None, "", note=dali.loss())
        return
    for load in (0.65, 0.9, 1.0):
        size, batch = (32, 4) if bench.tiny else (224, 256)
        args = (Samples("train"), batch, size, True, bench.device, bench.dtype)
        batches = dali.Batches(*args, hw_decoder_load=load)
        for _ in batches:
            pass
        count = len(batches) * batch
        speed = count / bench.seconds(lambda: [None for _ in batches])  # noqa: B023 - called at once
        yield Row(f"DALI alone, hw_decoder_load {load}", speed, "images/s", "DALI")


def real(bench: Bench, resident_speed: float) -> Iterator[Row]:
    """The recipe, from shards. The last of three epochs."""
    said = recipe(bench, 1)
    speed, data_wait = epochs(said)
    yield Row("ResNet-50, from shards", speed, "images/s", "ResNet-50")
    yield Row("of it, over resident data", speed / resident_speed, "x", "real over resident")
    yield Row("its ranks waited for data", data_wait, "%", "data_wait")


def ranks(bench: Bench) -> Iterator[Row]:
    if bench.device.type == "cuda" and torch.cuda.device_count() < 2:
        yield Row("ResNet-50, two ranks", None, "", note="this machine has one GPU")
        return
    binding = ["--numa-binding=node"] if bench.device.type == "cuda" else []
    one, _ = epochs(recipe(bench, 1))
    two, data_wait = epochs(recipe(bench, 2, *binding))
    yield Row("ResNet-50, two ranks bound to NUMA nodes", two, "images/s")
    yield Row("of it, over one rank", two / one, "x", "two ranks over one")
    yield Row("its ranks waited for data", data_wait, "%", "data_wait")


def recipe(bench: Bench, count: int, *launch: str) -> str:
    small = ["--width", "0.125", "--image-size", "32", "--batch-per-rank", "4", "--workers", "1"]
    size = small if bench.tiny else ["--batch-per-rank", "256"]
    program = [
        str(ROOT / "examples/imagenet/train_torch.py"),
        "resnet50",
        "--epochs",
        "3",
        "--warmup-epochs",
        "0",
        *size,
    ]
    return torchrun(bench, count, [*launch], program)


def epochs(said: str) -> tuple[float, float]:
    """Images per second, and the share of the time waited for data, of the last epoch."""
    last = re.findall(r"epoch \d+/\d+: .* ([0-9.]+) images/s, data ([0-9.]+) %", said)[-1]
    return float(last[0]), float(last[1])


def language(bench: Bench) -> Iterator[Row]:
    """1.3 B parameters: 24 layers of width 2048, and GPT-2's vocabulary."""
    full = "--layers 24 --width 2048 --length 2048 --batch 8 --vocabulary 50257 --compile blocks"
    full += " --steps 30 --save-every 10"
    tiny = "--layers 1 --width 64 --length 32 --batch 4 --steps 4 --save-every 2"
    with tempfile.TemporaryDirectory() as folder:
        words = [*(tiny if bench.tiny else full).split(), "--state", folder]
        said = torchrun(bench, 1, [], [str(ROOT / "examples/fsdp/train.py"), *words])
    found: dict[str, Any] = json.loads([line for line in said.splitlines() if line.startswith("{")][-1])
    yield Row("FSDP, 1.3 B parameters, sequences of 2048", found["throughput"], "tokens/s", "tokens/s")
    yield Row("of it, MFU", found.get("mfu"), "%", "MFU")


def torchrun(bench: Bench, count: int, launch: list[str], program: list[str]) -> str:
    """Returns what it printed. Raises RuntimeError."""
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    if bench.device.type == "cpu":
        environment["CUDA_VISIBLE_DEVICES"] = ""
    left = max(30.0, bench.ends - time.monotonic())
    done = subprocess.run(
        [*run, *launch, *program], env=environment, capture_output=True, text=True, check=False, timeout=left
    )
    if done.returncode:  # the rank's own words come before torchrun's
        raise RuntimeError(f"{' '.join(program)}: exit code {done.returncode}: {(done.stdout + done.stderr)[:2000]}")
    return done.stdout


PARTS: dict[str, Callable[[Bench], Iterator[Row]]] = {
    "resnet": resnet,
    "decode": decode,
    "efficientnets": efficientnets,
    "language": language,
    "ranks": ranks,
    "compiled": compiled,
}
"""The most important first: the time may run out."""


def rows(bench: Bench, parts: list[str]) -> Iterator[Row]:
    for name in parts:
        if time.monotonic() > bench.ends:
            yield Row(name, None, "", note=f"no time left of {LIMIT_S} s")
            continue
        try:
            yield from PARTS[name](bench)
        except (RuntimeError, subprocess.TimeoutExpired, KeyError, IndexError, TypeError) as error:
            yield Row(name, None, "", note=f"failed: {type(error).__name__}: {error}")


def main() -> int:
    parser = argparse.ArgumentParser(description="How fast one GPU trains and decodes.")
    parser.add_argument("job", type=Path, help="folder of a job with the channels train and val")
    parser.add_argument("--tiny", action="store_true", help="every part in seconds, on a CPU")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    asked = parser.parse_args()
    os.environ |= {"GPUCLUSTER_JOB_DIR": str(asked.job), "GPUCLUSTER_NODE": "here"}
    torch.backends.cudnn.benchmark = True
    device = torch.device("cpu" if asked.tiny else "cuda")
    if asked.tiny:
        torch.set_num_threads(1)
    bench = Bench(asked.job, asked.tiny, device, time.monotonic() + LIMIT_S)
    kind = "a CPU, tiny: no figure here says anything" if asked.tiny else torch.cuda.get_device_name()
    print(f"{kind}; torch {torch.__version__}, CUDA {torch.version.cuda}; {os.cpu_count()} CPUs", flush=True)
    found = []
    for row in rows(bench, asked.only):
        print(row.line(), flush=True)
        found.append(row)
    print(json.dumps([asdict(row) for row in found]), flush=True)
    return 1 if any(row.note.startswith("failed") for row in found) else 0


if __name__ == "__main__":
    sys.exit(main())

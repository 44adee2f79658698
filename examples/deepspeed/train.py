"""DeepSpeed ZeRO: a classifier of handwritten digits whose optimizer, gradients and weights are sharded over the ranks.

DS_ACCELERATOR=cpu torchrun --nproc-per-node 2 examples/deepspeed/train.py --state /tmp/deepspeed  # without a cluster
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from pathlib import Path

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("DS_ACCELERATOR", "cpu")  # read when DeepSpeed is imported

import deepspeed  # noqa: E402
import torch.distributed as dist  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402
from torch import Tensor, nn  # noqa: E402

TEST_IMAGES = 360


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train with DeepSpeed's ZeRO.")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=64, help="images of a step, of all ranks together")
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument(
        "--stage", type=int, choices=(1, 2, 3), default=3, help="1: the optimizer in shards, 2: gradients, 3: all"
    )
    parser.add_argument("--state", type=Path, default=Path(os.environ.get("GPUCLUSTER_STATE", "state")))
    return parser.parse_args()


def digits() -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """To train on, and to test with."""
    loaded = load_digits()
    order = torch.randperm(len(loaded.target), generator=torch.Generator().manual_seed(1))
    images = torch.tensor(loaded.images, dtype=torch.float32).unsqueeze(1)[order] / 16
    labels = torch.tensor(loaded.target)[order]
    return (images[TEST_IMAGES:], labels[TEST_IMAGES:]), (images[:TEST_IMAGES], labels[:TEST_IMAGES])


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 16, kernel_size=3, padding=1), nn.ReLU(),
        nn.Conv2d(16, 32, kernel_size=3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 10),
    )  # fmt: skip


def settings(options: argparse.Namespace) -> dict[str, object]:
    """https://www.deepspeed.ai/docs/config-json. A global batch, whatever the number of ranks."""
    return {
        "train_batch_size": options.batch,
        "optimizer": {"type": "AdamW", "params": {"lr": options.learning_rate, "torch_adam": True}},
        "zero_optimization": {"stage": options.stage},
        "bf16": {"enabled": torch.cuda.is_available()},
    }


def train(options: argparse.Namespace) -> None:
    engine, *_ = deepspeed.initialize(model=network(), config=settings(options))
    rank, ranks = dist.get_rank(), dist.get_world_size()
    dtype = next(engine.parameters()).dtype
    (images, labels), test = digits()
    _, saved = engine.load_checkpoint(str(options.state)) if (options.state / "latest").exists() else (None, {})
    resumed_from = saved.get("epochs", 0)
    for epoch in range(resumed_from, options.epochs):
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(epoch))
        total, batches = (
            torch.zeros((), device=engine.device),
            order.split(options.batch)[: len(labels) // options.batch],
        )
        for batch in batches:
            own = batch[rank::ranks]
            outputs = engine(images[own].to(engine.device, dtype))
            loss = nn.functional.cross_entropy(outputs.float(), labels[own].to(engine.device))
            engine.backward(loss)
            engine.step()
            total += loss.detach()
        engine.save_checkpoint(str(options.state), tag=f"epoch-{epoch + 1}", client_state={"epochs": epoch + 1})
        dist.all_reduce(total)
        if rank == 0:
            print(f"epoch {epoch + 1}: loss {total.item() / ranks / len(batches):.4f}", flush=True)
    engine.eval()
    with torch.no_grad():  # on every rank all images: weights in shards are gathered by all together
        outputs = engine(test[0].to(engine.device, dtype)).float().cpu()
    loss, hits = nn.functional.cross_entropy(outputs, test[1]), (outputs.argmax(dim=1) == test[1]).float().mean()
    if rank == 0:
        done = {"loss": round(loss.item(), 4), "accuracy": round(hits.item(), 4), "epochs": options.epochs}
        print(json.dumps({**done, "resumed_from": resumed_from, "world_size": ranks}), flush=True)


def main() -> None:
    options = arguments()
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if not shutil.which("c++"):
        # On CPUs DeepSpeed would compile a faster sum within a node. Gloo does this too.
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed()
    train(options)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

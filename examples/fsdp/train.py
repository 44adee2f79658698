"""FSDP: a small transformer, sharded over all ranks, with checkpoints from which any number of ranks resumes.

torchrun --nproc-per-node 2 examples/fsdp/train.py --state /tmp/fsdp        # the same program, without a cluster
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

VOCABULARY = 32


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a transformer with FSDP.")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--save-every", type=int, default=20, metavar="STEPS")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--length", type=int, default=32, help="tokens of a sequence")
    parser.add_argument("--batch", type=int, default=32, help="sequences of a step, of all ranks together")
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--state", type=Path, default=Path(os.environ.get("GPUCLUSTER_STATE", "state")))
    return parser.parse_args()


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = max(1, width // 64 if width >= 512 else width // 16)
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries_keys_values, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        heads = self.queries_keys_values(self.before(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.feed_forward(self.between(x))


class Transformer(nn.Module):
    def __init__(self, layers: int, width: int, length: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.out(self.norm(x))


def sequences(step: int, batch: int, length: int) -> Tensor:
    """Counting in steps of 1 to 4, from anywhere. Put your own data here: whatever depends on the number of the step
    alone is the same after a restart."""
    draw = torch.Generator().manual_seed(step)
    first = torch.randint(VOCABULARY, (batch, 1), generator=draw)
    return (first + torch.randint(1, 5, (batch, 1), generator=draw) * torch.arange(length + 1)) % VOCABULARY


class Training:
    """All that a checkpoint holds. torch.distributed.checkpoint calls state_dict and load_state_dict."""

    def __init__(self, options: argparse.Namespace, device: torch.device) -> None:
        torch.manual_seed(0)  # alike on all ranks, which then keep their shards
        model = Transformer(options.layers, options.width, options.length)
        half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        mesh = dist.init_device_mesh(device.type, (dist.get_world_size(),))
        policy = {"mesh": mesh} if device.type == "cpu" else {"mesh": mesh, "mp_policy": half}
        for block in model.blocks:  # each is gathered when it computes, and no longer
            fully_shard(block, **policy)
        self.model = fully_shard(model, **policy)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=options.learning_rate)
        self.steps, self.loss = 0, 0.0

    def state_dict(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, "steps": self.steps, "loss": self.loss}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        set_state_dict(self.model, self.optimizer, model_state_dict=saved["model"], optim_state_dict=saved["optimizer"])
        self.steps, self.loss = saved["steps"], saved["loss"]

    def step(self, tokens: Tensor) -> Tensor:
        """Returns the mean loss over this rank's sequences."""
        logits = self.model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.steps += 1
        return loss.detach()


class Checkpoints:
    """Folders step-N, on storage that all nodes share. A folder gets its name when it is complete."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def by_age(self) -> list[Path]:
        complete = (each for each in self.folder.glob("step-*") if each.suffix != ".tmp")
        return sorted(complete, key=lambda each: int(each.name.removeprefix("step-")))

    def save(self, training: Training) -> None:
        """Keeps the one before, too."""
        name = f"step-{training.steps}"
        dcp.save({"training": training}, checkpoint_id=self.folder / f"{name}.tmp")
        if dist.get_rank() == 0:
            shutil.rmtree(self.folder / name, ignore_errors=True)
            (self.folder / f"{name}.tmp").rename(self.folder / name)
            for old in self.by_age()[:-2]:
                shutil.rmtree(old)
        dist.barrier()

    def load(self, training: Training) -> None:
        """The newest that the first rank sees: another node may see a new folder a little later."""
        newest = [self.by_age()[-1] if self.by_age() else None]
        dist.broadcast_object_list(newest)
        if newest[0]:
            dcp.load({"training": training}, checkpoint_id=newest[0])


def main() -> None:
    options = arguments()
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    training, checkpoints = Training(options, device), Checkpoints(options.state)
    checkpoints.load(training)
    resumed_from = training.steps
    if rank == 0:
        print(f"{'resumes after' if resumed_from else 'starts at'} step {resumed_from}", flush=True)
    while training.steps < options.steps:
        tokens = sequences(training.steps, options.batch, options.length)
        loss = training.step(tokens[rank::ranks].to(device))
        if training.steps % options.save_every == 0 or training.steps == options.steps:
            dist.all_reduce(loss)
            training.loss = loss.item() / ranks
            checkpoints.save(training)
            if rank == 0:
                print(f"step {training.steps}: loss {training.loss:.4f}", flush=True)
    if rank == 0:
        done = {"loss": round(training.loss, 4), "steps": training.steps, "resumed_from": resumed_from}
        print(json.dumps({**done, "world_size": ranks}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""FSDP: a small transformer, sharded over all ranks, with checkpoints from which any number of ranks resumes.

Without a cluster, in a checkout:
PYTHONPATH=. torchrun --nproc-per-node 2 examples/fsdp/train.py --state /tmp/fsdp
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint

from gpucluster_train.flops import Speed, per_token

REPORT_EVERY = 20
"""Steps. A report waits for the GPU."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a transformer with FSDP.")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--save-every", type=int, default=20, metavar="STEPS")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--length", type=int, default=32, help="tokens of a sequence")
    parser.add_argument("--batch", type=int, default=32, help="sequences of a step, of all ranks together")
    parser.add_argument("--vocabulary", type=int, default=32, help="50257 for GPT-2's tokens, 32000 for Llama 2's")
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--clip", type=float, metavar="NORM", help="scale gradients down to this norm, such as 1.0")
    parser.add_argument("--compile", choices=("none", "blocks"), default="none", help="takes a minute or more")
    parser.add_argument("--recompute", choices=("none", "blocks"), default="none", help="saves memory, costs time")
    parser.add_argument("--state", type=Path, default=Path(os.environ.get("GPUCLUSTER_STATE", "state")))
    return parser.parse_args()


class Block(nn.Module):
    def __init__(self, width: int, options: argparse.Namespace) -> None:
        super().__init__()
        self.heads = max(1, width // 64 if width >= 512 else width // 16)
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries_keys_values, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        compute = torch.compile(self._compute) if options.compile == "blocks" else self._compute
        # inside the block, so that FSDP gathers its weights once for each direction
        again = options.recompute == "blocks"
        self.compute = partial(checkpoint, compute, use_reentrant=False) if again else compute

    def forward(self, x: Tensor) -> Tensor:
        return self.compute(x)

    def _compute(self, x: Tensor) -> Tensor:
        heads = self.queries_keys_values(self.before(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.feed_forward(self.between(x))


class Transformer(nn.Module):
    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__()
        width = options.width
        self.tokens, self.places = nn.Embedding(options.vocabulary, width), nn.Embedding(options.length, width)
        self.blocks = nn.ModuleList(Block(width, options) for _ in range(options.layers))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, options.vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.out(self.norm(x))


def flops_per_token(model: Transformer, options: argparse.Namespace) -> float:
    looked_up = model.tokens.weight.numel() + model.places.weight.numel()
    parameters = sum(each.numel() for each in model.parameters()) - looked_up
    return per_token(parameters, options.layers, options.width, options.length)


def sequences(step: int, batch: int, length: int, vocabulary: int) -> Tensor:
    """Counting in steps of 1 to 4, from anywhere. Put your own data here: whatever depends on the number of the step
    alone is the same after a restart."""
    draw = torch.Generator().manual_seed(step)
    first = torch.randint(vocabulary, (batch, 1), generator=draw)
    return (first + torch.randint(1, 5, (batch, 1), generator=draw) * torch.arange(length + 1)) % vocabulary


class Training:
    """All that a checkpoint holds. torch.distributed.checkpoint calls state_dict and load_state_dict."""

    def __init__(self, options: argparse.Namespace, device: torch.device) -> None:
        torch.manual_seed(0)  # alike on all ranks, which then keep their shards
        model = Transformer(options)
        self.flops_per_token = flops_per_token(model, options)
        half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        mesh = dist.init_device_mesh(device.type, (dist.get_world_size(),))
        policy = {"mesh": mesh} if device.type == "cpu" else {"mesh": mesh, "mp_policy": half}
        for block in model.blocks:  # each is gathered when it computes, and no longer
            fully_shard(block, **policy)
        self.model = fully_shard(model, **policy)
        fused = device.type == "cuda"
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=options.learning_rate, fused=fused)
        self.clip = options.clip
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
        if self.clip:  # the norm is of the gradients of all ranks: they are DTensors
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        self.steps += 1
        return loss.detach()


class Checkpoints:
    """Folders step-N, on storage that all nodes share. A folder gets its name when it is complete.

    Training waits until its state is copied to the CPU's memory. A thread then writes the copy, over Gloo and not over
    the GPUs' network, while training continues.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.group = folder, dist.new_group(backend="gloo")
        self.writing: Future[Any] | None = None
        self.name = ""

    def by_age(self) -> list[Path]:
        complete = (each for each in self.folder.glob("step-*") if each.suffix != ".tmp")
        return sorted(complete, key=lambda each: int(each.name.removeprefix("step-")))

    def save(self, training: Training) -> None:
        self.name_complete(wait=True)
        place = self.folder / f"step-{training.steps}.tmp"
        self.writing = dcp.async_save({"training": training}, checkpoint_id=place, process_group=self.group)
        self.name = f"step-{training.steps}"

    def name_complete(self, *, wait: bool = False) -> None:
        """Keeps the checkpoint before, too. Raises what any rank could not write."""
        if self.writing is None or not (wait or self.writing.done()):
            return
        self.writing.result()
        self.writing = None
        if dist.get_rank() == 0:  # its thread ends when all ranks have written
            shutil.rmtree(self.folder / self.name, ignore_errors=True)
            (self.folder / f"{self.name}.tmp").rename(self.folder / self.name)
            for old in self.by_age()[:-2]:
                shutil.rmtree(old)

    def load(self, training: Training) -> None:
        """The newest that the first rank sees: another node may see a new folder a little later."""
        newest = [self.by_age()[-1] if self.by_age() else None]
        dist.broadcast_object_list(newest)
        if newest[0]:
            dcp.load({"training": training}, checkpoint_id=newest[0])


def train(training: Training, checkpoints: Checkpoints, options: argparse.Namespace, device: torch.device) -> Speed:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    speed = Speed(training.flops_per_token, gpu, ranks)
    while training.steps < options.steps:
        tokens = sequences(training.steps, options.batch, options.length, options.vocabulary)
        loss = training.step(tokens[rank::ranks].to(device))
        speed.add(options.batch * options.length)
        checkpoints.name_complete()
        saves = training.steps % options.save_every == 0 or training.steps == options.steps
        if saves or training.steps % REPORT_EVERY == 0:
            dist.all_reduce(loss)
            training.loss = loss.item() / ranks
            if rank == 0:
                print(f"step {training.steps}: loss {training.loss:.4f}, {speed.report()}", flush=True)
        if saves:
            checkpoints.save(training)
    checkpoints.name_complete(wait=True)
    return speed


def main() -> None:
    options = arguments()
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    rank = dist.get_rank()
    training, checkpoints = Training(options, device), Checkpoints(options.state)
    checkpoints.load(training)
    resumed_from = training.steps
    if rank == 0:
        print(f"{'resumes after' if resumed_from else 'starts at'} step {resumed_from}", flush=True)
    speed = train(training, checkpoints, options, device)
    if rank == 0:
        done = {"loss": round(training.loss, 4), "throughput": speed.throughput, "mfu": speed.mfu}
        done |= {"steps": training.steps, "resumed_from": resumed_from, "world_size": dist.get_world_size()}
        print(json.dumps(done), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

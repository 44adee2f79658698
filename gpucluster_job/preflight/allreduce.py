"""One rank of an all-reduce in the job's framework, started like the job's own ranks: checks the sum and measures the
speed.

Rank 0 prints the result as one line of JSON. Without a known framework it reports that and exits with code 0.

With torch on three nodes or more it then measures pairs of nodes, to find a slow one. Each pair's first rank prints its
result. Nothing here needs numpy, which torch.distributed needs for Python's objects.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Tuple

GPU_BYTES, CPU_BYTES = 2**30, 2**22
WARM_UPS, REPEATS = 3, 10
PASSES, PAIR_REPEATS = 2, 3
"""Each pair is measured so often, and its best result counts; with so many repetitions at least, if there is time."""
PAIR_S, PAIRS_S = 0.5, 100.0
"""For how long one pair is measured at least, and all of them at most. The whole program must end within 300 s."""

Pair = Tuple[str, str]


def main() -> None:
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    run = chosen()
    if run is None:
        if rank == 0:
            print(json.dumps({"skipped": "neither torch nor Horovod is in the job's environment"}))
        return
    run(rank, world)


def chosen() -> Callable[[int, int], None] | None:
    def there(name: str) -> bool:
        return importlib.util.find_spec(name) is not None

    if os.environ["GPUCLUSTER_LAUNCHER"] == "horovodrun":
        frameworks = {"torch": horovod_torch, "tensorflow": horovod_tensorflow}
        return next((run for name, run in frameworks.items() if there("horovod") and there(name)), None)
    return torch_distributed if there("torch") else None


class AllReduce(NamedTuple):
    numbers: Any
    """A tensor of float32."""
    reduce: Callable[[], Any]
    """Sums `numbers` over the ranks."""
    synchronize: Callable[[], None]
    rank: int
    world: int

    @property
    def bytes(self) -> int:
        return int(self.numbers.numel() * self.numbers.element_size())

    def wrong(self) -> str:
        """What is wrong with the sum; empty if it is right."""
        self.numbers.fill_(float(self.rank + 1))
        self.reduce()
        return compare(float(self.numbers.min()), float(self.numbers.max()), self.world)

    def seconds(self, count: int) -> float:
        """The seconds of one all-reduce, on average."""
        self.synchronize()
        began = time.perf_counter()
        for _ in range(count):
            self.reduce()
        self.synchronize()
        return (time.perf_counter() - began) / count

    def gb_per_s(self, seconds: float) -> float:
        """Bus bandwidth as nccl-tests defines it: the traffic of each link, whatever the number of ranks."""
        return self.bytes / seconds * 2 * (self.world - 1) / self.world / 1e9


def torch_distributed(rank: int, world: int) -> None:
    import torch
    import torch.distributed as dist

    device = _torch_device(torch)
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend)
    numbers, synchronize = torch.empty(_bytes(device.type) // 4, device=device), _synchronize(torch, device)

    def all_reduce(group: Any = None) -> AllReduce:
        def reduce() -> None:
            dist.all_reduce(numbers, group=group)

        return AllReduce(numbers, reduce, synchronize, dist.get_rank(group), dist.get_world_size(group))

    nodes = os.environ["GPUCLUSTER_NODES"].split()
    seconds = _measure(all_reduce(), f"torch, {backend}", pairs_follow=len(nodes) > 2)
    if len(nodes) > 2:
        slowest = torch.tensor([seconds], device=device)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        own = torch.tensor([nodes.index(os.environ["GPUCLUSTER_NODE"])], device=device)
        of_ranks = [torch.zeros_like(own) for _ in range(world)]
        dist.all_gather(of_ranks, own)
        by_rank = [nodes[each.tolist()[0]] for each in of_ranks]
        _measure_pairs(dist, rank, by_rank, all_reduce, repeats(slowest.tolist()[0]))
    dist.barrier()
    dist.destroy_process_group()


def repeats(seconds: float) -> int:
    """How often each pair repeats its all-reduce, if one of all nodes takes so long. 0: there is no time for that."""
    most = PAIRS_S / seconds / 3 / (PASSES + 1)
    return int(min(max(PAIR_S / seconds, PAIR_REPEATS), most))


def _measure_pairs(
    dist: Any, rank: int, by_rank: Sequence[str], all_reduce: Callable[[Any], AllReduce], count: int
) -> None:
    """`by_rank`: each rank's node."""
    own = [_own_pair(dist, rank, by_rank, each, all_reduce) for each in rounds(list(dict.fromkeys(by_rank))) if count]
    for each in own * PASSES:
        dist.barrier()  # the pairs of a round are measured at the same time
        if each:
            pair, of_pair = each
            speed = of_pair.gb_per_s(of_pair.seconds(count))
            if of_pair.rank == 0:
                print(json.dumps({"pair": pair, "busbw_gb_per_s": round(speed, 3)}), flush=True)


def _own_pair(
    dist: Any, rank: int, by_rank: Sequence[str], pairs: Sequence[Pair], all_reduce: Callable[[Any], AllReduce]
) -> tuple[Pair, AllReduce] | None:
    """This rank's pair of a round, if it has one. Exits if the pair's sum is wrong."""
    # All ranks create all groups, in the same order. With use_local_synchronization ranks that are members of different
    # numbers of groups wait for each other forever (pytorch/pytorch#173608).
    groups = {pair: dist.new_group([each for each, node in enumerate(by_rank) if node in pair]) for pair in pairs}
    pair = next((pair for pair in pairs if by_rank[rank] in pair), None)
    if pair is None:
        return None
    of_pair = all_reduce(groups[pair])
    wrong = of_pair.wrong()
    if wrong:
        print(json.dumps({"pair": pair, "wrong": wrong}), flush=True)
        sys.exit(wrong)
    of_pair.numbers.zero_()
    return pair, of_pair


def rounds(nodes: Sequence[str]) -> list[list[Pair]]:
    """Each node with the next one, and the last with the first: each is in two pairs, and in one of a round."""
    if len(nodes) < 3:
        return []
    ring = [(node, nodes[(number + 1) % len(nodes)]) for number, node in enumerate(nodes)]
    even = len(ring) // 2 * 2
    return [each for each in (ring[0:even:2], ring[1:even:2], ring[even:]) if each]


def horovod_torch(rank: int, world: int) -> None:
    import horovod.torch as hvd
    import torch

    hvd.init()
    device = _torch_device(torch)
    numbers = torch.empty(_bytes(device.type) // 4, device=device)

    def reduce() -> None:
        hvd.allreduce_(numbers, op=hvd.Sum, name="preflight")

    _measure(AllReduce(numbers, reduce, _synchronize(torch, device), rank, hvd.size()), "Horovod with torch")
    hvd.shutdown()


def horovod_tensorflow(rank: int, world: int) -> None:
    """Only the sum: a measurement with its other functions would count their time as the network's."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    total = hvd.allreduce(tf.fill([1024], float(rank + 1)), op=hvd.Sum)
    wrong = compare(float(tf.reduce_min(total)), float(tf.reduce_max(total)), hvd.size())
    if wrong:
        sys.exit(wrong)
    if rank == 0:
        print(json.dumps({"framework": "Horovod with TensorFlow", "ranks": hvd.size()}), flush=True)
    hvd.shutdown()


def _torch_device(torch: Any) -> Any:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    return torch.device("cuda", torch.cuda.current_device())


def _synchronize(torch: Any, device: Any) -> Callable[[], None]:
    return torch.cuda.synchronize if device.type == "cuda" else lambda: None


def _bytes(device: str) -> int:
    return GPU_BYTES if device == "cuda" else CPU_BYTES


def _measure(whole: AllReduce, framework: str, *, pairs_follow: bool = False) -> float:
    """Runs on all ranks. Returns the seconds of one all-reduce. Exits if the sum is wrong."""
    wrong, nodes = whole.wrong(), os.environ.get("GPUCLUSTER_NODES", "").split()
    if wrong and len(nodes) in (1, 2):  # of more nodes, nobody knows whose numbers are wrong
        print(json.dumps({"pair": nodes, "wrong": wrong}), flush=True)
    if wrong:
        sys.exit(wrong)
    whole.numbers.zero_()
    for _ in range(WARM_UPS):
        whole.reduce()
    seconds = whole.seconds(REPEATS)
    if whole.rank == 0:
        result: dict[str, Any] = {"framework": framework, "ranks": whole.world, "bytes": whole.bytes}
        result.update(seconds=seconds, busbw_gb_per_s=whole.gb_per_s(seconds))
        print(json.dumps({**result, "pairs_follow": True} if pairs_follow else result), flush=True)
    return seconds


def compare(least: float, most: float, world: int) -> str:
    expected = world * (world + 1) / 2
    if (least, most) == (expected, expected):
        return ""
    return f"an all-reduce over {world} ranks gave numbers from {least:g} to {most:g}, expected {expected:g}"


if __name__ == "__main__":
    main()

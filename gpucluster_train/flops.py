"""Tokens per second, and the share of a GPU's peak that training a transformer uses (MFU). Without torch.

Only what the model needs is counted, not what activation checkpointing computes again (PaLM, arXiv 2204.02311, appendix
B).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

# Dense bfloat16, in FLOP/s, from NVIDIA's pages of these GPUs, as in get_peak_flops of pytorch/torchtitan's
# torchtitan/tools/utils.py (02581674). The first name that the GPU's name contains counts.
PEAK_FLOPS = {
    "A100": 312e12, "H100 NVL": 835e12, "H100 PCIe": 756e12, "H100": 989e12, "H200": 989e12, "B200": 2250e12,
    "L40S": 362e12,
}  # fmt: skip


def peak_flops(gpu: str) -> float | None:
    """`gpu` as torch.cuda.get_device_name() has it: "NVIDIA H100 80GB HBM3". None for a GPU that is not in the table,
    and for ""."""
    return next((peak for name, peak in PEAK_FLOPS.items() if re.search(rf"\b{name}\b", gpu)), None)


def per_token(parameters: int, layers: int, width: int, length: int) -> float:
    """FLOPs to train with one token: 6 N + 12 L H Q T, where `width` is H Q, heads times their size. `parameters`: N
    without embeddings, which are looked up (get_num_flop_per_token in torchtitan). Causality saves nothing here."""
    return 6.0 * parameters + 12.0 * layers * width * length


class Speed:
    """Counts the tokens of all ranks between reports. The first report includes what only the first steps do, such as
    compiling."""

    def __init__(
        self, flops_per_token: float, gpu: str, ranks: int, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        peak = peak_flops(gpu)
        self._share_per_token = flops_per_token / peak / ranks if peak else None
        self._clock, self._since, self._tokens = clock, clock(), 0
        self.throughput = 0.0
        """Tokens per second of all ranks, before the last report."""
        self.mfu: float | None = None
        """In percent. None where the GPU's peak is not known."""

    def add(self, tokens: int) -> None:
        self._tokens += tokens

    def report(self) -> str:
        """Begins the next count. The caller has waited for its GPU before."""
        now = self._clock()
        self.throughput = round(self._tokens / max(now - self._since, 1e-9), 1)
        if self._share_per_token is not None:
            self.mfu = round(100 * self.throughput * self._share_per_token, 1)
        self._since, self._tokens = now, 0
        return f"{self.throughput} tokens/s" + (f", mfu {self.mfu} %" if self.mfu is not None else "")

"""Tokens per second and MFU of the language models' recipes."""

from __future__ import annotations

import pytest

from gpucluster_train.flops import PEAK_FLOPS, Speed, peak_flops, per_token


@pytest.mark.parametrize(
    ("gpu", "peak"),
    [  # as nvidia-smi and torch.cuda.get_device_name() have them
        ("NVIDIA A100-SXM4-40GB", 312e12),
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA H100 NVL", 835e12),
        ("NVIDIA H200", 989e12),
        ("NVIDIA L40S", 362e12),
        ("NVIDIA GB200", None),
        ("NVIDIA L40", None),
        ("Tesla T4", None),
        ("", None),
    ],
)
def test_the_peak_of_a_gpu(gpu: str, peak: float | None) -> None:
    assert peak_flops(gpu) == peak


def test_the_share_of_the_peak_is_what_llm_foundry_publishes() -> None:
    """scripts/train/benchmarking/README.md of mosaicml/llm-foundry: 1,315,950,592 parameters, 24 layers of width 2048,
    length 2048, on 8 H100: 363,645 tokens/s, which are 41.82 % of the peak."""
    now = [0.0]
    speed = Speed(per_token(1_315_950_592, 24, 2048, 2048), "NVIDIA H100 80GB HBM3", 8, lambda: now[0])
    speed.add(3_636_450)
    now[0] = 10.0
    assert speed.report() == f"363645.0 tokens/s, mfu {speed.mfu} %"
    assert speed.mfu == pytest.approx(41.84, abs=0.1)


def test_a_report_counts_from_the_one_before() -> None:
    now = [5.0]
    speed = Speed(1e9, "", 2, lambda: now[0])
    speed.add(100)
    now[0] = 7.0
    assert speed.report() == "50.0 tokens/s"
    speed.add(10)
    now[0] = 8.0
    assert (speed.report(), speed.mfu) == ("10.0 tokens/s", None)


def test_longer_names_come_first() -> None:
    """The first name that a GPU's name contains counts."""
    names = list(PEAK_FLOPS)
    assert all(not later.startswith(earlier) for at, earlier in enumerate(names) for later in names[at + 1 :])

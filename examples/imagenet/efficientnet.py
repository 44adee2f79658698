"""EfficientNet-B0 and B4 (Tan and Le, 2019, arXiv:1905.11946): parameters and outputs are those of torchvision's."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

STAGES = (
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)  # fmt: skip
"""Expansion, channels, blocks, stride of the first one, kernel; for B0."""
DROPPED_BLOCKS = 0.2
"""How often the last block is left out in training; earlier ones less, in a straight line."""


class Squeeze(nn.Module):
    """Weighs channels by what the whole image holds of them."""

    def __init__(self, channels: int, narrow: int) -> None:
        super().__init__()
        self.weights = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, narrow, 1), nn.SiLU(inplace=True),
            nn.Conv2d(narrow, channels, 1), nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, images: Tensor) -> Tensor:
        return images * self.weights(images)


class Block(nn.Module):
    """Widen, convolve each channel by itself, weigh, narrow."""

    def __init__(self, inputs: int, outputs: int, expansion: int, stride: int, kernel: int, dropped: float) -> None:
        super().__init__()
        wide = inputs * expansion
        widen = [*_convolution(inputs, wide, 1), nn.SiLU(inplace=True)] if expansion > 1 else []
        self.body = nn.Sequential(
            *widen, *_convolution(wide, wide, kernel, stride, groups=wide), nn.SiLU(inplace=True),
            Squeeze(wide, max(1, inputs // 4)), *_convolution(wide, outputs, 1),
        )  # fmt: skip
        self.has_shortcut = inputs == outputs and stride == 1
        self.dropped = dropped

    def forward(self, images: Tensor) -> Tensor:
        out = self.body(images)
        if not self.has_shortcut:
            return out
        if self.training:
            kept = torch.rand(len(images), 1, 1, 1, device=images.device) >= self.dropped
            out = out * kept / (1 - self.dropped)
        return images + out


def _convolution(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> tuple[nn.Module, ...]:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False)
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out")
    return convolution, nn.BatchNorm2d(outputs, eps=0.001)


def efficientnet_b0(classes: int, width: float = 1.0) -> nn.Module:
    return _efficientnet(classes, width, depth=1.0, dropout=0.2)


def efficientnet_b4(classes: int, width: float = 1.0) -> nn.Module:
    return _efficientnet(classes, 1.4 * width, depth=1.8, dropout=0.4)


def _efficientnet(classes: int, width: float, depth: float, dropout: float) -> nn.Module:
    channels = _channels(32, width)
    layers: list[nn.Module] = [*_convolution(3, channels, 3, 2), nn.SiLU(inplace=True)]
    total, built = sum(math.ceil(blocks * depth) for _, _, blocks, _, _ in STAGES), 0
    for expansion, full, blocks, stride, kernel in STAGES:
        for block in range(math.ceil(blocks * depth)):
            outputs, dropped = _channels(full, width), DROPPED_BLOCKS * built / total
            layers.append(Block(channels, outputs, expansion, stride if block == 0 else 1, kernel, dropped))
            channels, built = outputs, built + 1
    last = _channels(1280, width)
    layers += [*_convolution(channels, last, 1), nn.SiLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Dropout(dropout), nn.Linear(last, classes))


def _channels(full: int, width: float) -> int:
    """A multiple of 8, as the paper rounds them: at most a tenth less than asked."""
    rounded = max(8, int(full * width + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * full * width else rounded + 8

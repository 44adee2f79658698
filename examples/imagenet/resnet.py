"""ResNet-50 (He et al., 2015) with the stride in each block's 3x3 convolution, as the 2018 programs have it."""

from __future__ import annotations

from torch import Tensor, nn

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Inner channels, blocks, stride of the first one."""


class Bottleneck(nn.Module):
    def __init__(self, wide: int, narrow: int, stride: int) -> None:
        super().__init__()
        out = 4 * narrow
        self.body = nn.Sequential(
            *_convolution(wide, narrow, 1), nn.ReLU(inplace=True),
            *_convolution(narrow, narrow, 3, stride), nn.ReLU(inplace=True),
            *_convolution(narrow, out, 1),
        )  # fmt: skip
        # the block starts as its shortcut alone: large batches train more steadily so
        nn.init.zeros_(self.body[-1].weight)
        self.shortcut = nn.Sequential(*_convolution(wide, out, 1, stride)) if wide != out or stride > 1 else None
        self.activation = nn.ReLU(inplace=True)

    def forward(self, images: Tensor) -> Tensor:
        return self.activation(self.body(images) + (self.shortcut(images) if self.shortcut else images))


def _convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> tuple[nn.Module, nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    return convolution, nn.BatchNorm2d(outputs)


def resnet50(classes: int, width: float = 1.0) -> nn.Module:
    channels = max(8, int(64 * width))
    layers: list[nn.Module] = [*_convolution(3, channels, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, padding=1)]
    for full, blocks, stride in STAGES:
        narrow = max(8, int(full * width))
        for block in range(blocks):
            layers.append(Bottleneck(channels, narrow, stride if block == 0 else 1))
            channels = 4 * narrow
    classifier = nn.Linear(channels, classes)
    nn.init.normal_(classifier.weight, std=0.01)
    nn.init.zeros_(classifier.bias)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), classifier)

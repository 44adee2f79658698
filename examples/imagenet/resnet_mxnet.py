"""ResNet-50 for MXNet, the same network as `resnet`, in either order of memory.

Tensor cores take NHWC; MXNet's convolutions on CPUs refuse it ("could not create a descriptor for a
dilated convolution").
"""

from __future__ import annotations

from mxnet import init
from mxnet.gluon import HybridBlock, nn

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Inner channels, blocks, stride of the first one."""


class Bottleneck(HybridBlock):
    def __init__(self, wide: int, narrow: int, stride: int, layout: str) -> None:
        super().__init__()
        out = 4 * narrow
        with self.name_scope():
            self.body = nn.HybridSequential()
            _convolution(self.body, narrow, 1, layout=layout)
            self.body.add(nn.Activation("relu"))
            _convolution(self.body, narrow, 3, stride, layout=layout)
            self.body.add(nn.Activation("relu"))
            # the block starts as its shortcut alone: large batches train more steadily so
            _convolution(self.body, out, 1, gamma="zeros", layout=layout)
            self.shortcut = None
            if wide != out or stride > 1:
                self.shortcut = nn.HybridSequential()
                _convolution(self.shortcut, out, 1, stride, layout=layout)

    def hybrid_forward(self, F, images):
        return F.Activation(self.body(images) + (self.shortcut(images) if self.shortcut else images), act_type="relu")


def _convolution(
    into: nn.HybridSequential, outputs: int, kernel: int, stride: int = 1, gamma: str = "ones", *, layout: str
) -> None:
    into.add(nn.Conv2D(outputs, kernel, stride, padding=kernel // 2, use_bias=False, layout=layout))
    into.add(nn.BatchNorm(axis=layout.index("C"), gamma_initializer=gamma))


def resnet50(classes: int, width: float = 1.0, layout: str = "NCHW") -> nn.HybridSequential:
    """Initialized when it is told on which devices: `net.initialize(init.MSRAPrelu(), ctx)`."""
    net, channels = nn.HybridSequential(), max(8, int(64 * width))
    _convolution(net, channels, 7, 2, layout=layout)
    net.add(nn.Activation("relu"), nn.MaxPool2D(3, 2, padding=1, layout=layout))
    for full, blocks, stride in STAGES:
        narrow = max(8, int(full * width))
        for block in range(blocks):
            net.add(Bottleneck(channels, narrow, stride if block == 0 else 1, layout))
            channels = 4 * narrow
    net.add(nn.GlobalAvgPool2D(layout=layout), nn.Flatten(), nn.Dense(classes, weight_initializer=init.Normal(0.01)))
    return net

"""Decodes the pictures of the channels train, val and broken with DALI. usage: decode_with_dali.py FOLDER

FOLDER/CLASS/* are the pictures, one of each class. The last line is JSON: what came out.
"""

import json
import sys
from pathlib import Path

import torch
from PIL import Image

from gpucluster_train import dali, images
from gpucluster_train.channels import ChannelError
from gpucluster_train.torch_samples import Samples

BATCH, SIZE, CPU = 16, 64, torch.device("cpu")


def labels_of_epochs() -> list[list[int]]:
    """Three epochs of one pipeline; the second is left after two batches."""
    samples = Samples("train", shuffle=8)
    batches = dali.Batches(samples, BATCH, SIZE, True, CPU, torch.bfloat16)
    found = []
    for epoch in range(3):
        samples.set_epoch(epoch)
        labels: list[int] = []
        for pictures, numbers in batches:
            assert pictures.shape == (BATCH, 3, SIZE, SIZE) and pictures.dtype is torch.bfloat16
            assert pictures.is_contiguous(memory_format=torch.channels_last)
            labels += numbers.tolist()
            if epoch == 1 and len(labels) == 2 * BATCH:
                break
        assert epoch == 1 or len(labels) == len(batches) * BATCH
        found.append(labels)
    return found


def differences(folder: Path) -> dict[int, float]:
    """From PIL's picture of the same part, the mean in grey levels; by label. The last batch is smaller."""
    files = {number: next(each.iterdir()) for number, each in enumerate(sorted(folder.iterdir()))}
    mean, deviation = (torch.tensor(each).view(3, 1, 1) for each in (images.MEAN, images.DEVIATION))
    found = {}
    for pictures, labels in dali.Batches(Samples("val"), BATCH, SIZE, False, CPU, torch.float32):
        for picture, label in zip(pictures, labels.tolist(), strict=True):
            assert label not in found
            found[label] = ((picture * deviation + mean) * 255 - centre(files[label])).abs().mean().item()
    return found


def centre(file: Path) -> torch.Tensor:
    with Image.open(file) as image:
        width, height = image.size
        half = min(width, height) * 7 / 16
        box = (width / 2 - half, height / 2 - half, width / 2 + half, height / 2 + half)
        part = image.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR, box)
    return torch.frombuffer(bytearray(part.tobytes()), dtype=torch.uint8).view(SIZE, SIZE, 3).permute(2, 0, 1)


def error_of(channel: str) -> str:
    try:
        for _ in dali.Batches(Samples(channel), BATCH, SIZE, False, CPU, torch.float32):
            pass
    except ChannelError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    assert dali.available()
    found = {"labels": labels_of_epochs(), "differences": differences(Path(sys.argv[1]))}
    print(json.dumps({**found, "errors": [error_of("truncated"), error_of("garbled")]}))

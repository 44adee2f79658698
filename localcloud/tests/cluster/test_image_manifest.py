"""The image that instances boot, compared with the manifest of its AMI. Nothing boots."""

from __future__ import annotations

from localcloud.machines import ami, image


def test_the_default_image_is_a_baked_deep_learning_ami() -> None:
    assert ami.differences(image.build(), ami.DLAMI, baked=True) == []

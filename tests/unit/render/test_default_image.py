"""The image of the local cloud that nodes boot by default, beside what `gpucluster image build` would install."""

from __future__ import annotations

import subprocess
from pathlib import Path

from localcloud.machines import image

ROOT = Path(__file__).resolve().parents[3]


def test_what_the_default_image_has_beyond_the_ami_is_what_image_build_bakes() -> None:
    """The step is asked on a machine that has nothing; what it installs is the layer of the default image."""
    script = f"""
        source {ROOT}/bootstrap/lib/apt.sh
        source {ROOT}/bootstrap/steps/system/packages.sh
        command() {{ false; }}; python3() {{ false; }}; ldconfig() {{ :; }}
        suitable_slurm() {{ :; }}
        without_services() {{ shift; printf '%s\\n' "$@"; }}
        ROLE=image ACCOUNTING=local; step_packages
    """
    asked = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()
    played = {"nfs-common", "nfs-kernel-server", "mdadm"}  # stand-ins: this machine's kernel has neither NFS nor md
    assert set(asked) - played <= set(image.packages(image.SOFTWARE_LIST.read_text()))

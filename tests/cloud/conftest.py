"""An account in which the CDK command line can deploy, shared by the tests of this folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def bootstrapped(control_plane: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Bootstrapped by the CDK command line."""
    from tests.cloud.test_examples import Deployed

    file = tmp_path_factory.mktemp("bootstrap") / "cluster.yaml"
    file.write_text((ROOT / "cluster.yaml").read_text())
    Deployed(file, control_plane).cdk("bootstrap", "aws://123456789012/us-east-1")
    control_plane.client("s3").create_bucket(Bucket="my-bucket")  # FSx links only existing buckets
    return control_plane

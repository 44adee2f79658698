"""What `status` says while Slurm's accounting does not answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gpucluster import config
from gpucluster.head import accounts

TEXT = "name: Mine\nregion: us-east-1\npartitions: [{name: train, instance_types: [g5.xlarge], max_nodes: 4}]\n"


@pytest.mark.parametrize(
    ("more", "exit_code", "warns"),
    [("", 1, True), ("", 124, True), ("", 0, False), ('accounting: "off"\n', 1, False), ("accounting: rds\n", 1, True)],
)
def test_status_says_that_the_accounts_do_not_answer(more: str, exit_code: int, warns: bool) -> None:
    remote: Any = SimpleNamespace(run=lambda argv: SimpleNamespace(exit_code=exit_code))
    words = accounts.words(remote, config.loads(TEXT + more))
    assert ("Slurm's accounting (slurmdbd) does not answer: jobs start and run" in words) is warns
    assert warns or not words

"""Where Slurm's accounting database is: on the head node, on RDS, or nowhere."""

from __future__ import annotations

from constructs import Construct

from stacks.context import Context


class Accounting(Construct):
    def __init__(self, scope: Construct, id_: str, *, context: Context) -> None:
        super().__init__(scope, id_)
        self.context = context

"""The month's money: an AWS budget, who is told, and what stops when it is spent."""

from __future__ import annotations

from constructs import Construct

from stacks.context import Context


class Budget(Construct):
    def __init__(self, scope: Construct, id_: str, *, context: Context) -> None:
        super().__init__(scope, id_)
        self.context = context

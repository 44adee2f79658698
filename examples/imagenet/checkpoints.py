"""Checkpoints that are written while the training goes on; for torch."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor


class Checkpoint:
    """One file, always complete: a newer one takes its place. Nothing is written if `path` is empty."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._written: Future[None] | None = None

    def save(self, state: dict[str, Any]) -> None:
        """Copies the state to the CPU and returns; a thread writes it. Ends the program if the last one failed."""
        if self.path:
            self.wait()
            self._written = self._thread.submit(self._write, _on_cpu(state))

    def wait(self) -> None:
        """Until the last one is written."""
        if self._written:
            try:
                self._written.result()
            except OSError as error:
                raise SystemExit(f"{self.path}: the checkpoint cannot be written: {error.strerror or error}") from None

    def load(self, device: torch.device) -> dict[str, Any] | None:
        if not self.path or not os.path.exists(self.path):
            return None
        try:
            found: dict[str, Any] = torch.load(self.path, map_location=device)
        except OSError as error:
            raise SystemExit(f"{self.path}: the checkpoint cannot be read: {error.strerror or error}") from None
        except (EOFError, KeyError, RuntimeError, UnpicklingError):  # torch's own errors speak of zip archives
            raise SystemExit(f"{self.path}: is no complete checkpoint: remove it, or name another file") from None
        return found

    def _write(self, state: dict[str, Any]) -> None:
        with open(f"{self.path}.new", "wb") as file:
            torch.save(state, file)
            os.fsync(file.fileno())
        os.replace(f"{self.path}.new", self.path)


def _on_cpu(state: Any) -> Any:
    """A copy that the next step cannot change."""
    if isinstance(state, Tensor):
        return state.detach().to("cpu", copy=True)
    if isinstance(state, dict):
        return {key: _on_cpu(each) for key, each in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)(_on_cpu(each) for each in state)
    return state

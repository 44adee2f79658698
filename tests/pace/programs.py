"""Runs each node program like a process, with its own modules, clock, arguments, environment and pid."""

from __future__ import annotations

import functools
import importlib
import itertools
import logging
import pathlib
import sys
import threading
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from localcloud.testing.virtual_time.clock import Stopped, VirtualClock
from localcloud.testing.virtual_time.shims import ShimTime, shim_datetime, shim_os

START_S = 0.5  # of Python and boto3
_PACKAGE = "gpucluster_node"
_WING = f"{_PACKAGE}.power"
_pids = itertools.count(5000)
_importing = threading.Lock()
_hook = threading.excepthook
threading.excepthook = lambda raised: None if raised.exc_type is Stopped else _hook(raised)


class Programs:
    def __init__(
        self,
        code: Path,
        clock: VirtualClock,
        folder: Path,
        fleet: Path,
        scontrol: Callable[[str, Sequence[str]], str],
    ) -> None:
        """code: the folder that has gpucluster_node. folder: what stands for / where programs write. scontrol: of a
        program's name and an argument list."""
        self._code, self._clock, self._folder, self._fleet = code, clock, folder, fleet
        self._scontrol = scontrol
        self.failures: list[str] = []
        self.running: list[tuple[str, tuple[str, ...]]] = []

    def start(self, name: str, *arguments: str, **environment: str) -> threading.Thread:
        modules = self._load(name, arguments, environment)
        thread = threading.Thread(target=self._main, args=(modules[f"{_WING}.{name}"], name, arguments), daemon=True)
        thread.start()
        return thread

    def _main(self, module: Any, name: str, arguments: tuple[str, ...]) -> None:
        entry = (name, arguments)
        self.running.append(entry)
        try:
            self._clock.sleep(START_S)
            module.main()
        except Stopped:
            pass
        except BaseException as error:
            self.failures.append(f"{name} {' '.join(arguments)[:60]}: {type(error).__name__}: {error}")
        finally:
            self.running.remove(entry)

    def _load(self, name: str, arguments: tuple[str, ...], environment: dict[str, str]) -> dict[str, types.ModuleType]:
        shim = ShimTime(self._clock)
        with _importing:
            before = {key: module for key, module in sys.modules.items() if key.partition(".")[0] == _PACKAGE}
            replaced = {"time": sys.modules["time"], "datetime": sys.modules["datetime"]}
            for key in before:
                del sys.modules[key]
            sys.path.insert(0, str(self._code))
            sys.modules |= {"time": shim, "datetime": shim_datetime(shim)}
            try:
                importlib.import_module(f"{_WING}.{name}")
            finally:
                sys.modules |= replaced
                sys.path.remove(str(self._code))
                made = {key: m for key, m in list(sys.modules.items()) if key.partition(".")[0] == _PACKAGE}
                for key in made:
                    del sys.modules[key]
                sys.modules |= before
        system = shim_os(next(_pids), environment)
        for module in made.values():
            self._fit(module, name, arguments, system)
        return made

    def _fit(self, module: Any, program: str, arguments: tuple[str, ...], system: types.ModuleType) -> None:
        if hasattr(module, "os"):
            module.os = system
        if hasattr(module, "sys"):
            module.sys = types.SimpleNamespace(argv=["program", *arguments], stderr=sys.stderr, stdout=sys.stdout)
        for key, value in list(vars(module).items()):
            if isinstance(value, pathlib.PurePath) and value.is_absolute() and value.parts[1] in ("run", "var"):
                setattr(module, key, self._folder / value.relative_to("/"))
        if module.__name__.endswith(".slurm"):
            module.call = functools.partial(self._scontrol, program)
        if module.__name__.endswith(".fleet"):
            load, text = module.load, self._fleet
            module.load = lambda *_path: load(text)
        if module.__name__.endswith(".spending"):
            module.path, module.prices = lambda cluster: self._folder / "spending.json", dict
        if module.__name__.endswith(".lifetimes"):
            module.this_machine = lambda: None  # it has no metadata service
        if module.__name__.endswith(".spooled"):
            module._owners = lambda: {system.getuid()}
        if module.__name__.endswith(".daemon"):
            module.LOOK_S = 1.0  # fewer steps of time
        if module.__name__.endswith(".log"):
            module.start_logging = lambda: logging.getLogger("botocore").setLevel(logging.WARNING)
        if hasattr(module, "start_logging"):
            module.start_logging = lambda: None
        for value in list(vars(module).values()):
            self._move_defaults(value)

    def _move_defaults(self, value: Any) -> None:
        """Default arguments that are paths below /run and /var were bound as the module was read."""
        functions = [value] if isinstance(value, types.FunctionType) else []
        if isinstance(value, type):
            functions += [each for each in vars(value).values() if isinstance(each, types.FunctionType)]
        for function in functions:
            if function.__defaults__:
                function.__defaults__ = tuple(self._moved(each) for each in function.__defaults__)

    def _moved(self, value: Any) -> Any:
        fixed = isinstance(value, pathlib.PurePath) and value.is_absolute() and value.parts[1] in ("run", "var")
        return self._folder / value.relative_to("/") if fixed else value

"""The console script. While the command line loads, Ctrl-C ends the process silently."""

from __future__ import annotations

import _thread
import atexit
import gc
import os
import signal
import sys
import typing
from importlib import import_module
from types import ModuleType
from typing import Any

signal.signal(signal.SIGINT, signal.SIG_DFL)

PLUGINS = "pydantic.plugin._loader"
_LOADS = _thread.RLock()
"""Two threads must not both replace a stand-in."""


def main() -> int:
    # Most objects of a verb are modules and models that live until it exits: collecting garbage among them
    # takes an eighth of a short verb's time.
    gc.set_threshold(100_000)
    exit_code: list[int] = []
    atexit.register(_end, exit_code)  # the first to be registered runs last
    _without_plugins()
    _without_secrets()
    _without_translations()
    _without_platform()
    _without_forward_references()
    _without_invoke()
    from gpucluster.cli import main

    exit_code.append(main())
    return exit_code[0]


def _end(exit_code: list[int]) -> None:
    """Ends the process before Python frees each object, which takes 3 % of a short verb's time. Threads and other exit
    functions have ended by now. Without an exit code, or if a stream cannot be written, Python itself ends, and reports
    the error."""
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except (OSError, ValueError):
        return
    if exit_code:
        os._exit(exit_code[0])
    gc.freeze()


def _without_plugins() -> None:
    """pydantic imports importlib.metadata to look for plug-ins, even if PYDANTIC_DISABLE_PLUGINS disables all. That
    takes a tenth of a short verb's time. Here its loader finds none."""
    _stand_in(PLUGINS, get_plugins=tuple)


def _without_secrets() -> None:
    """pydantic imports secrets, and with it OpenSSL, to compare secret strings. That takes 3 % of a short verb's time.
    Here the first use loads it."""
    _stand_in("secrets")


def _without_translations() -> None:
    """click asks gettext to translate each of its texts. There are no translations, and each search for one reads
    folders."""
    _stand_in("gettext", gettext=_untranslated, ngettext=_singular_or_plural)


def _without_platform() -> None:
    """uuid, which click and pydantic import, asks platform for the system's name and for nothing else."""
    _stand_in("platform", system=_system)


def _system() -> str:
    return os.uname().sysname


def _untranslated(message: str) -> str:
    return message


def _singular_or_plural(singular: str, plural: str, count: int) -> str:
    return singular if count == 1 else plural


def _stand_in(name: str, **attributes: Any) -> None:
    """A module of this name with these attributes. Any other attribute loads the real module."""

    def rest(attribute: str) -> Any:
        if attribute.startswith("__"):  # such as __path__, for which Python's own import asks
            raise AttributeError(attribute)
        with _LOADS:
            if sys.modules.get(name) is stand_in:
                del sys.modules[name]
            return getattr(import_module(name), attribute)

    if name not in sys.modules:
        stand_in = ModuleType(name)
        vars(stand_in).update(attributes, __getattr__=rest)
        sys.modules[name] = stand_in


def _without_forward_references() -> None:
    """Python before 3.14 compiles each annotation of a typed dictionary or a named tuple when it loads the class.
    pydantic has 730 of them, click 24, and this package 28, which takes a fifteenth of a short verb's time. Here they
    stay strings, as other classes' do, and typing.get_type_hints() compiles them."""
    check = getattr(typing, "_type_check", None)
    if check is None:
        return

    def checked(arg: Any, msg: str, is_argument: bool = True, module: str | None = None, **words: Any) -> Any:
        library = (module or "").partition(".")[0]
        stays = msg.startswith("field ") or library in ("click", "pydantic", "pydantic_core")
        return arg if stays and isinstance(arg, str) else check(arg, msg, is_argument, module, **words)

    vars(typing)["_type_check"] = checked


def _without_invoke() -> None:
    """paramiko imports invoke, and with it asyncio and unittest.mock, for `Match exec` in a configuration of OpenSSH.
    Here it reads no such configuration. The import takes a tenth of the time of a verb that connects. Without invoke,
    paramiko works as if it were not installed."""
    sys.modules.setdefault("invoke", None)  # type: ignore[arg-type]

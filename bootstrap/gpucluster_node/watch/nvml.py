"""The GPUs of this machine, by NVIDIA's management library, which comes with the driver.

Signatures, field ids and reasons are those of nvidia-ml-py 13.615.71 (pynvml.py). That package is not used here: nodes
without internet cannot install it, and the distributions' python3-pynvml depends on a driver of theirs, which would
replace the image's. Any driver since 450 has these functions.
"""

from __future__ import annotations

import ctypes
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from ctypes import byref, c_double, c_int, c_int32, c_int64, c_longlong, c_uint, c_uint32, c_ulong, c_ulonglong
from dataclasses import dataclass, field

LIBRARY = "libnvidia-ml.so.1"
_CLOCK_SM, _TEMPERATURE_GPU = 1, 0
_NVLINK_BYTES = (138, 139)
"""NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX and _RX, in KiB, since the driver was loaded."""
_ALL_LINKS = 2**32 - 1
"""As scopeId: the sum over the links (nvml.h, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX)."""

SLOWED_BY = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "temperature (driver)",
    0x40: "temperature (hardware)",
    0x80: "power brake",
}
"""Bits of nvmlDeviceGetCurrentClocksThrottleReasons that lower the clocks of a job. At full load, the power cap is
normal. The other bits are: idle, application clocks, sync boost and display."""


class NvmlError(Exception):
    """The library is absent, or it refuses."""


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", c_uint), ("memory", c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class _Value(ctypes.Union):
    _fields_ = (
        ("double", c_double),
        ("uint", c_uint),
        ("ulong", c_ulong),
        ("ulonglong", c_ulonglong),
        ("longlong", c_longlong),
    )


class _Field(ctypes.Structure):
    _fields_ = (
        ("field", c_uint32),
        ("scope", c_uint32),
        ("timestamp", c_int64),
        ("latency_us", c_int64),
        ("type", c_uint),
        ("code", c_uint),
        ("value", _Value),
    )


class _Event(ctypes.Structure):
    _fields_ = (
        ("gpu", ctypes.c_void_p),
        ("type", c_ulonglong),
        ("data", c_ulonglong),
        ("instance", c_uint),
        ("compute_instance", c_uint),
    )


_XID = 8
"""nvmlEventTypeXidCriticalError: `data` is the Xid."""
_MOST_EVENTS = 100
"""At a time: a broken GPU may send them without end."""

_MEMBERS = ("double", "uint", "ulong", "ulonglong", "longlong")
"""By the number in `type` (NVML_VALUE_TYPE_…)."""


@dataclass(frozen=True)
class Gpu:
    """A reading. NaN: this GPU does not tell."""

    index: int
    """In the order of the PCI bus, as nvidia-smi and CUDA count."""
    minor: int
    """N of /dev/nvidiaN, as Slurm counts: it may differ from the index."""
    util_percent: float = math.nan
    """The share of time in which a kernel ran."""
    memory_used: float = math.nan
    memory: float = math.nan
    power_w: float = math.nan
    sm_clock_mhz: float = math.nan
    temperature_c: float = math.nan
    nvlink_bytes: float = math.nan
    """Sent and received by all its links since the driver was loaded."""
    slowed: int = 0
    """Bits of SLOWED_BY."""
    xids: Mapping[int, int] = field(default_factory=dict)
    """Xid -> how often the driver reported it for this GPU since the sampler started."""

    @property
    def slowed_by(self) -> tuple[str, ...]:
        return tuple(words for bit, words in SLOWED_BY.items() if self.slowed & bit)


class Nvml:
    """Raises NvmlError if this machine has no driver."""

    def __init__(self, library: str = LIBRARY) -> None:
        try:
            self._library = ctypes.CDLL(library)
        except OSError as error:
            raise NvmlError(str(error)) from None
        self._checked("nvmlInit_v2")
        count = c_uint()
        self._checked("nvmlDeviceGetCount_v2", byref(count))
        self._gpus = [found for index in range(count.value) if (found := self._found(index))]
        self._events, self._xids = self._event_set(), {index: Counter[int]() for index, _, _ in self._gpus}

    def read(self) -> list[Gpu]:
        self._count_xids()
        return [self._read(*each) for each in self._gpus]

    def _event_set(self) -> ctypes.c_void_p | None:
        """None: this driver reports no Xids."""
        events = ctypes.c_void_p()
        if not self._call("nvmlEventSetCreate", byref(events)):
            return None
        for _, _, gpu in self._gpus:
            self._call("nvmlDeviceRegisterEvents", gpu, c_ulonglong(_XID), events)
        return events

    def _count_xids(self) -> None:
        """Does not wait for an event."""
        event = _Event()
        for _ in range(_MOST_EVENTS if self._events else 0):
            if not self._call("nvmlEventSetWait_v2", self._events, byref(event), c_uint(0)):
                return
            for index, _, gpu in self._gpus:
                if event.type == _XID and gpu.value == event.gpu:
                    self._xids[index][event.data] += 1

    def _found(self, index: int) -> tuple[int, int, ctypes.c_void_p] | None:
        """Index, minor number and handle. None: a broken GPU has no handle (nvml.h: NVML_ERROR_GPU_IS_LOST,
        NVML_ERROR_IRQ_ISSUE, NVML_ERROR_INSUFFICIENT_POWER), and the others are read."""
        handle, minor = ctypes.c_void_p(), c_uint(index)
        if not self._call("nvmlDeviceGetHandleByIndex_v2", c_uint(index), byref(handle)):
            return None
        self._call("nvmlDeviceGetMinorNumber", handle, byref(minor))
        return index, minor.value, handle

    def _read(self, index: int, minor: int, gpu: ctypes.c_void_p) -> Gpu:
        use, memory, slowed = _Utilization(), _Memory(), c_ulonglong()
        has_use = self._call("nvmlDeviceGetUtilizationRates", gpu, byref(use))
        has_memory = self._call("nvmlDeviceGetMemoryInfo", gpu, byref(memory))
        self._call("nvmlDeviceGetCurrentClocksThrottleReasons", gpu, byref(slowed))
        return Gpu(
            index,
            minor,
            util_percent=use.gpu if has_use else math.nan,
            memory_used=memory.used if has_memory else math.nan,
            memory=memory.total if has_memory else math.nan,
            power_w=self._number("nvmlDeviceGetPowerUsage", gpu) / 1000,
            sm_clock_mhz=self._number("nvmlDeviceGetClockInfo", gpu, c_int(_CLOCK_SM)),
            temperature_c=self._number("nvmlDeviceGetTemperature", gpu, c_int(_TEMPERATURE_GPU)),
            nvlink_bytes=sum(self._fields(gpu, _NVLINK_BYTES)) * 1024,
            slowed=slowed.value,
            xids=dict(self._xids[index]),
        )

    def _fields(self, gpu: ctypes.c_void_p, ids: Sequence[int]) -> list[float]:
        fields = (_Field * len(ids))(*(_Field(field=id_, scope=_ALL_LINKS) for id_ in ids))
        if not self._call("nvmlDeviceGetFieldValues", gpu, c_int32(len(ids)), byref(fields)):
            return [math.nan]
        return [math.nan if each.code or each.type >= len(_MEMBERS) else _value(each) for each in fields]

    def _number(self, function: str, *arguments: object) -> float:
        number = c_uint()
        return float(number.value) if self._call(function, *arguments, byref(number)) else math.nan

    def _call(self, function: str, *arguments: object) -> bool:
        """Whether it succeeded. A function that this driver lacks fails, too."""
        try:
            return bool(getattr(self._library, function)(*arguments) == 0)
        except AttributeError:
            return False

    def _checked(self, function: str, *arguments: object) -> None:
        if not self._call(function, *arguments):
            raise NvmlError(f"{function} of {self._library._name} failed")


def _value(field: _Field) -> float:
    return float(getattr(field.value, _MEMBERS[field.type]))

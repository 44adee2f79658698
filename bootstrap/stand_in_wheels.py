"""Stand-ins for wheels that need GPUs, for machines without GPUs: real metadata, and no code or the CPU build's.

usage: stand_in_wheels.py empty|torch|torchvision OUT_DIR NAME==VERSION

`empty` writes a wheel without code, which requires the CPU build of the same release if there is one; for SMDDP, a
module that registers its backend over gloo. `torch` gives the torch wheel of OUT_DIR the older version's name.
`torchvision` replaces PyPI's wheel in OUT_DIR, whose operators load only with CUDA, by one without compiled code.
"""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path

CPU_KIND = {"mxnet-cu112": "mxnet", "tensorflow": "tensorflow-cpu"}

SMDDP = '''"""Stands in for AWS's library: the same import and the same backend's name, over gloo."""

import torch.distributed as dist


def _make(store, rank, size, timeout):
    return dist.ProcessGroupGloo(store, rank, size, timeout)


if "smddp" not in dist.Backend.backend_list:
    dist.Backend.register_backend("smddp", _make, devices=["cpu"])
'''

MODULES = {
    "smdistributed-dataparallel": {
        "smdistributed/__init__.py": "",
        "smdistributed/dataparallel/__init__.py": "",
        "smdistributed/dataparallel/torch/__init__.py": "",
        "smdistributed/dataparallel/torch/torch_smddp.py": SMDDP,
    }
}

DECLARED = """

# Of GpuCluster: this wheel has no compiled operators. torchvision describes two of them while it is imported, so they
# must be known. Models, data sets and transforms need none; `_assert_has_ops` refuses the others.
_declared = torch.library.Library("torchvision", "FRAGMENT")
for _name in ("nms", "qnms"):
    if not hasattr(torch.ops.torchvision, _name):
        _declared.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""

WHEEL = "Wheel-Version: 1.0\nGenerator: gpucluster\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def empty(out: Path, name: str, version: str) -> Path:
    target = out / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    if target.exists():
        return target
    requires = f"Requires-Dist: {CPU_KIND[name]}=={version}\n" if name in CPU_KIND else ""
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: Stand-in.\n{requires}"
    return _write(target, f"{name.replace('-', '_')}-{version}", {"METADATA": metadata, "WHEEL": WHEEL}, name)


def _write(target: Path, stem: str, info: dict[str, str], name: str) -> Path:
    files = MODULES.get(name, {}) | {f"{stem}.dist-info/{each}": text for each, text in info.items()}
    record = f"{stem}.dist-info/RECORD"
    files[record] = "".join(f"{path},,\n" for path in [*files, record])
    new = target.with_suffix(".new")
    with zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
    return new.rename(target)


def torchvision(out: Path, version: str) -> Path:
    """`VERSION+cpu`, which pip prefers to PyPI's: Python's files as they are, and two operators declared."""
    (source,) = out.glob(f"torchvision-{version}-*.whl")
    _fits_a_torch(out, source, version)
    own = f"{version}+cpu"
    target = out / source.name.replace(version, own)
    new = target.with_suffix(".new")
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as wheel:
        for each in old.infolist():
            if not each.filename.endswith((".so", "RECORD")) and ".so." not in each.filename:
                path, content = _without_operators(each.filename, old.read(each), version, own)
                wheel.writestr(path, content)
        names = [*wheel.namelist(), record := f"torchvision-{own}.dist-info/RECORD"]
        wheel.writestr(record, "".join(f"{name},,\n" for name in names))
    source.unlink()
    return new.rename(target)


def _fits_a_torch(out: Path, source: Path, version: str) -> None:
    metadata = zipfile.ZipFile(source).read(f"torchvision-{version}.dist-info/METADATA").decode()
    wanted = re.findall(r"^Requires-Dist: torch\b.*?==([\d.]+)", metadata, re.MULTILINE)
    if not any(list(out.glob(f"torch-{each}+cpu-*.whl")) for each in wanted):
        raise SystemExit(
            f"error: torchvision {version} is for torch {wanted[0]}: change TORCHVISION in build-wheels.sh"
        )


def _without_operators(path: str, content: bytes, version: str, own: str) -> tuple[str, bytes]:
    path = path.replace(f"torchvision-{version}.dist-info", f"torchvision-{own}.dist-info")
    if path.endswith(".dist-info/METADATA"):
        content = content.replace(f"\nVersion: {version}\n".encode(), f"\nVersion: {own}\n".encode(), 1)
    if path == "torchvision/extension.py":
        content += DECLARED.encode()
    return path, content


def older_torch(out: Path, version: str) -> Path:
    """The newest CPU build of torch in `out`, renamed to `version`: nothing depends on its number."""
    found = [each for each in out.glob("torch-*.whl") if "+cpu" in each.name]
    if not found:
        raise SystemExit(f"error: no torch for CPUs in {out}: tell pip where it is, as README's requirements say")
    source = max(found)
    number = source.name.split("-")[1]
    target = out / source.name.replace(number, version)
    if target.exists():
        return target
    new = target.with_suffix(".new")
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as wheel:
        for each in old.infolist():
            path = each.filename.replace(f"torch-{number}.dist-info", f"torch-{version}.dist-info")
            content = old.read(each)
            if path.endswith(".dist-info/METADATA"):
                content = content.replace(f"\nVersion: {number}\n".encode(), f"\nVersion: {version}\n".encode(), 1)
            if path.endswith(".dist-info/RECORD"):
                content = _renamed_record(content.decode(), number, version).encode()
            renamed = zipfile.ZipInfo(path, each.date_time)
            renamed.external_attr, renamed.compress_type = each.external_attr, zipfile.ZIP_DEFLATED
            wheel.writestr(renamed, content)
    return new.rename(target)


def _renamed_record(record: str, number: str, version: str) -> str:
    lines = record.replace(f"torch-{number}.dist-info", f"torch-{version}.dist-info").splitlines()
    changed = f"torch-{version}.dist-info/METADATA,"
    return "".join(f"{changed},\n" if line.startswith(changed) else f"{line}\n" for line in lines)


def main(kind: str, out: str, pin: str) -> None:
    name, _, version = pin.partition("==")
    if kind == "empty":
        empty(Path(out), name, version)
    else:
        {"torch": older_torch, "torchvision": torchvision}[kind](Path(out), version)


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("empty", "torch", "torchvision"):
        sys.exit((__doc__ or "").split("\n\n")[1])
    main(*sys.argv[1:])

"""The clusters that `up` created from the cluster files of a folder, in `.gpucluster/clusters.json`.

A file's name and region and the caller's account say which cluster a verb is about. All three may have changed since
`up`, and then the verb is about another cluster, or about none, while the first one runs and costs money.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from gpucluster.cluster import local_cloud
from gpucluster.errors import UsageError


@dataclass(frozen=True)
class Entry:
    file: str
    """The name of the cluster file."""
    name: str
    region: str
    account: str

    @property
    def place(self) -> tuple[str, str, str]:
        return self.name, self.region, self.account

    def __str__(self) -> str:
        return f"{self.name} in {self.region}, account {self.account}"


def path(config_file: Path) -> Path:
    return local_cloud.state_folder(config_file) / "clusters.json"


def read(config_file: Path) -> list[Entry]:
    """The clusters of this file, and of files that were renamed or deleted. Raises UsageError."""
    every = _all(config_file)
    here, folder = config_file.resolve().name, config_file.resolve().parent
    return [entry for entry in every if entry.file == here or not (folder / entry.file).exists()]


def add(config_file: Path, *, name: str, region: str, account: str) -> None:
    entry = Entry(config_file.resolve().name, name, region, account)
    _write(config_file, [*_without(config_file, entry.place), entry])


def remove(config_file: Path, *, name: str, region: str, account: str) -> None:
    if path(config_file).exists():
        _write(config_file, _without(config_file, (name, region, account)))


def refuse_another(config_file: Path, *, name: str, region: str, account: str) -> None:
    """Raises UsageError if `up` created the cluster of this name in another region or account, and none in this one."""
    made, forget = _elsewhere(config_file, (name, region, account)), _forget(config_file)
    if made is None:
        return
    if made.account != account:
        raise UsageError(
            f"`gpucluster up` created {made}, and your AWS credentials are of account {account}; nothing was changed",
            f"use credentials of {made.account}, for example with AWS_PROFILE; for a second cluster use a copy of the "
            f"file in another folder; {forget}",
        )
    raise UsageError(
        f"region: {name} is in {made.region}, and cannot move to {region}; nothing was changed",
        f"set region: {made.region}; then `gpucluster down` deletes it. For a second cluster use a copy of the file in "
        f"another folder; {forget}",
    )


def refuse_local(config_file: Path, *, name: str, region: str) -> None:
    """Raises UsageError if `up` created the cluster of this name in another place than a local cloud."""
    made = _elsewhere(config_file, (name, region, local_cloud.ACCOUNT))
    if made and made.account != local_cloud.ACCOUNT:
        raise UsageError(
            f"`gpucluster up` created {made}, and commands would no longer reach it; nothing was changed",
            f"use a copy of the file in another folder for the local cluster; {_forget(config_file)}",
        )
    refuse_another(config_file, name=name, region=region, account=local_cloud.ACCOUNT)


def _elsewhere(config_file: Path, place: tuple[str, str, str]) -> Entry | None:
    """The last cluster of this name, if none is in this place."""
    same = [entry for entry in read(config_file) if entry.name == place[0]]
    return same[-1] if same and place not in [entry.place for entry in same] else None


def _forget(config_file: Path) -> str:
    return f"if it was deleted without `gpucluster down`, delete its entry in {path(config_file)}"


def renamed(config_file: Path, *, name: str) -> list[Entry]:
    """The clusters that `up` created from this file when it had another name."""
    return [entry for entry in read(config_file) if entry.name != name]


def _all(config_file: Path) -> list[Entry]:
    file = path(config_file)
    try:
        return [Entry(**each) for each in json.loads(file.read_text(encoding="utf-8"))]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError) as error:
        raise UsageError(
            f"{file}: cannot be read: {error}",
            "it lists the clusters that `up` created from the files of this folder; delete it if you know them: "
            "`gpucluster list` lists those of your account",
        ) from None


def _without(config_file: Path, place: tuple[str, str, str]) -> list[Entry]:
    return [entry for entry in _all(config_file) if entry.place != place]


def _write(config_file: Path, entries: Iterable[Entry]) -> None:
    file = path(config_file)
    file.parent.mkdir(exist_ok=True)
    new = file.with_suffix(".new")
    new.write_text(json.dumps([asdict(entry) for entry in entries], indent=2) + "\n", encoding="utf-8")
    new.replace(file)

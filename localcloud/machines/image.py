"""The machine image: a Debian root file system that stands in for a baked Deep Learning AMI, or for a plain Ubuntu.

ami/ lists what those AMIs have and lack.

The plain image lacks SOFTWARE_LIST and the stand-ins for NVIDIA's and EFA's software. Its only apt source is the
packages in REPOSITORY, so nodes install them without a network.

mmdebstrap builds an image once. It is cached by a hash of everything that goes into it, and all instances share it
read-only.
"""

from __future__ import annotations

import configparser
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from localcloud.errors import LocalCloudError

HERE = Path(__file__).parent
GUEST_FILES = HERE / "guest"
CUSTOMIZE = HERE / "customize.sh"
PACKAGE_LIST = HERE / "packages.txt"
SOFTWARE_LIST = HERE / "software.txt"
MAKE_PLAIN = HERE / "plain.sh"
REPOSITORY = "opt/packages"
HOST_CERTIFICATES = Path("/usr/local/share/ca-certificates")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MIRROR_VARIABLE = "LOCALCLOUD_DEBIAN_MIRROR"
SUITE = "trixie"
# Python 3.11 is not installed: uv takes it from an archive in the image, which is made of Debian 12's packages.
PYTHON_SUITE = "bookworm"
PYTHON_PACKAGES = (
    "python3.11-minimal",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "libpython3.11-dev",
    "python3-distutils",
)
MAKE_PYTHON = HERE / "python_archive.sh"
PIN_FILE = "etc/apt/preferences.d/python3.11"
PINS = f"Package: *\nPin: release n={PYTHON_SUITE}\nPin-Priority: 50\n"
EXCLUDED = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*", "/usr/share/lintian/*")


class ImageError(LocalCloudError):
    """The image could not be built; the message ends with mmdebstrap's last lines."""


@dataclass(frozen=True)
class Host:
    """Settings that an image takes over from the building machine, so that it reaches the same hosts."""

    mirror: str
    apt_options: tuple[str, ...] = ()
    pip_index: str | None = None
    certificates: tuple[Path, ...] = ()
    debian: bool = True  # otherwise its apt does not know Debian's signatures


def packages(text: str) -> list[str]:
    """The words of a package list, without comments."""
    return [word for line in text.splitlines() for word in line.partition("#")[0].split()]


def inspect_host() -> Host:
    certificates = tuple(sorted(HOST_CERTIFICATES.rglob("*.crt"))) if HOST_CERTIFICATES.is_dir() else ()
    mirror, options = debian_mirror(_apt_targets()), apt_options(_apt_configuration())
    return Host(mirror, options, _pip_index(), certificates, platform.freedesktop_os_release()["ID"] == "debian")


def debian_mirror(targets: str) -> str:
    """The mirror of LOCALCLOUD_DEBIAN_MIRROR, else apt's first with Debian's folder. Raises ImageError."""
    if chosen := os.environ.get(MIRROR_VARIABLE):
        return chosen.rstrip("/")
    found = [uri.rstrip("/") for uri in targets.split() if uri.rstrip("/").endswith("/debian")]
    if not found:
        raise ImageError(f"apt knows no mirror of Debian on this machine: name one, {MIRROR_VARIABLE}=http://…/debian")
    return found[0]


def apt_options(configuration: str) -> tuple[str, ...]:
    """The lines of `apt-config dump` about proxies, certificates and clock checks."""
    wanted = ("Acquire::Check-", "Acquire::http", "Acquire::https", "Acquire::ForceIPv")
    return tuple(line for line in configuration.splitlines() if line.startswith(wanted) and not line.endswith(' "";'))


def _apt_targets() -> str:
    argv = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout


def _apt_configuration() -> str:
    return subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False).stdout


def _pip_index() -> str | None:
    if os.environ.get("PIP_INDEX_URL"):
        return os.environ["PIP_INDEX_URL"]
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(["/etc/pip.conf", Path.home() / ".config/pip/pip.conf"])
    return parser.get("global", "index-url", fallback=None)


def fingerprint(host: Host, *, plain: bool = False) -> str:
    """16 hex digits of a hash over everything that goes into the image."""
    digest = hashlib.sha256()
    python = (PINS, *PYTHON_PACKAGES)
    for text in (*python, *EXCLUDED, *sources(host), *host.apt_options, host.pip_index or "", "plain" if plain else ""):
        digest.update(text.encode() + b"\0")
    own = (PACKAGE_LIST, SOFTWARE_LIST, MAKE_PYTHON, CUSTOMIZE, *((MAKE_PLAIN,) if plain else ()))
    for path in (*_guest_files(), *own, *host.certificates):
        digest.update(f"{path.name}\0{os.access(path, os.X_OK)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _guest_files() -> list[Path]:
    return sorted(path for path in GUEST_FILES.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def default_path(host: Host | None = None, *, plain: bool = False) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "localcloud" / f"image-{'plain-' * plain}{fingerprint(host or inspect_host(), plain=plain)}"


def build(target: Path | None = None, *, plain: bool = False, log: Callable[[str], None] = print) -> Path:
    """Builds the image at `target` unless it exists; returns its path. Takes one to three minutes."""
    host = inspect_host()
    path = target or default_path(host, plain=plain)
    with _lock(path):
        if not (path / "etc/os-release").exists():
            log(f"building the {'plain ' * plain}machine image in {path} (once, one to three minutes)")
            _build(path, host, plain=plain)
    return path


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(path.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(path: Path, host: Host, *, plain: bool) -> None:
    """Builds beside `path` and renames, so that nobody uses an incomplete build."""
    partial = path.with_name(path.name + ".partial")
    _discard(partial)
    with tempfile.TemporaryDirectory(prefix="localcloud-image-") as scratch:
        overlay = _host_files(Path(scratch), host)
        argv = mmdebstrap_argv(partial, host, overlay, plain=plain)
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    path.with_name(path.name + ".log").write_text(done.stdout)
    if done.returncode:
        _discard(partial)
        last = "\n".join(done.stdout.splitlines()[-15:])
        raise ImageError(f"mmdebstrap failed with status {done.returncode}:\n{last}")
    partial.rename(path)


def _discard(partial: Path) -> None:
    """A killed build leaves the host's /dev/shm, /proc and /sys mounted in it, whose contents must stay."""
    mounts = (line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    for point in sorted((each for each in mounts if each.startswith(f"{partial}/")), reverse=True):
        subprocess.run(["umount", "--lazy", point], check=True)
    shutil.rmtree(partial, ignore_errors=True)


def _host_files(scratch: Path, host: Host) -> Path:
    """Writes the files that depend on the host to `scratch`, in the layout of the image."""
    pins = scratch / PIN_FILE
    pins.parent.mkdir(parents=True)
    pins.write_text(PINS)
    options = scratch / "etc/apt/apt.conf.d/90host"
    options.parent.mkdir(parents=True)
    options.write_text("\n".join((*host.apt_options, "")))
    target = scratch / "usr/local/share/ca-certificates"
    target.mkdir(parents=True)
    for certificate in host.certificates:
        shutil.copyfile(certificate, target / certificate.name)
    pip = (GUEST_FILES / "etc/pip.conf").read_text()
    (scratch / "etc/pip.conf").write_text(pip + (f"index-url = {host.pip_index}\n" if host.pip_index else ""))
    return scratch


def mmdebstrap_argv(root: Path, host: Host, host_files: Path, *, plain: bool = False) -> list[str]:
    software = packages(SOFTWARE_LIST.read_text())
    included = packages(PACKAGE_LIST.read_text()) + ([] if plain else software)
    strip = f"--customize-hook='{MAKE_PLAIN}' \"$1\" {REPOSITORY} {' '.join(software)}"
    return [
        "mmdebstrap",
        "--mode=root",
        "--variant=minbase",
        f"--include={','.join(included)}",
        '--aptopt=Acquire::Languages "none"',
        '--aptopt=APT::Install-Recommends "false"',
        *(f"--aptopt={option.rstrip(';')}" for option in host.apt_options),
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in EXCLUDED),
        f'--setup-hook=mkdir -p "$1/etc/apt/preferences.d" && cp \'{host_files / PIN_FILE}\' "$1/{PIN_FILE}"',
        f"--customize-hook={_copy(GUEST_FILES)}",
        f"--customize-hook={_copy(host_files)}",
        f"--customize-hook='{MAKE_PYTHON}' \"$1\" {PYTHON_SUITE} {' '.join(PYTHON_PACKAGES)}",
        f"--customize-hook='{CUSTOMIZE}' \"$1\"",
        *([strip] if plain else []),
        SUITE,
        str(root),
        *sources(host),
    ]


def sources(host: Host) -> list[str]:
    """apt's lines. The guest keeps those of its own suite, and has Debian's keyring at the same path."""
    signed = "" if host.debian else f"[signed-by={KEYRING}] "
    return [f"deb {signed}{host.mirror} {suite} main" for suite in (SUITE, f"{SUITE}-updates", PYTHON_SUITE)]


def _copy(folder: Path) -> str:
    """A hook that copies `folder` over the root, owned by root, whoever owns the checkout."""
    pack = f"tar -C '{folder}' --exclude=__pycache__ --owner=root:0 --group=root:0 --mode=u=rwX,go=rX -c ."
    return f'{pack} | tar -C "$1" -x --no-same-permissions'

"""Rules about the user's lines in Slurm's files, and the user's options on the lines of partitions and nodes.

What GpuCluster itself sets is read from the templates of these files.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache

from gpucluster import shipped
from gpucluster.config import slurm_names
from gpucluster.config.document import Finding, Path
from gpucluster.config.models import ClusterConfig
from gpucluster.config.nodes import Partition
from gpucluster.config.slurm import YIELDED, malformed, pairs
from gpucluster.config.validators import Findings, Validators
from gpucluster.meant import did_you_mean

validator = Validators("Slurm")

PARSER = "https://github.com/SchedMD/slurm/blob/slurm-23-11-4-1/src/common/read_config.c"
KNOWN: Mapping[str, Collection[str]] = {
    "slurm_conf": slurm_names.SLURM_CONF,
    "cgroup_conf": slurm_names.CGROUP_CONF,
    "gres_conf": slurm_names.GRES_CONF,
    "partition_options": slurm_names.PARTITION,
    "node_options": slurm_names.NODE,
}
INSTEAD = {
    "partitionname": "write partitions[].partition_options",
    "nodename": "write partitions[].node_options",
    "nodes": "write max_nodes",
    "default": "the file's first partition is the default",
    "state": "`gpucluster ssh` and scontrol update PartitionName=… State=… change it",
    "suspendtime": "write idle_minutes",
    "selecttypeparameters": "write slurm.memory",
    "constrainramspace": "write slurm.memory: allocated",
    "threadspercore": "write threads_per_core",
    "clustername": "write name",
    "grestypes": "it has gpu, and each Name of slurm.gres_conf",
}
"""What to do instead of setting these, where there is something."""

# Each may run a program as root or as Slurm's user, replace the checks before and after jobs, or who is believed.
UNSAFE = re.compile(
    r"auth.*|credtype|cryptotype|jobcredential.*|slurmuser|slurmduser|schedulerauth|plugindir|plugstackconfig|prep.*"
    r"|(resv)?(prolog|epilog).*|healthcheck.*|rebootprogram|unkillablestepprogram|resumefailprogram"
    r"|slurmctldprimary.*|jobsubmitplugins|clifilterplugins|backup.*|control.*|slurmctld(host|addr)|frontendname"
    r"|accountingstorage(pass|loc|user|backuphost|externalhost)|jobcomppass|usepam|cgroupreleaseagentdir"
)
DESCRIBING = ("partitionname", "nodename", "nodeset", "downnodes", "frontendname")
"""Lines that begin so describe that one, in names of their own."""
SAME_AS_OURS = {"procs", "boards", "socketsperboard", "nodeaddr", "nodehostname", "bcastaddr", "cpubind", "reason"}
"""Options of nodes that contradict what their lines have."""


@validator("slurm-lines-form", "https://github.com/SchedMD/slurm/blob/slurm-23-11-4-1/src/common/parse_config.c")
def slurm_lines_form(config: ClusterConfig) -> Findings:
    """Each line of slurm_conf, cgroup_conf and gres_conf is Name=Value, and none includes a file."""
    for key, text in _texts(config):
        for number, line in malformed(text):
            what = f"line {number} is not Name=Value: {line!r}"
            hint = "write the lines of the file here" if line.lower().startswith("include") else ""
            yield Finding(("slurm", key), what, hint)


@validator("slurm-lines-known", PARSER)
def slurm_lines_known(config: ClusterConfig) -> Findings:
    """Slurm 23.11's parser knows each name in slurm_conf, cgroup_conf, gres_conf, partition_options and node_options:
    with an unknown one slurmctld does not start."""
    for path, key, where, name in _names(config):
        if name.lower() not in {each.lower() for each in KNOWN[key]}:
            file = key if key.endswith("options") else key.replace("_", ".")
            hint = did_you_mean(name, KNOWN[key], "if your image's Slurm knows it, write silence: [slurm-lines-known]")
            yield Finding(path, f"{where}Slurm 23.11 knows no {name} in {file}", hint or "")


@validator("slurm-lines-not-ours", "man slurm.conf.5; https://slurm.schedmd.com/power_save.html")
def slurm_lines_not_ours(config: ClusterConfig) -> Findings:
    """No name in slurm_conf, cgroup_conf, gres_conf, partition_options or node_options is one that GpuCluster sets, and
    on which its nodes depend."""
    for path, key, where, name in _names(config):
        if name.lower() in _ours(key, bool(config.users), config.accounting != "off"):
            yield Finding(path, f"{where}GpuCluster sets {name} itself", INSTEAD.get(name.lower(), "leave it out"))
    for pair in pairs(config.slurm.gres_conf):
        if (pair.name.lower(), pair.value.lower()) == ("name", "gpu"):
            what = f"line {pair.line}: GpuCluster has the lines of gpu itself"
            yield Finding(("slurm", "gres_conf"), what, "leave them out")
    for path, partition in config.partitions_by_path():
        for name, value in partition.node_options.items():
            if (
                name.lower() == "gres"
                and isinstance(value, str)
                and re.search(r"(^|,)gpu(:|,|$)", value, re.IGNORECASE)
            ):
                what = f"GpuCluster has the nodes' GPUs itself, got {value!r}"
                yield Finding((*path, "node_options", name), what, "leave gpu out")


_VALUES = {
    **dict.fromkeys(map(str.lower, slurm_names.CGROUP_BOOLEANS), (r"yes|up|true|1|no|down|false|0", "yes or no")),
    **dict.fromkeys(map(str.lower, slurm_names.CGROUP_FLOATS), (r"\d+(\.\d+)?|unlimited|infinite", "a number")),
    **dict.fromkeys(map(str.lower, slurm_names.CGROUP_INTEGERS), (r"\d+k?|unlimited|infinite", "a whole number")),
}


@validator(
    "cgroup-conf-values",
    "https://github.com/SchedMD/slurm/blob/slurm-23-11-4-1/src/common/parse_value.c; cgroup.c: fatal",
)
def cgroup_conf_values(config: ClusterConfig) -> Findings:
    """Each value in cgroup_conf is one that Slurm's parser takes: with another one no slurmd starts."""
    for pair in pairs(config.slurm.cgroup_conf):
        form, said = _VALUES.get(pair.name.lower(), ("", ""))
        if form and not re.fullmatch(form, pair.value, re.IGNORECASE):
            what = f"line {pair.line}: {pair.name} must be {said}, got {pair.value!r}"
            yield Finding(("slurm", "cgroup_conf"), what)


@validator(
    "slurm-lines-safe", "https://slurm.schedmd.com/prolog_epilog.html; https://slurm.schedmd.com/authentication.html"
)
def slurm_lines_safe(config: ClusterConfig) -> Findings:
    """slurm_conf and cgroup_conf set nothing that runs programs as root, decides who is believed, or names another
    controller."""
    for path, key, where, name in _names(config):
        if UNSAFE.fullmatch(name.lower()) and key in ("slurm_conf", "cgroup_conf"):
            if name.lower() in _ours(key, bool(config.users), config.accounting != "off"):
                continue
            what = f"{where}{name} may not be set: users are kept apart by what GpuCluster has there"
            yield Finding(path, what, "leave it out")


def _texts(config: ClusterConfig) -> Iterator[tuple[str, str]]:
    for key in ("slurm_conf", "cgroup_conf", "gres_conf"):
        if text := getattr(config.slurm, key):
            yield key, text


def _names(config: ClusterConfig) -> Iterator[tuple[Path, str, str, str]]:
    """The path in the file, the key, the place within it, and a name."""
    for key, text in _texts(config):
        described = 0
        for pair in pairs(text):
            if pair.line != described:
                yield ("slurm", key), key, f"line {pair.line}: ", pair.name
            if key == "slurm_conf" and pair.name.lower() in DESCRIBING:
                described = pair.line
    for path, partition in config.partitions_by_path():
        for key in ("partition_options", "node_options"):
            for name in _options(partition, key):
                yield (*path, key, name), key, "", name


def _options(partition: Partition, key: str) -> Mapping[str, str]:
    found: Mapping[str, str] = getattr(partition, key)
    return found


@cache
def _ours(key: str, users: bool, accounting: bool) -> frozenset[str]:
    """What the templates set in a cluster with such users and accounting. Lower case: to Slurm it makes no
    difference."""
    folder = shipped.ROOT / "templates" / "slurm"
    if key.endswith("options"):
        start = "PartitionName=" if key == "partition_options" else "NodeName="
        lines = (folder / "slurm.conf.j2").read_text().splitlines()
        at = next(number for number, line in enumerate(lines) if line.startswith(start))
        names = re.findall(r"(\w+)=", " ".join(lines[at : at + 3] if start == "NodeName=" else [lines[at]]))
        found = {name.lower() for name in names} - {"gres"}
        return frozenset(found | SAME_AS_OURS if key == "node_options" else found)
    if key == "gres_conf":
        return frozenset({"autodetect"})
    files = ["slurm.conf.j2", "image.conf.j2"] if key == "slurm_conf" else ["cgroup.conf.j2"]
    found = {name.lower() for file in files for name in _set_by((folder / file).read_text(), users, accounting)}
    return frozenset(found - {name.lower() for name in YIELDED})


def _set_by(template: str, users: bool, accounting: bool) -> Iterator[str]:
    """The names that its lines set; lines within a condition on users or accounting only if that holds."""
    held = {"if users": users, 'if accounting != "off"': accounting}
    conditions: list[bool] = []
    for line in template.splitlines():
        if found := re.match(r"\{%-? *((?:if|for) [^%]*?) *-?%\}$", line):
            conditions.append(held.get(found[1], True))
        elif re.match(r"\{%-? *end(if|for) *-?%\}$", line):
            conditions.pop()
        elif all(conditions) and (name := re.match(r"([A-Za-z]\w*)=", line)):
            yield name[1]

from __future__ import annotations

from typing import Any

from validator_cases.case import Case, Keys, cluster, partition


def lines(key: str, text: str) -> Keys:
    return cluster(slurm={key: text})


def options(**keys: Any) -> Keys:
    return partition(partition_options=keys)


CASES: dict[str, Case | list[Case]] = {
    "slurm-memory": Case(
        fails=cluster(slurm={"memory": "limited"}),
        key="slurm.memory",
        says="must be shared or allocated, got 'limited'",
        passes=cluster(slurm={"memory": "allocated"}),
    ),
    "slurm-lines-form": [
        Case(
            fails=lines("slurm_conf", "# mine\ninclude mine.conf\n"),
            key="slurm.slurm_conf",
            says="line 2 is not Name=Value: 'include mine.conf'",
            passes=lines("slurm_conf", 'KillWait=60 # longer\n\nLaunchParameters="use_interactive_step"'),
        ),
        Case(
            fails=lines("cgroup_conf", "ConstrainSwapSpace=yes no"),
            key="slurm.cgroup_conf",
            says="line 1 is not Name=Value: 'ConstrainSwapSpace=yes no'",
            passes=lines("cgroup_conf", "ConstrainSwapSpace=yes"),
        ),
    ],
    "cgroup-conf-values": [
        Case(
            fails=lines("cgroup_conf", "# ours\nConstrainSwapSpace=on"),
            key="slurm.cgroup_conf",
            says="line 2: ConstrainSwapSpace must be yes or no, got 'on'",
            passes=lines("cgroup_conf", "ConstrainSwapSpace=YES"),
        ),
        Case(
            fails=lines("cgroup_conf", "allowedramspace=95%"),
            key="slurm.cgroup_conf",
            says="line 1: allowedramspace must be a number, got '95%'",
            passes=lines("cgroup_conf", "AllowedRAMSpace=95.5"),
        ),
    ],
    "slurm-option-value": Case(
        fails=options(MaxTime="1 day"),
        key="partitions[0].partition_options.MaxTime",
        says="must be one word without quotes, # and backslashes, got '1 day'",
        passes=options(MaxTime="1-0", PriorityTier=3, Hidden=True),
    ),
    "slurm-lines-known": [
        Case(
            fails=lines("slurm_conf", "SlurmctldDebg=debug"),
            key="slurm.slurm_conf",
            says="line 1: Slurm 23.11 knows no SlurmctldDebg in slurm.conf",
            passes=lines("slurm_conf", "slurmctlddebug=debug"),
        ),
        Case(
            fails=options(OverSubscribed="YES"),
            key="partitions[0].partition_options.OverSubscribed",
            says="Slurm 23.11 knows no OverSubscribed in partition_options",
            passes=options(OverSubscribe="YES"),
        ),
        Case(
            fails=partition(node_options={"Wieght": 5}),
            key="partitions[0].node_options.Wieght",
            says="Slurm 23.11 knows no Wieght in node_options",
            passes=partition(node_options={"Weight": 5}),
        ),
    ],
    "slurm-lines-not-ours": [
        Case(
            fails=lines("slurm_conf", "KillWait=60\nselecttype=select/linear"),
            key="slurm.slurm_conf",
            says="line 2: GpuCluster sets selecttype itself",
            passes=lines("slurm_conf", "PriorityType=priority/multifactor"),
        ),
        Case(
            fails={**lines("slurm_conf", "PriorityType=priority/basic"), "users": [{"name": "ada"}]},
            key="slurm.slurm_conf",
            says="line 1: GpuCluster sets PriorityType itself",
            passes=lines("slurm_conf", "PriorityType=priority/basic"),
        ),
        Case(
            fails=lines("slurm_conf", "NodeName=own-1 CPUs=4"),
            key="slurm.slurm_conf",
            says="line 1: GpuCluster sets NodeName itself",
            passes=lines("slurm_conf", "NodeSet=quick Feature=fast"),
        ),
        Case(
            fails=lines("slurm_conf", "TaskPlugin=task/affinity"),
            key="slurm.slurm_conf",
            says="line 1: GpuCluster sets TaskPlugin itself",
            passes=lines("slurm_conf", "TaskPluginParam=Verbose"),
        ),
        Case(
            fails=lines("cgroup_conf", "ConstrainRAMSpace=no"),
            key="slurm.cgroup_conf",
            says="line 1: GpuCluster sets ConstrainRAMSpace itself",
            passes=lines("cgroup_conf", "AllowedRAMSpace=95"),
        ),
        Case(
            fails=lines("gres_conf", "NodeName=train-1 Name=gpu File=/dev/nvidia0"),
            key="slurm.gres_conf",
            says="line 1: GpuCluster has the lines of gpu itself",
            passes=lines("gres_conf", "NodeName=train-1 Name=licence Count=2"),
        ),
        Case(
            fails=lines("gres_conf", 'NodeName=train-1 Name="gpu" File=/dev/nvidia0'),
            key="slurm.gres_conf",
            says="line 1: GpuCluster has the lines of gpu itself",
            passes=lines("gres_conf", 'NodeName=train-1 Name="licence" Count=2'),
        ),
        Case(
            fails=partition(node_options={"Gres": "licence:2,gpu:4"}),
            key="partitions[0].node_options.Gres",
            says="GpuCluster has the nodes' GPUs itself, got 'licence:2,gpu:4'",
            passes=partition(node_options={"Gres": "licence:2,gpus:1"}),
        ),
        Case(
            fails=options(SuspendTime=60),
            key="partitions[0].partition_options.SuspendTime",
            says="GpuCluster sets SuspendTime itself",
            passes=options(MaxTime="1-0"),
        ),
        Case(
            fails=partition(node_options={"RealMemory": 1}),
            key="partitions[0].node_options.RealMemory",
            says="GpuCluster sets RealMemory itself",
            passes=partition(node_options={"Gres": "licence:2", "Feature": "fast"}),
        ),
    ],
    "slurm-lines-safe": [
        Case(
            fails=lines("slurm_conf", "EpilogSlurmctld=/tmp/x"),
            key="slurm.slurm_conf",
            says="line 1: EpilogSlurmctld may not be set: users are kept apart by what GpuCluster has there",
            passes=lines("slurm_conf", "TaskProlog=/fsx/task-prolog"),
        ),
        Case(
            fails=lines("slurm_conf", "AuthAltTypes=auth/jwt"),
            key="slurm.slurm_conf",
            says="line 1: AuthAltTypes may not be set: users are kept apart by what GpuCluster has there",
            passes=lines("slurm_conf", "SchedulerTimeSlice=60"),
        ),
    ],
}

"""`python3 -IS gpucluster_job VERB …`. Each verb is a module with `main(words) -> exit code`, which is imported only
when it runs."""

import sys

sys.path[0] = sys.path[0].rpartition("/")[0]  # Python puts the package's own folder there

MODULES = {
    "job": "job",
    "chain": "chain",
    "rank": "sagemaker.on_slurm",
    "mpi-rank": "sagemaker.on_slurm",
    "hosted-rank": "ranks.hosted",
    "hosted-mpi-rank": "ranks.hosted",
    "role": "roles.role",
    "roles": "roles.steps",
    "ports": "roles.ports",
    "torchrun": "torchrun",
    "mpi": "mpi",
    "signal": "ranks.signals",
    "stacks": "ranks.stacks",
    "end": "ranks.end",
    "feeds": "ranks.feeds",
    "library": "library",
    "metrics": "metrics.reader",
    "elements": "elements",
    "overlay": "packages.overlay",
    "task": "task.check",
    "probe": "preflight.probe",
    "sagemaker": "sagemaker.entry",
    "sagemaker-rank": "sagemaker.rank",
    "sagemaker-ranks": "sagemaker.plain",
    "sagemaker-end": "sagemaker.stop",
    "sagemaker-login": "sagemaker.login",
}


def main() -> int:
    from importlib import import_module

    code: int = import_module("gpucluster_job." + MODULES[sys.argv[1]]).main(sys.argv[1:])
    return code


if __name__ == "__main__":
    sys.exit(main())

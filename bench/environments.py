"""The jobs' Python environment: made from its lock by the first cluster, against restored from S3 by the next.

Both by the job of Slurm that does it, on a node that is up: seconds as that job counts them.
"""

from __future__ import annotations

import re
import statistics

from bench.figures import Figure
from bench.local_cluster import Cluster, cluster

BUCKET = "bench-environments"
FOLDER = "/home/gpucluster/envs"
TEXT = """partitions: [{{name: train, instance_types: [m6i.2xlarge], max_nodes: 1}}]
software: {{frameworks: [torch]{cache}}}
accounting: off
monitoring: {{dashboard: false}}
"""
_READY = re.compile(r"environment=torch\S* folder=\S+ status=ready seconds=([0-9.]+)")


def figures(runs: int) -> list[Figure]:
    with cluster() as made:
        made.write(TEXT.format(cache=""))
        made.up()
        made.client("s3").create_bucket(Bucket=BUCKET)  # `up` refuses a bucket that does not exist
        made.write(TEXT.format(cache=f', cache: "s3://{BUCKET}/envs"'))
        made.up()
        built, restored = list[float](), list[float]()
        for _ in range(runs):
            built.append(_made(made, restored=False))
            restored.append(_made(made, restored=True))
            made.client("s3").delete_object(Bucket=BUCKET, Key=_object(made))
    value, floor = statistics.median(restored), statistics.median(built)
    return [Figure("torch's environment restored from S3", "s", value, floor, "made from its lock")]


def _made(made: Cluster, *, restored: bool) -> float:
    """Removes it first. Raises RuntimeError where it came from elsewhere."""
    made.ssh(f"sudo rm -rf {FOLDER}/torch*")
    made.run("env", "build", "torch")
    log = made.ssh(f"sudo cat {FOLDER}/.log/torch*.txt")
    if ("restoring torch" in log) is not restored:
        raise RuntimeError(f"the environment was {'made' if restored else 'restored'}, expected otherwise:\n{log}")
    return float(_READY.findall(log)[-1])


def _object(made: Cluster) -> str:
    (found,) = made.client("s3").list_objects_v2(Bucket=BUCKET)["Contents"]
    return str(found["Key"])

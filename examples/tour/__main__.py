"""`make tour`: one sitting on booted nodes of this machine, from which it writes docs/tour.md and its pictures.

A sweep, a job that fails on rank 3, one that hangs, one that waits for its data, and a node that dies, each seen in
`gpucluster top`, on the page of `gpucluster ui` and by `gpucluster why`. It needs what `make boot` installs, and
Debian's chromium.
"""

from __future__ import annotations

import datetime
import os
import sys
import time
from pathlib import Path

import boto3
import jinja2

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "demo"))

import pictures
from cloud import LocalCloud
from shell import run
from sitting import HERE, ROOT, CommandFailed, Sitting, environment

from gpucluster.head import hostlist

CLUSTER = ("gpucluster", "-c", str(HERE / "cluster.yaml"))
TWO_BY_TWO = ("--nodes", "2", "--gpus-per-node", "2", "--launcher", "torchrun", "--time", "0:20:00")
ONE = ("--nodes", "1", "--gpus-per-node", "2", "--launcher", "torchrun", "--time", "0:20:00")


def sweep(sitting: Sitting, browser: pictures.Browser) -> None:
    axes = ("--sweep", "lr=0.3,0.1,0.03,0.01", "--sweep", "width=16,64,256", "--max-parallel", "4")
    one = ("--nodes", "1", "--gpus-per-node", "1", "--launcher", "srun", "--time", "0:20:00")
    job_id = sitting.submit(
        "digits", *one, *axes, "--", "python", "digits_sweep.py", "--lr", "{lr}", "--width", "{width}"
    )
    sitting.wait_until("four elements run", lambda: sitting.running_elements(job_id) == 4)
    time.sleep(25)
    pictures.terminal("top", sitting.see("top", "top", "--once"))
    browser.picture("cluster", "/", wait_s=12)
    sitting.wait_for_end("digits")
    sitting.see("results", "results", job_id)
    browser.picture("sweep", f"/jobs/{job_id}")


def failure(sitting: Sitting, browser: pictures.Browser) -> None:
    job_id = sitting.submit("fails", *TWO_BY_TWO, "--", "python", "fails_on_rank_3.py")
    sitting.wait_for_end("fails")
    sitting.see("why-fails", "why", job_id)
    browser.picture("fails", f"/jobs/{job_id}")
    sitting.see("logs", "logs", job_id, "--rank", "3", "--tail", "6")


def hang(sitting: Sitting, browser: pictures.Browser) -> None:
    job_id = sitting.submit("hangs", *TWO_BY_TWO, "--hang-timeout", "0:01:00", "--", "python", "hangs.py")
    sitting.wait_for_end("hangs")
    sitting.see("why-hangs", "why", job_id)
    browser.picture("hangs", f"/jobs/{job_id}")
    browser.picture("opening", f"/jobs/{job_id}", height=760, whole=False)  # of README.md


def waiting_for_data(sitting: Sitting, browser: pictures.Browser) -> None:
    job_id = sitting.submit("waits", *ONE, "--", "python", "waits_for_data.py")
    sitting.wait_until("it runs", lambda: sitting.state(job_id).startswith("RUNNING"))
    time.sleep(30)
    pictures.terminal("top-waits", sitting.see("top-waits", "top", "--once"))
    sitting.see("why-waits", "why", job_id)
    sitting.wait_for_end("waits")
    sitting.see("why-waited", "why", job_id)
    pictures.terminal("metrics", sitting.see("metrics", "metrics", job_id, "loss", "gpu_util_percent", "cpu_percent"))
    browser.picture("waits", f"/jobs/{job_id}", dark=True)


def lost_node(sitting: Sitting, browser: pictures.Browser, cloud: LocalCloud) -> None:
    job_id = sitting.submit("trains-on", *TWO_BY_TWO, "--", "python", "trains_on.py")
    sitting.wait_until("it runs", lambda: sitting.state(job_id).startswith("RUNNING"))
    time.sleep(20)
    node = _nodes(sitting, job_id)[-1]
    instance = cloud.instances_of([node])[0]
    boto3.client("ec2", region_name="us-east-1", **_keys(cloud)).terminate_instances(InstanceIds=[instance])
    sitting.wait_until("it waits for another node", lambda: not sitting.state(job_id).startswith("RUNNING"))
    sitting.see("why-lost", "why", job_id)
    sitting.see("jobs", "jobs", "-n", "8")
    sitting.wait_for_end("trains-on")
    sitting.see("why-went-on", "why", job_id)
    browser.picture("lost", f"/jobs/{job_id}")


def money(sitting: Sitting, browser: pictures.Browser) -> None:
    sitting.see("cost", "cost", "--by", "job")
    sitting.see("cost-day", "cost", "--by", "day")
    browser.picture("money", "/money")


def _nodes(sitting: Sitting, job_id: str) -> tuple[str, ...]:
    found = next(each for each in sitting.listed() if str(each["job_id"]) == job_id)
    return hostlist.names(str(found["node_list"]))


def _keys(cloud: LocalCloud) -> dict[str, str]:
    said = cloud.environment()
    return {
        "endpoint_url": cloud.endpoint_url,
        "aws_access_key_id": said["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": said["AWS_SECRET_ACCESS_KEY"],
    }


def play(cloud: LocalCloud) -> Sitting:
    cloud.start()
    run(["cdk", "bootstrap", "aws://123456789012/us-east-1", "--no-notices"], env=cloud.environment())
    run([*CLUSTER, "up", "--local", "--port", str(cloud.port), "--yes"])
    sitting = Sitting({**environment(), **cloud.environment()})
    with pictures.browser(sitting.environment) as browser:
        for stage in (sweep, failure, hang, waiting_for_data):
            stage(sitting, browser)
        lost_node(sitting, browser, cloud)
        money(sitting, browser)
    return sitting


def write(sitting: Sitting) -> None:
    template = jinja2.Template(
        (HERE / "page.md.jinja").read_text(), undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page = template.render(seen=sitting.seen, jobs=sitting.jobs, date=datetime.date.today().isoformat())
    (ROOT / "docs" / "tour.md").write_text(page + "\n")


def main() -> int:
    os.chdir(ROOT)
    cloud = LocalCloud(name="tour", port=int(os.environ.get("TOUR_PORT", "5577")))
    try:
        write(play(cloud))
    except CommandFailed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    finally:
        run([*CLUSTER, "down", "--yes"], check=False)
        cloud.stop()
    for path, size in pictures.sizes().items():
        print(f"{path.relative_to(ROOT)}: {size // 1024} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())

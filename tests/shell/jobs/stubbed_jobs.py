"""Runs a job's files on this machine, with stand-ins for Slurm, the launchers and other programs of a node."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from gpucluster.config import loads
from gpucluster.job import SbatchRequest, load
from gpucluster.layout import expand
from gpucluster.submission.submit import folder_files
from localcloud.testing import patience

LAYOUT = expand(
    loads(
        "name: Test\nregion: us-east-1\nsoftware: {containers: true}\n"
        "partitions: [{name: train, instance_types: [g5.12xlarge], max_nodes: 4}]\n"
    )
)

# Starts every task here; the first that fails ends the others, as --kill-on-bad-exit does. The nodes share this
# machine's processes: `stacks` of one node signals all ranks, and a second SIGABRT would end a rank in its dump.
SRUN = r"""#!/usr/bin/env bash
echo "srun $*" >>"$STUBS/calls"
tasks=1 node='' per_node=1
while [[ $1 == --* ]]; do
  case $1 in
    --ntasks=*) tasks=${1#*=} ;;
    --ntasks-per-node=*) per_node=${1#*=} ;;
    --nodelist=*) node=${1#*=} ;;
  esac
  shift
done
[[ " $* " == *" stacks "* && $node != train-1 ]] && exit
pids=()
trap 'kill -TERM "${pids[@]}"' TERM
for ((task = 0; task < tasks; task++)); do
  SLURM_PROCID=$task SLURM_NTASKS=$tasks SLURM_LOCALID=$((task % per_node)) SLURM_NODEID=$((task / per_node)) \
    SLURMD_NODENAME=${node:-train-$((task / per_node + 1))} "$@" &
  pids+=($!)
done
code=0
for _ in "${pids[@]}"; do
  wait -n || { code=$?; break; }
done
[ "$code" -eq 0 ] || kill -TERM "${pids[@]}" 2>/dev/null
wait
exit "$code"
"""

# A connection to 0.0.0.0 reaches this machine; a node cannot have the address 127.0.0.1.
HERE = '#!/usr/bin/env bash\necho "0.0.0.0 STREAM $2"\n'

TORCHRUN = r"""#!/usr/bin/env bash
echo "torchrun $*" >>"$STUBS/calls"
while [[ $1 == --* ]]; do
  case $1 in --nproc-per-node=*) local_size=${1#*=} ;; --nnodes=*) nodes=${1#*=} ;; esac
  shift
done
pids=()
trap 'kill -TERM "${pids[@]}"' TERM
for ((i = 0; i < local_size; i++)); do
  GROUP_RANK=$SLURM_NODEID LOCAL_RANK=$i RANK=$((SLURM_NODEID * local_size + i)) \
    WORLD_SIZE=$((nodes * local_size)) "$@" &
  pids+=($!)
done
code=0
for _ in "${pids[@]}"; do wait -n || { code=1; break; }; done
[ "$code" -eq 0 ] || kill -TERM "${pids[@]}" 2>/dev/null
wait
exit "$code"
"""

# The commands are those of Horovod 0.28.1 with Gloo: runner/gloo_run.py (create_slot_env_vars, create_run_env_vars,
# _exec_command), and runner/util/remote.py (get_ssh_command), which leaves blanks for the options that it is not given.
# runner/launch.py first runs `true` on each other host. Lines get the prefix of safe_shell_exec.py.
HOROVODRUN = r"""#!/usr/bin/env python3
import os, shlex, subprocess, sys
with open(os.environ["STUBS"] + "/calls", "a") as calls:
    print("horovodrun", *sys.argv[1:], file=calls)
arguments = sys.argv[1:]
hosts = [pair.split(":") for pair in arguments[arguments.index("-H") + 1].split(",")]
command = arguments[arguments.index("-H") + 2 :]
running, rank, size = [], 0, sum(int(slots) for _, slots in hosts)
for node, (host, slots) in enumerate(hosts):
    for local in range(int(slots)):
        values = {"HOROVOD_HOSTNAME": host, "HOROVOD_RANK": rank, "HOROVOD_SIZE": size, "HOROVOD_LOCAL_RANK": local,
                  "HOROVOD_LOCAL_SIZE": slots, "HOROVOD_CROSS_RANK": node, "HOROVOD_CROSS_SIZE": len(hosts),
                  "HOROVOD_GLOO_IFACE": "wrong0"}
        line = "env " + " ".join(f"{k}={shlex.quote(str(v))}" for k, v in values.items()) + " " + shlex.join(command)
        if node:
            ssh = f"ssh -o PasswordAuthentication=no -o StrictHostKeyChecking=no {host}  "
            if local == 0:
                subprocess.run(f"{ssh} -o ConnectTimeout=10 true", shell=True, check=True)
            line = f"{ssh}  " + shlex.quote(f"cd {os.getcwd()} > /dev/null 2>&1 ; {line}")
        process = subprocess.Popen(line, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        copy = subprocess.Popen(["sed", "-u", f"s/^/[{rank}]<stdout>:/"], stdin=process.stdout)
        running.append((process, copy))
        rank += 1
codes = [process.wait() for process, copy in running]
[copy.wait() for process, copy in running]
sys.exit(1 if any(codes) else 0)
"""

# Starts ranks of other nodes through its agent, as Open MPI does its daemons; the first that fails ends the others. It
# waits a second between SIGTERM and SIGKILL (`ompi_info --param odls all --level 9`: odls_base_sigkill_timeout).
MPIRUN = r"""#!/usr/bin/env python3
import os, shlex, signal, subprocess, sys, time
with open(os.environ["STUBS"] + "/calls", "a") as calls:
    print("mpirun", *sys.argv[1:], file=calls)
arguments = sys.argv[1:]
hosts = [line.split(" slots=") for line in open(arguments[arguments.index("--hostfile") + 1]).read().splitlines()]
command, running, rank = arguments[arguments.index("none") + 1 :], [], 0
for node, (host, slots) in enumerate(hosts):
    for local in range(int(slots)):
        values = {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_LOCAL_RANK": local, "OMPI_COMM_WORLD_SIZE": 4}
        line = shlex.join(["env", *(f"{name}={value}" for name, value in values.items()), *command])
        agent = [os.environ["OMPI_MCA_plm_rsh_agent"], host, line] if node else ["bash", "-c", f"exec {line}"]
        running.append(subprocess.Popen(agent, start_new_session=True))
        rank += 1
while not (ended := [each.poll() for each in running if each.poll()]) and None in [each.poll() for each in running]:
    time.sleep(0.05)
for number in (signal.SIGTERM, signal.SIGKILL) if ended else ():
    for each in running:
        try: os.killpg(each.pid, number)
        except ProcessLookupError: pass
    time.sleep(1)
[each.wait() for each in running]
sys.exit(ended[0] if ended else 0)
"""

STUBS = {
    "srun": SRUN,
    "torchrun": TORCHRUN,
    "horovodrun": HOROVODRUN,
    "mpirun": MPIRUN,
    "scontrol": '#!/usr/bin/env bash\n[ "$*" = "show hostnames train-[1-2]" ] && printf "train-1\\ntrain-2\\n"\n',
    "getent": '#!/usr/bin/env bash\n[ "$1" = ahostsv4 ] && echo "10.0.0.${2#train-} STREAM $2"\n',
    "ip": '#!/usr/bin/env bash\necho "2: ens5    inet ${@: -1}/24 brd 10.0.0.255 scope global ens5"\n',
}

# Each rank writes its arguments and environment as JSON to a file.
PROBE = """
import json, os, sys
open(os.path.join(os.environ["OUT"], os.environ["RANK"]), "w").write(json.dumps([sys.argv[1:], dict(os.environ)]))
print("hello from", os.environ["RANK"])
"""


def prepare(tmp_path: Path, secret, keys) -> dict:
    folder, stubs = tmp_path / "job", tmp_path / "stubs"
    spec = load(LAYOUT, flags={"nodes": 2, "ntasks_per_node": 2, "preflight": "off", "secrets": tuple(secret)} | keys)
    request = SbatchRequest.from_spec(spec, LAYOUT, str(folder))
    (folder / "code").mkdir(parents=True)
    stubs.mkdir()
    for name, file in folder_files(request, secret).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if file.link:
            path.symlink_to(file.text)
            continue
        path.write_text(file.text, newline="")
        path.chmod(file.mode)
    for name, text in STUBS.items():
        (stubs / name).write_text(text)
        (stubs / name).chmod(0o755)
    script = folder / "job.sbatch"
    environment = f"$(readlink -m /home/gpucluster/envs/{request.environment})/bin".encode()
    script.write_bytes(script.read_bytes().replace(environment, str(stubs).encode()))
    environment = {
        "PATH": f"{stubs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "STUBS": str(stubs),
        "OUT": str(tmp_path),
        "SLURM_JOB_ID": "77",
        "SLURM_JOB_NODELIST": "train-[1-2]",
        "SLURM_CPUS_ON_NODE": "8",
        "SLURMD_NODENAME": "train-1",
    }
    run_it = ["bash", "-c", 'exec bash "$0" >>"$1" 2>&1', str(folder / "job.sbatch"), str(folder / "log.txt")]
    return {"args": run_it, "env": environment, "cwd": folder / "code"}


def as_element(job: dict, array_id: str, index: int, job_id: str) -> dict:
    """Sets an array element's ids and --output with %a, as Slurm does."""
    *line, script, log = job["args"]
    own = {"SLURM_ARRAY_JOB_ID": array_id, "SLURM_ARRAY_TASK_ID": str(index), "SLURM_JOB_ID": job_id}
    return job | {"args": [*line, script, str(Path(log).parent / str(index) / "log.txt")], "env": job["env"] | own}


def change(tmp_path: Path, module: str, old: str, new: str) -> None:
    """Changes the job's copy of gpucluster_job: a limit that is too long for a test, or a path that needs root."""
    path = tmp_path / "job" / "lib" / "gpucluster_job" / module
    text = path.read_text()
    assert old in text, f"{module} has no {old!r}"
    path.write_text(text.replace(old, new))


def finished(code: int, folder: Path) -> tuple[int, dict[str, Any], str, Path]:
    """(exit code, result, log, folder) of a job that has ended."""
    return code, json.loads((folder / "result.json").read_text()), (folder / "log.txt").read_text(), folder


def alive(pid):
    """A zombie does not count as running."""
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for(condition, timeout_s=20.0):
    patience.wait_for("the condition", condition, timeout_s, 0.05)

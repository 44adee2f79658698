"""The demo's local cloud: starting it, asking it, ending it, and looking for what it left."""

from __future__ import annotations

import json
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shell import ROOT, python, run

WHEELS = Path("~/.cache/gpucluster/wheels").expanduser()
_LEFT_OVER = """
import json, sys
from localcloud import state
from localcloud.machines import leftovers
print(json.dumps(leftovers.found(state.state_dir(sys.argv[1]))))
"""


@dataclass
class LocalCloud:
    name: str
    port: int

    @property
    def endpoint_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def environment(self) -> dict[str, str]:
        """What points the CDK command line at it."""
        said = run(["python", "-m", "localcloud", "env", "--name", self.name, "--json"], echo=False)
        return {
            **json.loads(said.text),
            "NO_PROXY": "127.0.0.1,localhost",
            "CDK_DISABLE_CLI_TELEMETRY": "true",
        }

    def start(self) -> None:
        options = ["--name", self.name, "--port", str(self.port), "--wheels", str(WHEELS), "--detach"]
        run(["python", "-m", "localcloud", "up", *options])

    def stop(self) -> None:
        if python().exists():
            run(["python", "-m", "localcloud", "down", "--name", self.name], check=False)
        Path(ROOT, ".gpucluster", "GpuCluster.json").unlink(missing_ok=True)

    def instances_of(self, nodes: list[str]) -> list[str]:
        """Ids of the instances of these Slurm nodes."""
        sys.path.append(str(ROOT / "bootstrap"))
        from gpucluster_node import names

        found = {
            names.node_of(each["tags"].get(names.TAG, ""), each["launch_index"]): each["instance_id"]
            for each in self._ask("status")["instances"]
        }
        return [found[node] for node in nodes if node in found]

    def launched_since(self, since: float) -> list[str]:
        """Ids of the instances that the API's log says were launched after that time (seconds since the epoch)."""
        calls = self._ask(f"calls?since={since}")
        launches = [call for call in calls if call["action"] in ("RunInstances", "CreateFleet") and not call["error"]]
        return [instance_id for call in launches for instance_id in call["instance_ids"]]

    def left_over(self) -> list[str]:
        """Processes, mounts, loop devices, namespaces, links and control groups of this cloud."""
        if not python().exists():
            return []
        said = run(["python", "-c", _LEFT_OVER, self.name], echo=False, check=False)
        found: list[str] = json.loads(said.lines[-1]) if said.exit_code == 0 else [said.text]
        return found

    def _ask(self, what: str) -> Any:
        with urllib.request.urlopen(f"{self.endpoint_url}/_localcloud/{what}", timeout=30) as answer:
            return json.load(answer)

"""The commands of the command line."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from localcloud import state
from localcloud.errors import LocalCloudError, UsageError
from localcloud.machines import processes
from localcloud.process import daemon

_LAST_PORT = 65534
_RULE = (
    "instance_type",
    "availability_zone",
    "action",
    "tag",
    "instance_id",
    "code",
    "command",
    "message",
    "delay_s",
    "count",
    "quota_code",
    "reservation_id",
    "value",
)


def up(options: argparse.Namespace, arguments: list[str]) -> int:
    if not 1 <= options.port <= _LAST_PORT:
        raise UsageError(f"--port must be 1 to {_LAST_PORT} (the tunnel takes the port after it), got {options.port}")
    if options.image and not (options.image / "etc/os-release").exists():
        raise UsageError(f"--image {options.image}: no root file system there (it has no etc/os-release)")
    if options.wheels and not options.wheels.is_dir():
        raise UsageError(f"--wheels {options.wheels}: no such directory")
    if options.while_pid is not None and processes.start_time(options.while_pid) is None:
        raise UsageError(f"--while-pid {options.while_pid}: no such process")
    if options.pace_scale <= 0:
        raise UsageError(f"--pace-scale must be greater than 0, got {options.pace_scale:g}")
    daemon.refuse_second(options.name)
    if not options.no_boot:
        _require_machines()
        if options.image is None:
            options.image = _build_image(None)
    if options.detach:
        daemon.say_leftovers(state.state_dir(options.name))
        print(daemon.ready_line(daemon.detach([a for a in arguments if a != "--detach"], options.name)))
        return 0
    wanted = daemon.Options(
        options.name, options.port, not options.no_boot, options.image, options.wheels, options.while_pid,
        options.pace, options.pace_scale, options.public_endpoints,
    )  # fmt: skip
    daemon.run(wanted)
    return 0


def down(options: argparse.Namespace, _: list[str]) -> int:
    ended = daemon.end(options.name)
    removed = daemon.clean_leftovers(state.state_dir(options.name))
    for thing in removed:
        print(f"removed: {thing}", file=sys.stderr)
    if ended or removed:
        print(f"local cloud {options.name!r} ended", file=sys.stderr)
    else:
        print("nothing is running", file=sys.stderr)
    return 0


def status(options: argparse.Namespace, _: list[str]) -> int:
    cloud = state.read(state.state_dir(options.name))
    if cloud is None or not cloud.alive():
        print(json.dumps({"running": False, "name": options.name}) if options.json else "nothing is running")
        return 0
    answer = {"running": True} | _call(cloud, "GET", "status")
    if options.json:
        print(json.dumps(answer))
        return 0
    print(f"local cloud {cloud.name!r}: {cloud.endpoint_url}, pid {cloud.pid}")
    for instance in answer["instances"]:
        name = instance["tags"].get("Name", "")
        print(f"{instance['instance_id']}  {instance['state']:13} {instance['private_ip'] or '-':15} {name}".rstrip())
    return 0


def env(options: argparse.Namespace, _: list[str]) -> int:
    """Prints what a client needs, for `eval` in a shell."""
    cloud = _running(options.name)
    try:
        secret = state.secret(state.state_dir(options.name))
    except OSError as error:
        raise UsageError(f"the secret key of local cloud {options.name!r} cannot be read: {error}") from error
    variables = {
        "AWS_ENDPOINT_URL": cloud.endpoint_url,
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",  # the variable of the AWS CLI 1
        "AWS_ACCESS_KEY_ID": state.ACCESS_KEY_ID,
        "AWS_SECRET_ACCESS_KEY": secret,
    }
    if options.json:
        print(json.dumps(variables))
        return 0
    print(f"export {' '.join(f'{name}={shlex.quote(value)}' for name, value in variables.items())}")
    print("unset AWS_SESSION_TOKEN AWS_PROFILE")
    return 0


def image_build(options: argparse.Namespace, _: list[str]) -> int:
    _require_machines()
    print(f"image: {_build_image(options.target, plain=options.plain)}", file=sys.stderr)
    return 0


def _build_image(target: Path | None, *, plain: bool = False) -> Path:
    """Returns the image's path; says so on stderr if it must be built."""
    from localcloud.machines import image

    try:
        return image.build(target, plain=plain, log=lambda line: print(line, file=sys.stderr, flush=True))
    except image.ImageError as error:
        raise LocalCloudError(str(error)) from error


def fault_add(options: argparse.Namespace, _: list[str]) -> int:
    cloud = _running(options.name)
    if options.kind == "death":
        if not options.instance_id:
            raise UsageError("death needs --instance-id")
        print(json.dumps(_call(cloud, "POST", "kill", {"instance_id": options.instance_id})))
        return 0
    rule = {"kind": options.kind} | {key: v for key in _RULE if (v := getattr(options, key)) is not None}
    print(json.dumps(_call(cloud, "POST", "faults", rule)))
    return 0


def fault_list(options: argparse.Namespace, _: list[str]) -> int:
    for rule in _call(_running(options.name), "GET", "faults"):
        print(json.dumps(rule))
    return 0


def fault_clear(options: argparse.Namespace, _: list[str]) -> int:
    query = f"?id={urllib.parse.quote(options.id)}" if options.id else ""
    print(json.dumps(_call(_running(options.name), "DELETE", f"faults{query}")))
    return 0


def pace(options: argparse.Namespace, _: list[str]) -> int:
    """Shows the pace, or changes it."""
    cloud = _running(options.name)
    if options.pace is None:
        answer = _call(cloud, "GET", "pace")
    elif options.pace == "off":
        answer = _call(cloud, "DELETE", "pace")
    else:
        answer = _call(cloud, "POST", "pace", {"pace": options.pace, "scale": options.pace_scale})
    print(json.dumps(answer))
    return 0


def doctor(options: argparse.Namespace, _: list[str]) -> int:
    from localcloud.machines import doctor as checks

    findings = checks.findings()
    if options.json:
        print(json.dumps([vars(finding) for finding in findings]))
    for finding in findings if not options.json else ():
        advice = "" if finding.ok else f"; {finding.advice}"
        print(f"{'ok  ' if finding.ok else 'FAIL'}  {finding.name}: {finding.found}{advice}")
    return 0 if all(finding.ok for finding in findings) else UsageError.exit_code


def _require_machines() -> None:
    """Checks root and packages, without which nothing boots. One line says the first thing to do."""
    from localcloud.machines import doctor as checks

    for finding in checks.findings():
        if not finding.ok:
            raise UsageError(
                f"instances cannot boot on this machine: {finding.name}: {finding.found}; {finding.advice} "
                "(the APIs alone need neither: --no-boot)"
            )


def _running(name: str) -> state.Cloud:
    cloud = state.read(state.state_dir(name))
    if cloud is None or not cloud.alive():
        raise UsageError(f"no local cloud named {name!r} runs; start one with `localcloud up --name {name}`")
    return cloud


def _call(cloud: state.Cloud, method: str, route: str, body: dict[str, Any] | None = None) -> Any:
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(f"{cloud.endpoint_url}/_localcloud/{route}", data, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        raise UsageError(_said(error)) from error
    except OSError as error:
        raise LocalCloudError(f"local cloud {cloud.name!r} (pid {cloud.pid}) does not answer: {error}") from error


def _said(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (ValueError, KeyError, TypeError):
        return f"the local cloud answered {error.code} {error.reason}"

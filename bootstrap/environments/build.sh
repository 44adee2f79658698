#!/usr/bin/env bash
# Builds one Python environment of the jobs. Slurm runs it on a node, as root, from the recipe that the head node wrote to /home.
# usage: build.sh NAME
set -euo pipefail

BUNDLE=$(cd -P "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly BUNDLE
export HOME=/root

source "$BUNDLE/lib/runner.sh"
source "$BUNDLE/lib/apt.sh"
source "$BUNDLE/lib/machine_environment.sh"
source "$BUNDLE/lib/environments.sh"
source "$BUNDLE/environments/horovod_wheel.sh"
source "$BUNDLE/environments/interpreter.sh"
source "$BUNDLE/environments/environment.sh"
machine_environment # a proxy

# In a separate process, because errexit has no effect inside a condition.
if [ "${2:-}" = inside ]; then
    build_environment "$1"
    exit
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! bash "${BASH_SOURCE[0]}" "$1" inside 2>&1 | tee "$log"; then
    reason=$(last_error "$log")
    echo "error: the environment $1 could not be built on $(hostname): ${reason#error: }"
    exit 1
fi

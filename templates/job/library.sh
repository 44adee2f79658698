#!/usr/bin/env bash
# Runs a module of gpucluster_train as a program, in the node's own Python, which has boto3. Nothing of the job's code or
# environment is in its way. usage: library.sh MODULE [ARGUMENT...]
set -euo pipefail

# The job's own keys for S3, where it brings some.
# shellcheck source=/dev/null
[ ! -e "$GPUCLUSTER_JOB_DIR/secrets.sh" ] || source "$GPUCLUSTER_JOB_DIR/secrets.sh"
python=/usr/bin/python3
[ -x "$python" ] || python=python3
cd "$GPUCLUSTER_JOB_DIR/lib"
exec env -u PYTHONPATH -u PYTHONHOME PYTHONDONTWRITEBYTECODE=1 "$python" -s -m "gpucluster_train.$1" "${@:2}"

#!/usr/bin/env bash
# Prints the lock of an environment of the jobs, in full: what PyPI alone has for Python 3.11 on x86-64.
# usage: lock-environment.sh [--upgrade] NAME     keeps what the lock pins already; with --upgrade takes the newest versions
#
# `# asked:` in bootstrap/environments/NAME.txt is what is asked for. uv resolves it and does not read pip's settings, which may
# prefer builds for CPUs.
unset UV_INDEX UV_INDEX_URL UV_DEFAULT_INDEX UV_EXTRA_INDEX_URL UV_FIND_LINKS
set -euo pipefail

HERE=$(cd -P "$(dirname "${BASH_SOURCE[0]}")" && pwd)
keep=1
if [ "${1:-}" = --upgrade ]; then keep='' && shift; fi
lock=$HERE/../bootstrap/environments/$1.txt
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# AWS alone has SMDDP's wheel.
sed -n 's/^# asked: //p' "$lock" | tr ' ' '\n' | grep -v '^smdistributed-dataparallel==' >"$scratch/asked"
grep -v -e '^smdistributed-dataparallel==' -e '^-' "$lock" >"$scratch/pinned"
uv pip compile --quiet --no-config --python-version 3.11 \
    --python-platform x86_64-manylinux_2_28 --no-header --no-annotate \
    ${keep:+--constraints "$scratch/pinned"} --output-file "$scratch/locked" "$scratch/asked"
grep -E '^(#|-)' "$lock"
{
    cat "$scratch/locked"
    grep '^smdistributed-dataparallel==' "$lock" || true
} | LC_ALL=C sort

"""Errors that end a command with one line. Anything else is a defect and keeps its traceback.

LocalCloudError   exit code 1
└── UsageError    exit code 2: wrong arguments, or something that this machine lacks
"""

from __future__ import annotations


class LocalCloudError(Exception):
    exit_code = 1


class UsageError(LocalCloudError):
    exit_code = 2

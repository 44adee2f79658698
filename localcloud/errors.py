"""Errors that end a verb with one line; anything else is a defect and keeps its traceback.

LocalCloudError   exit code 1
└── UsageError    exit code 2: what was typed, or what this machine lacks
"""

from __future__ import annotations


class LocalCloudError(Exception):
    exit_code = 1


class UsageError(LocalCloudError):
    exit_code = 2

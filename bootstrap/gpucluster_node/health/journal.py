"""Messages of the kernel log, from `journalctl --output=json`: one record is one line, whatever its text has.

With --output=cat a line break of a message would look like the end of a record. A user in their own namespaces mounts
overlayfs with options of their choice, and the kernel logs those that are wrong (fs/overlayfs/super.c:
ovl_mount_dir_noesc). /dev/kmsg escapes control characters (Documentation/ABI/testing/dev-kmsg), and journald restores
them (src/journal/journald-kmsg.c: dev_kmsg_record).
"""

from __future__ import annotations

import json


def message(line: str) -> str:
    """The message's first line: the driver's own have no other, and what follows may be a user's. Empty if there is
    none. A text with control characters, such as a program's name, or without UTF-8 is a list of bytes
    (systemd.io/JOURNAL_EXPORT_FORMATS)."""
    try:
        found = json.loads(line)["MESSAGE"]
        text = bytes(found).decode(errors="replace") if isinstance(found, list) else found
        return str(text.splitlines()[0])
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        return ""

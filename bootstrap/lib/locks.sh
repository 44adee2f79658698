# Locks between root's programs: nobody else may hold one, and no program waits for one without limit. A process that can open a file
# can hold its lock, also if it may only read it (flock(2)). gpucluster_node/locks.py does the same in Python.

# take_lock FILE SECONDS: takes the lock as descriptor 9, until this shell and all processes that inherit the descriptor end. If
# another process holds it for longer, fails, and LOCK_ERROR names that process.
take_lock() {
    local mask
    mask=$(umask)
    umask 077
    exec 9>>"$1"
    umask "$mask"
    # A file of an older version may be open to all.
    chmod 0600 "$1"
    if flock --timeout "$2" 9; then return; fi
    # shellcheck disable=SC2034 # for the caller
    LOCK_ERROR="$1 is still locked after $2 s, by $(holders_of "$1"); end that process"
    return 1
}

# holders_of FILE: the processes that hold its lock, from /proc/locks: `1: FLOCK  ADVISORY  WRITE 708 00:19:1054 0 EOF`
# (https://man7.org/linux/man-pages/man5/proc_locks.5.html).
holders_of() {
    local device inode pid user described=()
    read -r device inode < <(stat -c '%d %i' "$1")
    device=$(printf '%02x:%02x' $((device >> 8 & 0xfff)) $(((device & 0xff) | (device >> 12 & 0xfff00))))
    while read -r pid; do
        user=$(stat -c %U "/proc/$pid" 2>/dev/null) || user='a user who has ended it, or one that it started'
        described+=("process $pid of $user")
    done < <(sed -nE "s/^[0-9]+: FLOCK .* ([0-9]+) $device:$inode 0 EOF\$/\1/p" /proc/locks)
    if [ "${#described[@]}" -eq 0 ]; then described=('a process that /proc/locks does not show'); fi
    printf '%s\n' "${described[@]}" | paste -sd ,
}

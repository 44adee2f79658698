# An added kernel module fits only one kernel, so that kernel is held.

# hold_kernel: prevents upgrades of the kernel. A nightly upgrade would install another kernel, and the next boot would lack the
# module.
hold_kernel() {
    local installed
    installed=$(dpkg-query --show --showformat '${Package} ${db:Status-Abbrev}\n' \
        'linux-aws*' 'linux-image-*' 'linux-headers-*' 'linux-modules-*' 2>/dev/null | awk '$2 == "ii" { print $1 }' || true)
    if [ -z "$installed" ]; then return; fi
    # shellcheck disable=SC2086 # one word for each package
    apt-mark hold $installed >/dev/null
    say "kernel $(uname -r) is held"
}

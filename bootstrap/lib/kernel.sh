# Modules that are not the kernel's own fit one kernel alone: it stays.

# hold_kernel: no upgrade brings another one. An upgrade at night would, and the next boot would be without the module.
hold_kernel() {
    local installed
    installed=$(dpkg-query --show --showformat '${Package} ${db:Status-Abbrev}\n' \
        'linux-aws*' 'linux-image-*' 'linux-headers-*' 'linux-modules-*' 2>/dev/null | awk '$2 == "ii" { print $1 }' || true)
    if [ -z "$installed" ]; then return; fi
    # shellcheck disable=SC2086 # one word for each package
    apt-mark hold $installed >/dev/null
    say "kernel $(uname -r) is held"
}

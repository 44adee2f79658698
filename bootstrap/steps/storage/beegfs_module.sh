# BeeGFS's client is a kernel module that each machine compiles for its running kernel.
step_beegfs_module() {
    local kernel
    kernel=$(uname -r)
    hold_kernel
    if modprobe beegfs 2>/dev/null; then return; fi
    if [ ! -e "/lib/modules/$kernel/build" ]; then install_packages "linux-headers-$kernel"; fi
    beegfs_compile "$kernel"
    modprobe beegfs || fail "BeeGFS's module was compiled for kernel $kernel and does not load: see dmesg; Secure Boot refuses it"
}

# beegfs_compile KERNEL
beegfs_compile() {
    local log=/var/log/gpucluster/beegfs-module.log why
    if "$BEEGFS_CLIENT_CONTROL" rebuild >"$log" 2>&1; then return; fi
    why=$(grep -m 1 -iE 'error|unsupported|no such file' "$log" || tail -n 1 "$log")
    fail "BeeGFS $BEEGFS_REPOSITORY has no client for kernel $1: $(cut_to 70 "$why") ($log): choose another image or version"
}

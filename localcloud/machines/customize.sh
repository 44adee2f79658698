#!/bin/sh
# Finishes a guest's root file system. usage: customize.sh ROOT
# Runs outside the root, after all packages are installed and the files of guest/ are copied.
set -eu
root=$1

chroot "$root" useradd --create-home --uid 1000 --user-group --shell /bin/bash ubuntu
chroot "$root" useradd --system --no-create-home --shell /usr/sbin/nologin ec2-instance-connect
chmod 0440 "$root/etc/sudoers.d/90-cloud-init-users"
install -d -m 0755 "$root/opt/wheels" "$root/etc/exports.d" "$root/var/lib/nfs" "$root/fsx"
chroot "$root" update-ca-certificates >/dev/null

# Each instance creates its own identity at boot.
rm -f "$root"/etc/ssh/ssh_host_* "$root/etc/hostname" "$root/etc/munge/munge.key" "$root/var/lib/dbus/machine-id"
: >"$root/etc/machine-id"
printf '127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n' >"$root/etc/hosts"
ln -sf ../run/systemd/resolve/stub-resolv.conf "$root/etc/resolv.conf"

# Scripts call these programs by these names.
ln -sf mount.nfs "$root/usr/sbin/mount.nfs4"
ln -sf nfs-server.service "$root/usr/lib/systemd/system/nfs-kernel-server.service"
install -d "$root/opt/amazon/efa/bin"
ln -sf /usr/bin/fi_info "$root/opt/amazon/efa/bin/fi_info"
install -d "$root/opt/aws/amazon-cloudwatch-agent/bin"
ln -sf /usr/bin/amazon-cloudwatch-agent-ctl "$root/opt/aws/amazon-cloudwatch-agent/bin/amazon-cloudwatch-agent-ctl"

# The library of NVIDIA's driver, by this machine's compiler: guests have none.
cc -O2 -shared -fPIC -o "$root/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1" "$root/usr/src/libnvidia-ml.c"

# One program stands in for all of BeeGFS.
install -d "$root/opt/beegfs/sbin" "$root/opt/beegfs/lib" "$root/etc/init.d" "$root/etc/beegfs"
for name in mgmtd meta storage helperd client setup-mgmtd setup-meta setup-storage; do
    ln -sf /usr/lib/localcloud/beegfs-services "$root/opt/beegfs/sbin/beegfs-$name"
done
ln -sf /usr/lib/localcloud/beegfs-services "$root/opt/beegfs/sbin/beegfs"
ln -sf /usr/lib/localcloud/beegfs-services "$root/etc/init.d/beegfs-client"
ln -sf ../lib/localcloud/beegfs-services "$root/usr/sbin/beegfs"
ln -sf ../lib/localcloud/beegfs-services "$root/usr/sbin/beegfs-ctl"
ln -sf ../lib/localcloud/beegfs-services "$root/usr/sbin/mount.beegfs"
: >"$root/opt/beegfs/lib/libbeegfs_license.so"

# Guests report more processors than this machine has. Open MPI's ranks would spin while they wait for other ranks, and
# take their processors. Four ranks on two processors took 39 CPU seconds without this setting, and 23 with it.
if [ -d "$root/etc/openmpi" ]; then echo 'mpi_yield_when_idle = 1' >>"$root/etc/openmpi/openmpi-mca-params.conf"; fi

# User data starts the services. Timers and terminals would only take memory.
systemctl --root="$root" disable munge.service slurmctld.service slurmd.service sackd.service slurmdbd.service \
    mariadb.service 2>/dev/null || true
systemctl --root="$root" mask prometheus.service prometheus-node-exporter.service >/dev/null 2>&1
systemctl --root="$root" mask dpkg-db-backup.timer e2scrub_all.timer \
    e2scrub_reap.service fstrim.timer logrotate.timer man-db.timer systemd-pstore.service console-getty.service \
    container-getty@.service getty@.service getty.target systemd-timesyncd.service tmp.mount \
    systemd-userdbd.socket cloud-init-hotplugd.socket xfs_scrub_all.timer systemd-networkd-persistent-storage.service \
    dev-hugepages.mount sys-kernel-debug.mount sys-kernel-tracing.mount >/dev/null 2>&1
# logind starts at the first request to power off or reboot. If it were masked, it would refuse both.
rm -f "$root/usr/lib/systemd/system/multi-user.target.wants/systemd-logind.service"
systemctl --root="$root" enable ssh.service systemd-networkd.service systemd-resolved.service >/dev/null 2>&1
rm -rf "$root"/var/cache/apt/*.bin "$root"/var/log/apt "$root"/usr/share/man/* "$root"/usr/share/doc/*

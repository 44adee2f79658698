#!/usr/bin/env bash
# A Slurm cluster that is none of ours: two slurmd on this machine, an ordinary user, sshd, munge; no accounting, no pyxis.
# usage: unshare --mount --pid --uts --fork --kill-child slurm-of-others.sh IMAGE FOLDER PORT PUBLIC_KEY
# sshd listens on 127.0.0.1:PORT; Slurm takes the three ports above. Everything ends with the process that called unshare.
set -euo pipefail
image=$1 folder=$2 port=$3 public_key=$4
root=$folder/root
address=$(hostname -I | cut -d ' ' -f 1)

mount --make-rprivate /
mount -t tmpfs lab "$folder"
mkdir "$folder/upper" "$folder/work" "$root"
mount -t overlay -o "lowerdir=$image,upperdir=$folder/upper,workdir=$folder/work" overlay "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs run "$root/run"
hostname lab
printf '127.0.0.1 localhost\n%s lab lab1 lab2\n' "${address:-127.0.0.1}" >"$root/etc/hosts"

inside() { chroot "$root" "$@"; }
inside useradd --create-home --shell /bin/bash --password '*' me
install -D -m 0600 "$public_key" "$root/home/me/.ssh/authorized_keys"
inside chown -R me: /home/me
inside su me -c 'python3 -m venv --without-pip ~/venv'
inside ssh-keygen -A >/dev/null

inside install -d -o munge -g munge /run/munge
inside mungekey -c -f
inside chown munge: /etc/munge/munge.key
inside su -s /bin/sh munge -c munged

mkdir -p "$root/run/sshd" "$root/var/spool/slurmd-lab1" "$root/var/spool/slurmd-lab2"
inside install -d -o slurm /var/spool/slurmctld
echo CgroupPlugin=disabled >"$root/etc/slurm/cgroup.conf"
cat >"$root/etc/slurm/slurm.conf" <<END
ClusterName=lab
SlurmctldHost=lab
SlurmctldPort=$((port + 1))
SlurmUser=slurm
StateSaveLocation=/var/spool/slurmctld
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd-%n.pid
SlurmdSpoolDir=/var/spool/slurmd-%n
SlurmdLogFile=/var/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MinJobAge=2
NodeName=lab1 NodeHostname=lab Port=$((port + 2)) CPUs=2
GresTypes=gpu
NodeName=lab2 NodeHostname=lab Port=$((port + 3)) CPUs=2 Gres=gpu:h100:2
PartitionName=debug Nodes=ALL Default=YES
PartitionName=gpu Nodes=lab2
END
# Slurm counts any two devices as GPUs.
for device in null zero; do echo "NodeName=lab2 Name=gpu Type=h100 File=/dev/$device"; done >"$root/etc/slurm/gres.conf"
inside slurmctld
inside slurmd -N lab1
inside slurmd -N lab2
cat "$root/etc/ssh/ssh_host_ed25519_key.pub"
exec chroot "$root" /usr/sbin/sshd -D -p "$port" -o ListenAddress=127.0.0.1 -o UsePAM=no

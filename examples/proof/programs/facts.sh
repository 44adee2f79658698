# What this node is made of, one command after another. A command that is missing or fails says so, and the next one runs.
show() {
    echo "--- $*"
    timeout 60 "$@" 2>&1 || echo "(exit code $?)"
}

show uname -r
show sed -n '/^PRETTY_NAME=/p' /etc/os-release
show python3 --version
show nvidia-smi
show nvidia-smi topo -m
show sh -c 'nvidia-smi -q | grep -A4 -m1 "^ *Fabric$"'
show readlink -f /usr/local/cuda
show sh -c 'ls -d /usr/local/cuda-*'
show cat /opt/amazon/efa_installed_packages
show sh -c 'PATH=$PATH:/opt/amazon/efa/bin fi_info --version'
show sh -c 'PATH=$PATH:/opt/amazon/efa/bin fi_info -p efa -t FI_EP_RDM | head -60'
show sh -c 'command -v aws && aws --version'
show sh -c 'dcgmi --version; nv-fabricmanager --version'
show sinfo --version
show srun --version

# p4de.24xlarge: its hardware and the versions of its software. Each list has the oldest version that works, the first newer version
# that does not, and the version to install on a plain image.
GPUS=8 NVME_GB=8000 EFA_INTERFACES=4 NVSWITCH=yes GDRCOPY=yes LUSTRE_OVER_EFA=no
KERNEL_MODULE=open
DRIVER_VERSIONS=(580.65 '' 580)
CUDA_VERSIONS=(13.0 14 13.0)
NCCL_VERSIONS=(2.25 3 2.28.9-1+cuda13.0)
GDRCOPY_VERSIONS=(2.4 3 2.5.1)
DCGM_VERSIONS=(4.0 5 4)
EFA_VERSIONS=(1.38.0 2 1.47.0)
OFI_NCCL_VERSIONS=(1.13 2 '')
ENROOT_VERSIONS=(3.4.1 5 3.5.0)
PYXIS_VERSIONS=(0.20.0 '' 0.20.0)
JOB_ENVIRONMENT=('NCCL_SOCKET_IFNAME=^docker,lo,veth' FI_EFA_USE_HUGE_PAGE=0)

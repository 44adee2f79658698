# p3.16xlarge: what it has, and the versions that suit it: the oldest accepted, the oldest refused, what a plain image is given.
GPUS=8 NVME_GB=0 EFA_INTERFACES=0 NVSWITCH=no GDRCOPY=no LUSTRE_OVER_EFA=no
KERNEL_MODULE=proprietary
DRIVER_VERSIONS=(535 590 580)
CUDA_VERSIONS=(12.0 13 12.8)
NCCL_VERSIONS=(2.18.5 3 2.26.2-1+cuda12.8)
GDRCOPY_VERSIONS=(2.4 3 2.5.1)
DCGM_VERSIONS=(3.3 5 4)
EFA_VERSIONS=(1.38.0 2 1.47.0)
OFI_NCCL_VERSIONS=(1.13 2 '')
ENROOT_VERSIONS=(3.4.1 5 3.5.0)
PYXIS_VERSIONS=(0.20.0 '' 0.20.0)
JOB_ENVIRONMENT=('NCCL_SOCKET_IFNAME=^docker,lo,veth')

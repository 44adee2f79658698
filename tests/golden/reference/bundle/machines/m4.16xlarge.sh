# m4.16xlarge: its hardware and the versions of its software. Each list has the oldest version that works, the first newer version
# that does not, and the version to install on a plain image.
GPUS=0 NVME_GB=0 EFA_INTERFACES=0 NVSWITCH=no GDRCOPY=no LUSTRE_OVER_EFA=no
EFA_VERSIONS=(1.38.0 2 1.47.0)
OFI_NCCL_VERSIONS=(1.13 2 '')
ENROOT_VERSIONS=(3.4.1 5 3.5.0)
PYXIS_VERSIONS=(0.20.0 '' 0.20.0)
JOB_ENVIRONMENT=()

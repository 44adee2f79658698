# train: what its nodes are told, beside what machines/TYPE.sh says of their instance type.
EFA=yes SCRATCH=yes
BEEGFS_ROLE=job # none, client, server (of the cluster's), job (of its jobs' own)

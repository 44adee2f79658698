# ps: what its nodes are told, beside what machines/TYPE.sh says of their instance type.
EFA=no SCRATCH=yes
BEEGFS_ROLE=none # none, client, server (of the cluster's), job (of its jobs' own)

# ps: settings of its nodes, beside those of their instance type in machines/TYPE.sh.
EFA=no SCRATCH=yes
BEEGFS_ROLE=none # none, client, server (of the cluster's file system), job (of its jobs' file systems)

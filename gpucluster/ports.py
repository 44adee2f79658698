"""The ports of the services that all share.

Those below 1024 belong to root: while a service restarts, no user can take its port and stop it, or answer in its
place. IANA has assigned none of 288 to 307. Programs that take any free port of root's begin at 512 (bindresvport(3)).
"""

from __future__ import annotations

NFS = 296
"""The head node exports /home on this port. A user who took 2049 while the server restarts could serve another /home to
every node."""
SLURMCTLD = 297
SLURMD = 298
SLURMDBD = 299
"""Slurm's own 6817 to 6819 are free for everybody. The daemons do not start while a user has them."""
NODE_EXPORTER = 300
"""Each node's samples, in Prometheus's format. Users' processes do not reach it."""
PROMETHEUS = 301
"""On the head node's loopback. A user who had the port could show everybody false samples."""
SRUN = (61000, 64999)
"""The first and the last of SrunPortRange, which srun takes as its user."""

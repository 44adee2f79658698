# The head node's data volume.

# needs_home UNIT: the unit starts after /home and the data volume are mounted, and stops before they are unmounted.
needs_home() {
    put_file "/etc/systemd/system/$1.service.d/gpucluster-home.conf" 0644 root:root <<UNIT
[Unit]
Requires=gpucluster-home.service
After=gpucluster-home.service
RequiresMountsFor=$DATA /home/gpucluster
UNIT
}

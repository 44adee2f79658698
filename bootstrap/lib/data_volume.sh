# What lies on the head node's data volume.

# needs_home UNIT: does not start before /home and the data volume are there, and stops before they go.
needs_home() {
    put_file "/etc/systemd/system/$1.service.d/gpucluster-home.conf" 0644 root:root <<UNIT
[Unit]
Requires=gpucluster-home.service
After=gpucluster-home.service
RequiresMountsFor=$DATA /home/gpucluster
UNIT
}

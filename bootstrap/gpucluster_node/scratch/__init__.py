"""The instances' own NVMe disks."""

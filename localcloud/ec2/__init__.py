"""EC2 as AWS enforces it, on top of moto's: what it lacks, and instances that a hypervisor runs."""

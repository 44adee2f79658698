"""EC2 as AWS enforces it, on top of moto's: what moto lacks, and instances that a hypervisor runs."""

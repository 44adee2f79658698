"""EC2 on top of moto's: the rules that AWS enforces and moto lacks, and instances that a hypervisor runs."""

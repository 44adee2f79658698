"""The machines behind RDS: one of the guest image for each MariaDB instance, which EC2 does not show."""

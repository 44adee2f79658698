"""The machines behind RDS: one for each MariaDB instance. They boot the guests' image, and EC2 does not show them."""

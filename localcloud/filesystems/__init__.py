"""FSx for Lustre and EFS, where moto's answers differ from AWS's."""

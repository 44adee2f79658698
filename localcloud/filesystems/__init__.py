"""FSx for Lustre and EFS, as far as moto's answers are not those of AWS."""

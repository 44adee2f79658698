"""The hardware of instance types, and the software that fits them."""

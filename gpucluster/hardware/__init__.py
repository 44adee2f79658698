"""What instance types have, and the software that suits them."""

"""FSx for Lustre: files that move between it and S3, and file systems that exist while jobs use them."""

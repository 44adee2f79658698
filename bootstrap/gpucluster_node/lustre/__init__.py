"""FSx for Lustre: transfers between it and S3, and file systems with `lifetime: jobs`."""

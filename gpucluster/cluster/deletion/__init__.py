"""Which resources the deletion of a cluster deletes, and which it keeps."""

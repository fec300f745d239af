"""The lake in a bucket, by S3 servers of this machine: crash rounds, and the whole line."""

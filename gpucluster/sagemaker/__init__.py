"""A job of job.yaml as a training job of Amazon SageMaker."""

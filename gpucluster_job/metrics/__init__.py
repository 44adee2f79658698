"""The job's metrics: what its program prints and an expression of `metrics` matches, and what it logs with
`gpucluster_train.log`. A process of its own (reader.py) reads both while the job runs; the job waits for it only at its
end, and not for long."""

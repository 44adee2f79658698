"""The package that runs inside a job. It travels in the job's folder; each of its processes is `python3 -I
gpucluster_job VERB`.

It needs only Python's standard library, and no version above 3.8, because ranks in a container run it with the
container's Python.
"""

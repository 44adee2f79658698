"""What runs inside a job: it travels in the job's folder, and every process of ours there is `python3 -I
gpucluster_job VERB`.

Python's standard library alone. A rank's container brings its own Python, so that nothing here needs more than 3.8.
"""

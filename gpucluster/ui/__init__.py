"""The page of `gpucluster ui`: what the cluster does now and did before, served to browsers of this machine only."""

"""Which rank did not come when others waited: by their stacks, torch's flight recorder, or NCCL's watchdog."""

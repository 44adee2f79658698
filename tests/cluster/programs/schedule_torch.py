"""Takes steps of gradient 1 and compares where they have led with the sum of the schedule's rates."""

import torch

from gpucluster_train import Schedule
from gpucluster_train.torch import scheduler

schedule = Schedule(peak=0.4, steps=20, warmup_steps=5, start=0.1, end=0.01)
fast, slow = torch.nn.Parameter(torch.zeros(1)), torch.nn.Parameter(torch.zeros(1))
optimizer = torch.optim.SGD([{"params": [fast]}, {"params": [slow], "lr": 0.2}], lr=0.4)
rates = scheduler(optimizer, schedule)
for _ in range(20):
    optimizer.zero_grad()
    (fast + slow).backward()
    optimizer.step()
    rates.step()
expected = -sum(schedule(step) for step in range(20))
assert abs(fast.item() - expected) < 1e-5, (fast.item(), expected)
assert abs(slow.item() - expected / 2) < 1e-5, (slow.item(), expected / 2)
try:
    scheduler(torch.optim.SGD([fast], lr=0.1), schedule)
except ValueError as error:
    assert "the optimizer's learning rate is 0.1, but the schedule's peak is 0.4" in str(error)
else:
    raise AssertionError("an optimizer with another rate was taken")
print("torch followed the schedule")

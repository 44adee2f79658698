"""A sweep as training jobs, one for each element: SageMaker has no arrays.

An element is a run of a task of its own, NAME-INDEX: it keeps its state, and is skipped if it has succeeded already.
All names of a sweep end with the same time, by which they are found again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from gpucluster.errors import AwsError
from gpucluster.job import JobSpec, arrays
from gpucluster.sagemaker.following import logs
from gpucluster.sagemaker.following.account import Account
from gpucluster.sagemaker.following.members import VALUES, unfinished
from gpucluster.sagemaker.prepare import Prepared
from gpucluster.sagemaker.submission import Submitted

_FULL = "ResourceLimitExceeded"
"""What CreateTrainingJob answers if a quota is reached: botocore's model."""
Adapt = Callable[[JobSpec], JobSpec]
Tell = Callable[[str], None]


def element(spec: JobSpec, index: int) -> JobSpec:
    """The job of one element, as gpucluster_job/element.py fills in its values on the cluster. A job without a sweep
    stays as it is."""
    if not spec.sweep:
        return spec
    values = [*arrays.parameters(spec.sweep)][index]
    words = arrays.command(spec.command, spec.sweep)
    return spec.model_copy(
        update={
            "name": f"{spec.name}-{index}",
            "command": tuple(_filled_in(word, values) for word in words),
            "env": {**spec.env, **_variables(values)},
            "sweep": {},
            "max_parallel": None,
        }
    )


def _variables(values: Mapping[str, str]) -> dict[str, str]:
    """Those of the program, and one by which `results` finds the values: DescribeTrainingJob shows it."""
    return {arrays.variable(name): value for name, value in values.items()} | {VALUES: json.dumps(values)}


def _filled_in(word: str, values: Mapping[str, str]) -> str:
    """In one pass: a value may look like another's name."""
    names = "|".join(map(re.escape, values))
    return re.sub(rf"\{{({names})\}}", lambda found: values[found[1]], word)


def prepared(prepare: Callable[[Adapt], Prepared]) -> tuple[JobSpec, list[Prepared]]:
    """The job as it was asked for, and those of its elements; without a sweep, one. Raises JobSpecError, UsageError."""
    asked = list[JobSpec]()

    def of(index: int) -> Prepared:
        def adapt(spec: JobSpec) -> JobSpec:
            asked.append(spec)
            return element(spec, index)

        return prepare(adapt)

    first = of(0)
    return asked[0], [first, *(of(index) for index in range(1, len(asked[0].elements)))]


def submit_all(
    account: Account,
    name: str,
    jobs: Sequence[Prepared],
    most: int | None,
    submit: Callable[[Prepared], Submitted],
    tell: Tell,
    pause: logs.Pause,
) -> Iterator[Submitted]:
    """`name`: that of the sweep. `most`: how many of its jobs run at a time. If a quota is reached, the next job waits
    for the end of another one of this sweep. Raises AwsError, also for a quota that has no room for any."""
    running, told = set[str](), False
    for job in jobs:
        while most and len(running) >= most:
            pause(logs.pause_s())
            running &= unfinished(account, name)
        while True:
            try:
                done = submit(job)
                break
            except AwsError as error:
                if _FULL not in error.message or not running:
                    raise
                if not told:
                    tell(f"{error.message}; {len(running)} jobs run, and the next one is submitted when one has ended")
                told = True
                pause(logs.pause_s())
                running &= unfinished(account, name)
        if not done.skipped:
            running.add(done.job)
        yield done

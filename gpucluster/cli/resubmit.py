"""`gpucluster resubmit`: runs elements of a sweep or an array again, in their folders."""

from __future__ import annotations

import json
import os

import click

from gpucluster.cli.frame.connection import head
from gpucluster.cli.frame.context import CliContext
from gpucluster.cli.frame.job_id import job_id as job_number
from gpucluster.errors import UsageError

EXAMPLES = """\b
Examples:
  gpucluster resubmit 29 --failed
  gpucluster resubmit 29_3
"""


@click.command(epilog=EXAMPLES)
@click.argument("job_id", type=job_number)
@click.option("--failed", is_flag=True, help="Run all elements again that failed, were cancelled, or have no result.")
@click.option("-f", "--follow", is_flag=True, help="Wait until the elements end. The exit code is 4 if one failed.")
@click.pass_obj
def command(context: CliContext, job_id: str, failed: bool, follow: bool) -> int:
    """Run elements of the sweep or array JOB_ID again, as one new array. An ID such as 29_3 names one element.

    They run the same code, each in its folder. The log and the result of the last run stay there, as log-29.txt and
    result-29.json. The last line on stdout is JSON.
    """
    from gpucluster.cli.frame import following
    from gpucluster.following import arrays
    from gpucluster.head.arrays import array_of
    from gpucluster.submission import again

    array, index = array_of(job_id)
    if index is None and not failed:
        one = f"`gpucluster resubmit {array}_3` runs element 3 again"
        raise UsageError(
            f"which elements of job {array}?",
            f"`gpucluster resubmit {array} --failed` runs all that failed again, {one}",
        )
    if index is not None and failed:
        raise UsageError(f"{job_id} is one element, and --failed chooses among all of them", "give only one of the two")
    with head(context) as remote:
        arrays.require(remote, array)
        found = arrays.elements(remote, array)
        indexes = again.chosen(array, found, index)
        if not indexes:
            following.tell(f"no element of job {array} has failed")
            click.echo(json.dumps({"job_id": None, "elements": []}))
            return 0
        submitted = again.submit(remote, context.layout(), array, indexes, os.environ)
        what = f"{len(indexes)} element{'s' * (len(indexes) > 1)} of job {array}"
        following.tell(f"job {submitted.job_id} submitted: {what} again")
        line = {"job_id": submitted.job_id, "folder": submitted.folder, "elements": list(indexes)}
        following.finish(remote, submitted.job_id, line, to_end=follow)
    return 0

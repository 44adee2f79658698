"""SageMaker's API for training jobs; moto serves its other actions."""

from __future__ import annotations

import json
import re
from typing import Any

import moto.sagemaker.urls
from moto.core.responses import ActionResult, EmptyResult
from moto.sagemaker.responses import SageMakerResponse

from localcloud.clients import ACCOUNT_ID
from localcloud.runtime import bound
from localcloud.training import jobs, listing, refusals, run
from localcloud.training.jobs import Job
from localcloud.training.site import Site
from localcloud.validation.refusal import Refusal

_ARN = re.compile(r"arn:aws:sagemaker:([a-z0-9-]+):\d+:training-job/(.+)")


class Training(SageMakerResponse):
    site: Site
    jobs: list[Job]

    def create_training_job(self) -> ActionResult:
        request = self._request()
        arn = f"arn:aws:sagemaker:{self.region}:{ACCOUNT_ID}:training-job/{request['TrainingJobName']}"
        job = Job(request, self.region, arn, list(request.get("Tags") or []))
        refusals.check(self.site, self.jobs, job)
        self.jobs.append(job)
        run.start(self.site, job)
        return ActionResult({"TrainingJobArn": arn})

    def describe_training_job(self) -> ActionResult:
        return ActionResult(jobs.described(self._job()))

    def list_training_jobs(self) -> ActionResult:
        found, token = listing.page((job for job in self.jobs if job.region == self.region), self._request())
        answer: dict[str, Any] = {"TrainingJobSummaries": [jobs.summary(job) for job in found]}
        return ActionResult(answer | ({"NextToken": token} if token else {}))

    def stop_training_job(self) -> EmptyResult:
        """awslabs/benchmark-ai#928 has the refusal."""
        job = self._job()
        if job.finished:
            words = f"The request was rejected because the training job is in status {job.status}."
            raise Refusal("ValidationException", words)
        job.stop()
        return EmptyResult()

    def add_tags(self) -> ActionResult:
        job = self._tagged()
        if job is None:
            return super().add_tags()
        given = {tag["Key"]: tag["Value"] for tag in (*job.tags, *self._request().get("Tags", []))}
        job.tags = [{"Key": key, "Value": value} for key, value in given.items()]
        return ActionResult({"Tags": job.tags})

    def list_tags(self) -> ActionResult:
        job = self._tagged()
        return super().list_tags() if job is None else ActionResult({"Tags": job.tags})

    def delete_tags(self) -> EmptyResult:
        job = self._tagged()
        if job is None:
            super().delete_tags()
            return EmptyResult()
        job.tags = [tag for tag in job.tags if tag["Key"] not in self._request().get("TagKeys", [])]
        return EmptyResult()

    def _request(self) -> dict[str, Any]:
        asked: dict[str, Any] = json.loads(self.body)
        return asked

    def _job(self) -> Job:
        """aws/aws-sdk#165: a ValidationException, whatever the model says."""
        found = self._named(self.region, str(self._request()["TrainingJobName"]))
        if found is None:
            raise Refusal("ValidationException", "Requested resource not found.")
        return found

    def _tagged(self) -> Job | None:
        match = _ARN.fullmatch(str(self._request().get("ResourceArn")))
        if match is None:
            return None
        found = self._named(match[1], match[2])
        if found is None:
            raise Refusal("ValidationException", "Requested resource not found.")
        return found

    def _named(self, region: str, name: str) -> Job | None:
        return next((job for job in self.jobs if (job.region, job.name) == (region, name)), None)


def install(site: Site) -> None:
    moto.sagemaker.urls.url_paths["{0}/$"] = bound(Training, site=site, jobs=[]).dispatch

"""The life of a training job: a thread that prepares its hosts, starts them, watches them and keeps what they wrote."""

from __future__ import annotations

import threading
import traceback
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from localcloud import clients
from localcloud.training import data, logs, store
from localcloud.training.attempt import Attempt, Outcome
from localcloud.training.jobs import Job
from localcloud.training.site import Site

_WORDS = {
    "runtime": ("MaxRuntimeExceeded", "Training job runtime exceeded MaxRuntimeInSeconds provided"),
    "wait": ("MaxWaitTimeExceeded", "Training job wait time exceeded MaxWaitTimeInSeconds provided"),
    "stop": ("Stopped", "Training job stopped"),
}


def start(site: Site, job: Job) -> None:
    job.move("Starting", "Starting the training job")
    threading.Thread(target=Run(site, job).live, name=f"training-{job.name}", daemon=True).start()


class Run:
    def __init__(self, site: Site, job: Job) -> None:
        self._site, self._job = site, job
        self._folder = site.folder() / job.region / job.name
        self._path = site.grants.give(str(job.request["RoleArn"]))

    def live(self) -> None:
        job = self._job
        try:
            self._run()
        except data.Unreadable as error:
            job.finish("Failed", "Failed", "Training job failed", f"ClientError: {error}")
        except (ClientError, BotoCoreError) as error:
            job.finish("Failed", "Failed", "Training job failed", f"ClientError: {error}")
        except Exception as error:  # noqa: BLE001 - the thread is the job's: its user must hear of its end
            traceback.print_exc()
            reason = f"InternalServerError: We encountered an internal error. Please try again. {error}"
            job.finish("Failed", "Failed", "Training job failed", reason)
        finally:
            self._site.grants.take(self._path)
            store.remove(self._folder)

    def _client(self, service: str) -> Any:
        found = self._site.grants.of(str(self._job.request["RoleArn"]))
        if found is None:
            raise data.Unreadable(f"SageMaker was unable to assume the role '{self._job.request['RoleArn']}'")
        keys = found.access_key_id, found.secret_access_key, found.session_token
        return clients.client_of(service, self._job.region, *keys)

    def _run(self) -> None:
        number = 0
        kept = store.Store(self._client)
        metrics = logs.Metrics(self._client("cloudwatch"), self._job)
        logged = self._client("logs")
        while True:
            attempt = Attempt(self._site, self._job, self._folder / str(number), self._path, kept, logged, metrics)
            outcome = attempt.run()
            if outcome.why != "interrupted":
                break
            attempt.discard()
            self._job.move("Interrupted", "Training job interrupted by a loss of Spot capacity")
            number += 1
        self._finish(attempt, outcome)

    def _finish(self, attempt: Attempt, outcome: Outcome) -> None:
        job = self._job
        if outcome.why == "failed":
            attempt.upload(model=False)
            job.finish("Failed", "Failed", "Training job failed", outcome.reason)
        else:
            job.move("Uploading", "Uploading generated training model")
            attempt.upload(model=True)
            if outcome.why:
                job.finish("Stopped", *_WORDS[outcome.why])
            else:
                job.finish("Completed", "Completed", "Training job completed")
        attempt.discard()

"""A prefix of a bucket as a location. boto3 is imported on first use, and finds credentials in its usual places."""

from __future__ import annotations

import io
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from gpucluster.addresses import S3Uri
from gpucluster.data.disk import Content, scratch_folder
from gpucluster.errors import AwsError, GpuClusterError, UsageError

Answer = TypeVar("Answer")
AT_ONCE = 16
"""Requests of one process: each waits tens of milliseconds for its first byte."""
PAUSES_S = (0.2, 1.0, 3.0)
"""Before an object whose bytes stopped coming is requested again."""
_ABSENT = ("404", "NoSuchKey", "NotFound")
_DENIED = ("403", "AccessDenied", "Forbidden")


class Denied(AwsError):
    """Access is denied, and a retry will not help."""


class Prefix:
    def __init__(self, uri: S3Uri) -> None:
        """Raises UsageError."""
        if not uri.bucket:
            raise UsageError(f"{uri}: has no bucket", "s3://BUCKET/PREFIX")
        self._bucket, self._folder, self.url = uri.bucket, uri.folder, str(uri)

    @property
    def address(self) -> str:
        return self.url

    @property
    def _client(self) -> Any:
        with _errors(self.url):
            return _client()

    def _key(self, name: str) -> str:
        """With an empty `name`: the prefix of all keys."""
        return f"{self._folder}{name}"

    def listed(self) -> Iterator[str]:
        found = False
        for name, _ in self._below(""):
            found = True
            yield name
        if not found:
            raise UsageError(
                f"{self.url}: no object has this prefix",
                f"`aws s3 ls {self.url}/` lists the prefix, which ends at a slash",
            )

    def _below(self, folder: str, **options: str) -> Iterator[tuple[str, int]]:
        """Name and size."""
        start, root = self._key(f"{folder}/" if folder else ""), len(self._key(""))
        with _errors(self.url):
            pages = self._client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self._bucket, Prefix=start, **options):
                found = ((each["Key"], each["Size"]) for each in page.get("Contents", ()))
                yield from ((key[root:], size) for key, size in found if not key.endswith("/"))

    def sizes(self, folder: str = "") -> dict[str, int]:
        return {name.rpartition("/")[2]: size for name, size in self._below(folder, Delimiter="/")}

    def contents(self, names: Iterable[str]) -> Iterator[Content]:
        waiting: deque[Future[Content]] = deque()
        _ = self._client  # before there are threads, which must not create it at the same time
        with ThreadPoolExecutor(AT_ONCE) as pool:
            try:
                for name in names:
                    waiting.append(pool.submit(self._content, name))
                    if len(waiting) == AT_ONCE:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _content(self, name: str) -> Content:
        try:
            found = self.read(name)
        except Denied as error:
            return error
        return AwsError(f"cannot read {name}: no such object") if found is None else found

    def read(self, name: str) -> bytes | None:
        return self._unless_absent(name, lambda: self._body(name))

    def part(self, name: str, start: int, end: int) -> bytes:
        with _errors(f"{self.url}/{name}"):
            return self._body(name, Range=f"bytes={start}-{end - 1}")

    def _body(self, name: str, **options: str) -> bytes:
        """boto3 retries a request without an answer, but not an interrupted answer."""
        from botocore.exceptions import HTTPClientError, IncompleteReadError
        from urllib3.exceptions import HTTPError

        broken = ""
        for pause_s in (0.0, *PAUSES_S):
            time.sleep(pause_s)
            body = self._client.get_object(Bucket=self._bucket, Key=self._key(name), **options)["Body"]
            try:
                return cast(bytes, body.read())
            except (HTTPClientError, IncompleteReadError, HTTPError, OSError) as error:
                broken = str(error) or type(error).__name__
        hint = "check the network, and run the same command again: complete shards are kept"
        raise AwsError(f"{self.url}/{name}: GetObject was interrupted {len(PAUSES_S) + 1} times: {broken}", hint)

    def opened(self, name: str) -> BinaryIO:
        """Completely in memory: shards are read once, from start to end."""
        content = self.read(name)
        if content is None:
            raise AwsError(f"cannot read {self.url}/{name}: no such object")
        return io.BytesIO(content)

    def _unless_absent(self, name: str, ask: Callable[[], Answer]) -> Answer | None:
        from botocore.exceptions import ClientError

        with _errors(f"{self.url}/{name}"):
            try:
                return ask()
            except UnicodeEncodeError:  # a name from a disk or a list that is not UTF-8: no key is
                return None
            except ClientError as error:
                if _code(error) in _ABSENT or (_code(error) in _DENIED and self._lists_without(self._key(name))):
                    return None
                raise

    def _lists_without(self, key: str) -> bool:
        """S3 answers 403 for a missing object to callers that may not list the bucket. Jobs may list only prefixes."""
        from botocore.exceptions import ClientError

        try:
            page = self._client.list_objects_v2(Bucket=self._bucket, Prefix=key, MaxKeys=1)
        except ClientError:
            return False
        return all(each["Key"] != key for each in page.get("Contents", ()))

    def write(self, name: str, content: bytes) -> None:
        with _errors(f"{self.url}/{name}"):
            self._client.put_object(Bucket=self._bucket, Key=self._key(name), Body=content)

    def workshop(self) -> Path:
        return scratch_folder()

    def adopt(self, name: str, file: Path) -> None:
        with _errors(f"{self.url}/{name}"), open(file, "rb") as content:
            self._client.upload_fileobj(content, self._bucket, self._key(name))
        file.unlink()

    def remove(self, names: Iterable[str]) -> None:
        with _errors(self.url):
            for name in names:
                self._client.delete_object(Bucket=self._bucket, Key=self._key(name))

    def clear(self, folder: str) -> None:
        self.remove([name for name, _ in self._below(folder)])

    def inner(self, folder: str) -> Prefix:
        return Prefix(S3Uri(self._bucket, self._key(folder))) if folder else self


@cache
def _client() -> Any:
    """One per process: creating a client takes longer than a small request."""
    try:
        import boto3
        from botocore.config import Config
    except ImportError:
        raise UsageError("S3 needs boto3, which this Python does not have", "pip install boto3") from None
    settings = Config(max_pool_connections=AT_ONCE, retries={"mode": "standard", "max_attempts": 5})
    return boto3.client("s3", config=settings)


@contextmanager
def _errors(what: str) -> Iterator[None]:
    """Translates botocore's exceptions into ours."""
    try:
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError
    except ImportError:
        _client()
        raise
    try:
        yield
    except ClientError as error:
        raise _refused(what, error) from None
    except NoCredentialsError:
        raise AwsError(f"{what}: no AWS credentials", "run `aws configure`, or set AWS_PROFILE") from None
    except BotoCoreError as error:
        raise AwsError(f"{what}: {error}", "`aws sts get-caller-identity` says who you are") from None


def _refused(what: str, error: Any) -> GpuClusterError:
    code, message = _code(error), error.response.get("Error", {}).get("Message", "")
    if code == "NoSuchBucket":
        return UsageError(f"{what}: the bucket does not exist")
    if code in _DENIED:
        hint = (
            "in a job, s3_access in cluster.yaml must name the bucket; elsewhere your AWS identity needs the permission"
        )
        return Denied(f"{what}: access denied ({error.operation_name})", hint)
    return AwsError(f"{what}: {error.operation_name}: {code}: {message}")


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", "unknown"))

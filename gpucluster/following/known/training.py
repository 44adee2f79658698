"""Training jobs of SageMaker: what its API says of them, and what only happens there.

What a rank's own error means is in the other files: `gpucluster.sagemaker.following.explain` tries those first.
"""

from __future__ import annotations

from gpucluster.following.known.cause import Cause

_MODEL = "botocore: sagemaker, DescribeTrainingJob and SecondaryStatusTransition"
_ROLE = "let the role_arn of sagemaker.yaml"

WAITING = (
    Cause(
        "sagemaker-no-capacity",
        "pending",
        "StatusMessage",
        r"Insufficient capacity error from EC2 while launching instances",
        "EC2 has no instances of this type now, and SageMaker tries again",
        "another `--instance-type`, fewer nodes, or another region; waiting costs nothing",
        _MODEL,
    ),
    Cause(
        "sagemaker-unhealthy",
        "pending",
        "StatusMessage",
        r"Launched instance was unhealthy",
        "an instance was broken, and SageMaker replaces it",
        "nothing: this costs nothing but time",
        _MODEL,
    ),
    Cause(
        "sagemaker-pending",
        "pending",
        "SecondaryStatus",
        r"^Pending for (?P<seconds>\d+) s",
        "SageMaker has waited {seconds} s for capacity",
        "another `--instance-type`, fewer nodes, or another region; waiting costs nothing",
        _MODEL,
    ),
    Cause(
        "sagemaker-starts-long",
        "pending",
        "SecondaryStatus",
        r"^Starting for (?P<seconds>[6-9]\d\d|\d{4,}) s",
        "it has started its instances for {seconds} s, which takes 2 to 4 minutes usually: AWS lacks capacity, or the "
        "VPC keeps the instances from AWS",
        "in a VPC, check that the subnets reach S3 and CloudWatch, by NAT or endpoints, and have free addresses; "
        "otherwise another `--instance-type` or region",
        "https://github.com/aws/amazon-sagemaker-examples/issues/842 (usual times)",
    ),
    Cause(
        "sagemaker-interrupted",
        "pending",
        "SecondaryStatus",
        r"^Interrupted for (?P<seconds>\d+) s",
        "EC2 took its spot instances back {seconds} s ago, and SageMaker waits for others",
        "nothing: it continues with the task's state; `max_wait` in sagemaker.yaml limits the waiting",
        _MODEL,
    ),
)

ENDED = (
    Cause(
        "sagemaker-time-limit",
        "dead",
        "SecondaryStatus",
        r"^MaxRuntimeExceeded",
        "it reached its time limit: SageMaker sent SIGTERM, and killed it 120 s later",
        "raise `time`, up to 28 days; a job with a name continues from its state",
        _MODEL,
    ),
    Cause(
        "sagemaker-max-wait",
        "dead",
        "SecondaryStatus",
        r"^MaxWaitTimeExceeded",
        "waiting for spot instances and running took longer than `max_wait`",
        "raise `max_wait` in sagemaker.yaml, or set `spot: false`",
        _MODEL,
    ),
    Cause(
        "sagemaker-capacity",
        "dead",
        "FailureReason",
        r"^CapacityError|Unable to provision requested ML compute capacity",
        "AWS had none of these instances",
        "submit it again later, or with another `--instance-type` or region",
        "https://github.com/DIAGNijmegen/rse-grand-challenge/issues/2631",
    ),
    Cause(
        "sagemaker-data-denied",
        "dead",
        "FailureReason",
        r"Data download failed: ?.*(AccessDenied|Access Denied|Forbidden|403)",
        "the job's role may not read its data",
        f"{_ROLE} read the bucket, and decrypt with its KMS key if it has one",
        "https://github.com/aws/amazon-sagemaker-examples/issues/4384",
    ),
    Cause(
        "sagemaker-data-disk",
        "dead",
        "FailureReason",
        r"Data download failed: ?Insufficient disk space",
        "the data of the channels with `mode: copy` does not fit on a host's volume",
        "raise `volume_gb` in sagemaker.yaml, or leave out `mode: copy`: FastFile copies nothing",
        "https://github.com/aws/sagemaker-python-sdk/issues/128",
    ),
    Cause(
        "sagemaker-key-slashes",
        "dead",
        "FailureReason",
        r"illegal char sub-sequence '//' in it",
        "an object has // in its key, which SageMaker cannot read",
        "rename the object",
        "https://github.com/aws-samples/generative-ai-on-amazon-sagemaker/issues/242",
    ),
    Cause(
        "sagemaker-image",
        "dead",
        "FailureReason",
        r"Cannot pull algorithm container",
        "the image does not exist, or the job's role may not pull it",
        f"check `image` in sagemaker.yaml, and {_ROLE} pull it from ECR",
        "https://github.com/aws/sagemaker-python-sdk/issues/1968",
    ),
    Cause(
        "sagemaker-role",
        "dead",
        "FailureReason",
        r"unable to perform: sts:AssumeRole",
        "SageMaker may not use the job's role",
        f"{_ROLE} trust sagemaker.amazonaws.com",
        "https://github.com/astronomer/docs/pull/1695",
    ),
    Cause(
        "sagemaker-pipe-unread",
        "dead",
        "FailureReason",
        r"SageMaker pipe channel timed out",
        "no rank read one of the Pipe channels",
        "read each FIFO to its end in each epoch; `per: local-rank` in sagemaker.yaml makes none that nobody reads; "
        "FastFile needs no FIFOs",
        "https://github.com/aws/amazon-sagemaker-examples/issues/1316",
    ),
    Cause(
        "sagemaker-no-pipe",
        "dead",
        "FailureReason",
        r"PipeModeDataset must be used with SageMaker Pipe Mode",
        "the program reads a channel with PipeModeDataset, which is no Pipe",
        "set `mode: Pipe` for the channel in sagemaker.yaml",
        "sagemaker-tensorflow-extensions: src/pipemode_op/Dataset",
    ),
    Cause(
        "sagemaker-shm",
        "dead",
        "FailureReason",
        r"killed by signal: Bus error|insufficient shared memory \(shm\)",
        "/dev/shm is full: the loader's workers pass batches through it, and SageMaker lets nobody enlarge it",
        "fewer workers (`num_workers`), or smaller batches",
        "https://github.com/aws/sagemaker-python-sdk/issues/5592",
    ),
    Cause(
        "sagemaker-killed",
        "dead",
        "FailureReason",
        r"^AlgorithmError: (, )?[Ee]xit [Cc]ode: 137",
        "the container was killed, mostly because memory ran out",
        "lower `num_workers` and what each rank keeps in memory, or take a larger instance type; `gpucluster metrics "
        "{job} memory_gib` shows its memory",
        "https://github.com/aws/sagemaker-python-sdk/issues/134",
    ),
    Cause(
        "sagemaker-crashed",
        "dead",
        "FailureReason",
        r"^AlgorithmError: (, )?[Ee]xit [Cc]ode: (139|134)",
        "the container's program crashed in native code",
        "look at the end of the log; a library that does not fit the image's CUDA is the usual reason",
        "https://github.com/aws/sagemaker-python-sdk/issues/134",
    ),
    Cause(
        "sagemaker-lost-host",
        "dead",
        "training log",
        r"ORTE has lost communication with a remote daemon",
        "mpirun lost a host: its container ended first",
        "look at that host's lines: its program ended, or AWS's toolkit ended before the others",
        "https://github.com/aws/sagemaker-training-toolkit/issues/145",
    ),
    Cause(
        "sagemaker-user-script",
        "dead",
        "FailureReason",
        r"^AlgorithmError: ExecuteUserScriptError",
        "the program failed, and AWS's toolkit reports it",
        "its own error is at the end of the log",
        "https://github.com/aws/amazon-sagemaker-examples/issues/3444",
    ),
    Cause(
        "sagemaker-toolkit",
        "dead",
        "FailureReason",
        r"^AlgorithmError: framework error",
        "AWS's toolkit failed before it started the program",
        "look at the end of the log: mostly the archive with the code, or requirements.txt",
        "https://github.com/aws/amazon-sagemaker-examples/issues/1224",
    ),
    Cause(
        "sagemaker-internal",
        "dead",
        "FailureReason",
        r"^InternalServerError",
        "SageMaker failed, and not the job",
        "submit it again; if it fails again, give AWS's support the job's name",
        "https://github.com/aws/sagemaker-python-sdk/issues/70",
    ),
)

STALLED = (
    Cause(
        "sagemaker-stalled-pipe",
        "hung",
        "training log",
        r"Stalled ranks:|\[missing ranks: [\d, ]+\]",
        "Horovod's ranks wait for each other, and this job reads Pipes: ranks that share a FIFO get different numbers "
        "of batches",
        "a channel for each rank, which `per: local-rank` in sagemaker.yaml makes; equal numbers of batches in all "
        "ranks; or FastFile",
        "https://github.com/horovod/horovod/issues/1442, https://github.com/horovod/horovod/issues/600",
    ),
)

TRAINING = (*WAITING, *ENDED, *STALLED)

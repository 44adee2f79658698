"""`python -m gpucluster.cli`, if the console script is not installed."""

from __future__ import annotations

import sys

from gpucluster.cli import main

sys.exit(main())

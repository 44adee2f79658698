from __future__ import annotations

from validator_cases.case import Case, partition

CASES = {
    "efa-mode": Case(
        fails=partition(efa="eaf"),
        key="partitions[0].efa",
        says="must be auto, required or off, got 'eaf'",
        passes=partition(efa="auto"),
    ),
    "efa-required-needs-efa-types": Case(
        fails=partition(instance_types=["g5.xlarge"], efa="required"),
        key="partitions[0].efa",
        says="'required' needs types with EFA interfaces, and g5.xlarge has none",
        passes=partition(efa="required"),
    ),
}

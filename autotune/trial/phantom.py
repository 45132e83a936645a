"""The phantom GPU: what an interpreter without a GPU needs so that scripts run on one that is not there."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.allocator.devices import Card
from autotune.allocator.native.build import stand_in_environment
from autotune.errors import UsageError
from autotune.trial.facts import Facts
from autotune.units import GIB

CAPACITY_BYTES = 1 << 44
"""What the phantom GPU gives out, whatever it says it has: a replay tells what fits under which settings."""
DEFAULT = Card(name="GPU of 80 GiB", total_bytes=80 * GIB)
"""The GPU that an estimate is for where nobody says another; scripts may ask for its name and size."""


@dataclass(frozen=True, kw_only=True)
class Phantom:
    """A GPU that is not there."""

    card: Card

    @property
    def environment(self) -> dict[str, str]:
        """Variables of the process that is to see it.

        Raises:
            UsageError: the machine cannot build or use the stand-in for CUDA's runtime.
        """
        major, minor = self.card.capability
        return {
            **stand_in_environment(self.card.total_bytes),
            "STAND_IN_CAPACITY_BYTES": str(CAPACITY_BYTES),
            "STAND_IN_DEVICE_NAME": self.card.name,
            "STAND_IN_DEVICE_CAPABILITY": str(10 * major + minor),
            "STAND_IN_DEVICE_PROCESSORS": str(self.card.num_processors),
        }


def why_no_phantom(facts: Facts) -> str | None:
    """Why scripts cannot run on a phantom GPU in this interpreter, in words that can follow `because`."""
    if not facts.cuda_build or "+rocm" in (facts.torch or ""):
        return f"torch {facts.torch} is built without CUDA"
    try:
        stand_in_environment(GIB)
    except UsageError as error:
        return str(error).split(";")[0].rstrip(".").replace("--engine native", "a phantom GPU")
    return None

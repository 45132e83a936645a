"""Compare the model with PyTorch's own allocator on random programs, for as long as asked.

    python -m tests.referee.fuzz --minutes 60 [--seed N] [--python PATH]

`--python` names an interpreter whose torch shall be the judge; without it, this one's is. Ends with exit
status 1 at the first disagreement and prints it, shrunk, as a program for a unit test.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from concurrent.futures import Executor, ThreadPoolExecutor

import hypothesis
from hypothesis import HealthCheck, Phase

from autotune.allocator.native import Native
from autotune.allocator.parallel import usable_cores
from autotune.errors import AutotuneError
from autotune.measurement import Outcome
from tests.referee.cases import Case, cases
from tests.referee.referee import Disagreement, compare

PROGRAMS_PER_ROUND = 250


class Tally:
    """What has been compared so far."""

    def __init__(self) -> None:
        self.cases = self.ran_out = self.retried = self.operations = 0
        self.started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self.started

    def __str__(self) -> str:
        rate = self.cases / self.seconds
        return (
            f"{self.seconds / 60:6.1f} min  {self.cases:,} replays agree ({rate:.0f}/s), "
            f"{self.operations:,} rows; {self.ran_out:,} ran out of memory, {self.retried:,} retried"
        )


def fuzz_round(native: Native, executor: Executor, seed: int, tally: Tally, programs: int) -> None:
    """Some programs; a disagreement is raised once shrunk."""

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=programs, deadline=None, database=None, print_blob=False,
        phases=(Phase.generate, Phase.shrink), suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )  # fmt: skip
    @hypothesis.given(cases(native.torch_version))
    def agree(drawn: list[Case]) -> None:
        results = compare(drawn, native, executor)
        tally.cases += len(results)
        tally.operations += sum(result.operations for result in results)
        tally.ran_out += sum(result.outcome is Outcome.OUT_OF_MEMORY for result in results)
        tally.retried += sum(result.num_alloc_retries > 0 for result in results)

    agree()


def main() -> int:
    """Rounds of programs until the time is up."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None, help="repeat a run (default: random)")
    parser.add_argument("--python", default="", help="interpreter with the torch to compare with")
    arguments = parser.parse_args()
    seed = random.randrange(1 << 32) if arguments.seed is None else arguments.seed
    tally = Tally()
    try:
        with Native(arguments.python) as native, ThreadPoolExecutor(usable_cores()) as executor:
            version = ".".join(map(str, native.torch_version))
            print(f"The model against the allocator of torch {version}, from seed {seed}.", flush=True)
            while tally.seconds < arguments.minutes * 60:
                fuzz_round(native, executor, seed, tally, PROGRAMS_PER_ROUND)
                print(f"{tally}  (seed {seed})", flush=True)
                seed += 1
    except Disagreement as disagreement:
        print(f"\nDisagreement, in the round of seed {seed}:\n\n{disagreement}")
        return 1
    except AutotuneError as error:
        print(f"autotune: {error}", file=sys.stderr)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())

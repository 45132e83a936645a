"""How soon a search finds good settings: this one against plain Optuna, with replay in the GPU's place.

    python -m benchmarks.bench_search [--seeds N] [--screens N] [--long N] [--json] [TRACE …]

For each trace, with and without expandable segments, and under memory limits of 1.02 and 1.15 times the live
peak: trials, and GPU seconds, until a search has come within 1 % of the best known. Without a limit that is
the least peak reserved; under a limit, where fitting comes first, the program completes and loses to driver
calls at most 1 % of its run more than the best. The best known is the best of everything replayed here, a
long random search included. A trial takes the recorded run's time and a worker's start; this search pays for
its recording run too. Plain Optuna is a study of 60 trials in the same space, with no first trials of ours.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.samplers import BaseSampler, NSGAIISampler, RandomSampler, TPESampler

from autotune.allocator.parallel import usable_cores
from autotune.report.pace import Pace
from autotune.report.stored import Role
from autotune.settings import AllocatorSettings
from autotune.study.candidates import first_candidates
from autotune.study.finalists import finalists, in_order
from autotune.study.moves import Moves
from autotune.study.predict import Prediction, Predictor
from autotune.study.prepare import recorded_seconds
from autotune.study.screen import screen
from autotune.study.screening import SCREENED_SHARE
from autotune.study.space import SearchSpace
from autotune.study.split_sizes import split_sizes
from autotune.trace import Trace, load

DATA = Path(__file__).parents[1] / "tests" / "data"
TORCH = (2, 14)
TRIALS = 60
WITHIN = 0.01
START_SECONDS = 0.34
"""From forking a worker to the script's first line, measured on an H200."""
SCENARIOS: tuple[tuple[tuple[str, ...], float | None], ...] = (
    ((), None),
    (("expandable_segments",), None),
    ((), 1.02),
    (("expandable_segments",), 1.02),
    ((), 1.15),
    (("expandable_segments",), 1.15),
)
PLAIN: dict[str, Callable[[int], BaseSampler]] = {
    "TPE": lambda seed: TPESampler(seed=seed),
    "NSGA-II": lambda seed: NSGAIISampler(seed=seed),
    "random": lambda seed: RandomSampler(seed=seed),
}
OURS = "this search"


@dataclass(frozen=True, kw_only=True)
class Task:
    """One trace under one scenario."""

    trace: Trace
    predictor: Predictor
    space: SearchSpace
    plain_space: SearchSpace
    """Without what is known of the trace."""
    limited: bool

    @classmethod
    def of(cls, trace: Trace, without: tuple[str, ...], share: float | None) -> Task:
        """The task, its memory limit a multiple of the live peak."""
        roomy = Predictor(trace, torch_version=TORCH)
        live = roomy.predict(AllocatorSettings()).measurement.peak_requested_bytes or 0
        limit = None if share is None else int(share * live)
        predictor = Predictor(trace, torch_version=TORCH, memory_limit=limit)
        plain = SearchSpace(torch_version=TORCH, limited=limit is not None, without=frozenset(without))
        sizes = split_sizes(predictor, plain.lowest_split_mb)
        space = SearchSpace(
            torch_version=TORCH, limited=plain.limited, without=plain.without, split_sizes_mb=sizes
        )
        return cls(trace=trace, predictor=predictor, space=space, plain_space=plain, limited=plain.limited)

    def loss(self, found: Prediction) -> float:
        """What is to be small: bytes, or under a limit seconds; infinite where the program does not fit."""
        if not found.completes:
            return float("inf")
        return found.seconds if self.limited else float(found.memory)

    def good(self, best: float) -> float:
        """The loss up to which settings are as good as the best known."""
        return best + WITHIN * self.run_seconds if self.limited else best * (1 + WITHIN)

    @property
    def run_seconds(self) -> float:
        """Time of the recorded run."""
        return float(self.trace.time_us[-1] - self.trace.time_us[0]) / 1e6


def ours(task: Task, seed: int) -> list[float]:
    """Losses of the trials of this search, in order."""
    first = [one for one in first_candidates(task.space) if one.role is not Role.SAMPLED]
    anchors = [one.settings for one in first]
    screening = screen(task.predictor, task.space, anchors=anchors, seed=seed)
    members = finalists(task.predictor, task.space, screening, anchors=anchors)
    baseline = task.predictor.predict_many([one.settings for one in first if one.role is not Role.FOLKLORE])
    ordered = in_order(
        members,
        task.predictor.predict(AllocatorSettings()),
        tried={found.behaviour for found in baseline},
        limited=task.limited,
        pace=Pace(recorded_seconds=recorded_seconds(task.trace, 5)),
    )
    most = round(SCREENED_SHARE * TRIALS)
    tried = (*baseline, *ordered[:most], *task.predictor.predict_many(anchors))
    return [task.loss(found) for found in {found.behaviour: found for found in tried}.values()]


def plain(task: Task, sampler: BaseSampler) -> list[float]:
    """Losses of the trials of a plain Optuna study of the same three objectives."""
    study = optuna.create_study(directions=["minimize"] * 3, sampler=sampler)
    losses: list[float] = []
    slowest = 0.0
    for _ in range(TRIALS):
        trial = study.ask()
        found = task.predictor.predict(task.plain_space.suggest(trial))
        fits = found.completes
        slowest = max(slowest, found.seconds if fits else 0.0)
        trial.set_constraint("out_of_memory", 0.0 if fits else 1.0)
        values = (found.memory, found.measurement.fragmentation or 0.0, found.seconds)
        study.tell(trial, values if fits else (1e12, 1.0, slowest))
        losses.append(task.loss(found))
    return losses


def long_search(task: Task, count: int) -> float:
    """The least loss among so many random settings and their neighbours, which nothing else has chosen."""
    chance, moves = random.Random(12345), Moves.on(task.trace, task.space)
    drawn = [moves.drawn(chance) for _ in range(count)]
    stepped = [moves.neighbour(one, chance) if chance.random() < 0.5 else one for one in drawn]
    return min(task.loss(found) for found in task.predictor.predict_many(stepped))


def first_within(losses: Sequence[float], good: float) -> int | None:
    """Number of trials until a loss is good enough; None if none is."""
    return next((number for number, loss in enumerate(losses, start=1) if loss <= good), None)


def compare(name: str, task: Task, arguments: argparse.Namespace) -> dict[str, Any]:
    """Everything about one task."""
    started = time.perf_counter()
    found: dict[str, list[list[float]]] = {OURS: [ours(task, seed) for seed in range(arguments.screens)]}
    screening_seconds = (time.perf_counter() - started) / arguments.screens
    with ThreadPoolExecutor(usable_cores()) as pool:
        for method, make in PLAIN.items():
            runs = pool.map(lambda seed, make=make: plain(task, make(seed)), range(arguments.seeds))  # type: ignore[misc]
            found[method] = list(runs)
    random_best = long_search(task, arguments.long)
    best = min([random_best, *(min(losses) for runs in found.values() for losses in runs)])
    good, trial = task.good(best), task.run_seconds + START_SECONDS
    methods = {}
    for method, runs in found.items():
        needed = [first_within(losses, good) for losses in runs]
        counted = [number if number is not None else TRIALS for number in needed]
        extra = 1 if method == OURS else 0
        methods[method] = {
            "runs": len(runs),
            "reached": sum(number is not None for number in needed),
            "median_trials": statistics.median(counted),
            "median_gpu_seconds": (statistics.median(counted) + extra) * trial,
            "median_best": statistics.median(min(losses) for losses in runs),
            "worst_best": max(min(losses) for losses in runs),
        }
    return {
        "trace": name,
        "best": best,
        "long_random_best": random_best,
        "methods": methods,
        "screening_seconds": screening_seconds,
        "seconds": time.perf_counter() - started,
    }


def rows(report: dict[str, Any], scenario: str, *, limited: bool) -> Iterator[str]:
    """One line of the table."""
    if report["best"] == float("inf"):
        yield f"| {report['trace']} | {scenario} | nothing tried fits | | | | | | | |"
        return
    unit = (lambda loss: f"{loss * 1e3:.1f} ms") if limited else (lambda loss: f"{loss / 2**20:,.0f} MiB")
    methods = report["methods"]
    cells = []
    for method in (OURS, *PLAIN):
        one = methods[method]
        at_least = "≥ " if one["median_trials"] == TRIALS and one["reached"] * 2 <= one["runs"] else ""
        cells.append(f"{at_least}{one['median_trials']:g} ({one['reached']}/{one['runs']})")
    mine = methods[OURS]["median_gpu_seconds"]
    ratios = [f"{methods[method]['median_gpu_seconds'] / mine:.1f}" for method in PLAIN]
    worst = methods[OURS]["worst_best"]
    yield (
        f"| {report['trace']} | {scenario} | {unit(report['best'])} | {unit(worst)} | "
        f"{unit(report['long_random_best']) if report['long_random_best'] < float('inf') else 'none fits'} | "
        f"{' | '.join(cells)} | {' / '.join(ratios)} |"
    )


HEADER = (
    "| trace | scenario | best known | this search, worst run | long random search | "
    f"{OURS} | TPE | NSGA-II | random | GPU time TPE / NSGA-II / random over this search |\n"
    "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|"
)


def main() -> None:
    """Measure, and print each line of the table as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", nargs="*", type=Path, default=[DATA / "gan.npz", DATA / "gnn.npz"])
    parser.add_argument("--seeds", type=int, default=10, help="runs of each plain study (default 10)")
    parser.add_argument("--screens", type=int, default=10, help="runs of this search (default 10)")
    parser.add_argument("--long", type=int, default=5000, help="settings of the long search (default 5000)")
    parser.add_argument("--scenarios", default="123456", help="which of the six, by number (default all)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    if not arguments.json:
        print(HEADER, flush=True)
    for path in arguments.traces:
        trace = load(path)
        for without, share in (SCENARIOS[int(number) - 1] for number in arguments.scenarios):
            scenario = ("without expandable" if without else "all options") + (
                f", limit {share:g}" if share else ""
            )
            task = Task.of(trace, without, share)
            report = {"scenario": scenario, **compare(path.stem, task, arguments)}
            lines = [json.dumps(report)] if arguments.json else rows(report, scenario, limited=task.limited)
            print("\n".join(lines), flush=True)


if __name__ == "__main__":
    main()

"""What matters, in sentences that every rendering shares."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.allocator import Explanation
from autotune.report.matters import LeftOut, Matters, OptionEffect
from autotune.report.shortage import Shortage
from autotune.units import MIB, format_bytes, format_change, format_percent

WORTH_SAYING = 0.01
"""Bytes below this share of what is reserved are not worth a sentence."""


def shortage_sentences(found: Shortage) -> list[str]:
    """Where nothing fits: what is needed at least, with which settings, and what else helps."""
    live, limit = format_bytes(found.live_bytes), found.memory_limit_bytes
    said = [f"Live tensors alone take {live} at their peak, and no setting goes below that."]
    if limit is not None and limit < found.live_bytes:
        said = [f"Live tensors alone take {live} at their peak, more than the limit: no setting can help."]
    if found.fits:
        said.append(_least_fit(found))
    if found.cut_short:
        said.append("The recorded run itself ran out of memory, so the whole of it needs more than this.")
    said.append(
        "What needs less memory is another script: smaller batches, activation checkpointing, fewer copies."
    )
    return said


def _least_fit(found: Shortage) -> str:
    best = found.fits[0]
    size = best.smallest_fit_bytes
    among = f"of the {len(found.fits)} settings looked at" if len(found.fits) > 1 else "of what was looked at"
    others = [one for one in found.fits[1:] if one.settings in ("", "expandable_segments:True")]
    beside = "".join(
        f", {format_bytes(one.smallest_fit_bytes)} with {one.settings or 'the defaults'}" for one in others
    )
    begin = (
        f"By replay it completes in {format_bytes(size)} with {best.settings or 'the defaults'}, the least "
        f"{among}{beside}"
    )
    if found.memory_limit_bytes is None:
        return f"{begin}: that much has to be free on the GPU."
    return (
        f"{begin}: give --memory-limit {-(-size // MIB)}MiB or more; a search with that limit may find "
        "settings that need less."
    )


def sentences(matters: Matters) -> list[str]:
    """Everything there is to say, in order: what is left to gain, each option's part, idle options."""
    return [gap_sentence(matters), *_causes(matters), *_left_out(matters), *_idle(matters)]


def gap_sentence(matters: Matters) -> str:
    """How far the recommended settings are from what no setting can beat."""
    gap = matters.tuned_reserved_bytes - matters.live_bytes
    share = gap / matters.tuned_reserved_bytes if matters.tuned_reserved_bytes else 0.0
    left = f"{format_bytes(max(gap, 0))} ({format_percent(max(share, 0.0))})"
    return (
        f"Live tensors alone take {format_bytes(matters.live_bytes)} at their peak, and no setting goes "
        f"below that: {left} are left to gain, in bytes as requested (fragmentation counts "
        "them rounded up). Less than that needs a change of the script: smaller batches, activation "
        "checkpointing, fewer copies."
    )


def _causes(matters: Matters) -> Iterator[str]:
    """What makes up the rest, where it is worth a sentence, and what would close it."""
    found = matters.at_peak
    least = WORTH_SAYING * found.peak_reserved_bytes
    if found.total("rounding_bytes") > least:
        yield (
            f"Rounding, and rests too small to split off, take "
            f"{format_bytes(found.total('rounding_bytes'))} at the peak."
        )
    if found.total("split_remainder_bytes") > least:
        yield _pinned(found, matters.num_operations)
    if found.total("cached_bytes") > least:
        yield (
            f"{format_bytes(found.total('cached_bytes'))} lie in whole cached segments at the peak; "
            "torch.cuda.empty_cache() between phases that allocate differently (training, evaluation) gives "
            "such memory back, at the price of allocating it again."
        )
    if found.total("page_rounding_bytes") > least:
        yield (f"{format_bytes(found.total('page_rounding_bytes'))} lie in pages that are partly in use.")
    streams = {share.stream for share in found.shares if share.reserved_bytes > least}
    if len(streams) > 1:
        yield f"{len(streams)} streams each keep memory of their own; blocks freed on one serve no other."


def _pinned(found: Explanation, num_operations: int) -> str:
    lost = format_bytes(found.total("split_remainder_bytes"))
    text = f"{lost} are free beside live blocks, which keep their segments from being given back"
    if not found.pinned_segments:
        return f"{text}."
    worst = found.pinned_segments[0]
    return (
        f"{text}; most beside one of {format_bytes(worst.block_bytes)}, alive since operation "
        f"{worst.since_operation:,} of {num_operations:,}. Allocating what lives long before what lives "
        "short keeps them apart."
    )


def _left_out(matters: Matters) -> Iterator[str]:
    for one in matters.left_out:
        yield _left_out_sentence(one, matters.tuned_reserved_bytes)


def _left_out_sentence(one: LeftOut, tuned: int) -> str:
    if one.peak_reserved_bytes is None or one.change_bytes is None:
        return f"Without {one.option} the recommended settings run out of memory."
    if one.same_behaviour:
        return f"Without {one.option} nothing would be different."
    if abs(one.change_bytes) < 2 * MIB:
        return f"Without {one.option} peak reserved would be the same, but not the calls to the driver."
    return (
        f"Without {one.option} peak reserved would be {format_bytes(one.peak_reserved_bytes)} "
        f"({format_change(one.peak_reserved_bytes, tuned)})."
    )


def _idle(matters: Matters) -> Iterator[str]:
    for one in matters.options:
        if not one.changes_something:
            yield f"{one.option} changes nothing here: {_why(one)}."


def _why(one: OptionEffect) -> str:
    return one.reason or "every value tried gives the same driver calls and the same peaks"

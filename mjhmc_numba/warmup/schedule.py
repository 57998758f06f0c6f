"""The schedule of a warm-up, as data: windows of draws, each ending in a new metric."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["FIRST_WINDOW", "FINAL_SHARE", "Window", "windows"]

# Windows that grow twofold are Stan's; each ends in linear algebra, so that few are better.
FIRST_WINDOW = 10  # draws
GROWTH = 2.0  # factor from one window to the next
FINAL_SHARE = 0.12  # of the draws: in this last part only the step size is tuned


class Window(NamedTuple):
    """`draws` with one metric. The final window is not followed by a new one."""

    draws: int
    is_final: bool = False


def windows(tune: int) -> list[Window]:
    """Windows that add up to `tune` draws."""
    if tune <= 0:
        return []
    final = max(1, round(FINAL_SHARE * tune))
    left, size, plan = tune - final, float(FIRST_WINDOW), []
    while left > 0:
        draws = min(int(size), left)
        # A last short window would tell less than the one before: join the two.
        if left - draws < draws:
            draws = left
        plan.append(Window(draws))
        left -= draws
        size *= GROWTH
    return [*plan, Window(final, is_final=True)]

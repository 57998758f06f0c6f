"""Calls on an executor: sent once per worker, watched, made again when a worker dies."""

from mjhmc_numba.executors.calls import CANCELLED, Calls, check_executor
from mjhmc_numba.executors.reports import Reports, reporting
from mjhmc_numba.executors.shipping import Shipped

__all__ = ["CANCELLED", "Calls", "Reports", "Shipped", "check_executor", "reporting"]

"""Batteries of checks for authors of methods, problems and tasks."""

from bome.testing.beds import Make, maker
from bome.testing.hypergradient_report import HypergradReport
from bome.testing.hypergradients import hypergradcheck
from bome.testing.method_checks import METHOD_CHECKS, MethodCheck, check_method, run_check
from bome.testing.problem_checks import PROBLEM_CHECKS, ProblemCheck, check_problem, second_order_possible
from bome.testing.task_checks import TASK_CHECKS, TaskCheck, TaskFunction, check_task

__all__ = [
    "METHOD_CHECKS",
    "PROBLEM_CHECKS",
    "TASK_CHECKS",
    "HypergradReport",
    "Make",
    "MethodCheck",
    "ProblemCheck",
    "TaskCheck",
    "TaskFunction",
    "check_method",
    "check_problem",
    "check_task",
    "hypergradcheck",
    "maker",
    "run_check",
    "second_order_possible",
]

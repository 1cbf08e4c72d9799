"""Plans: which of the settings counts, what gradient descent they make, and what is refused."""

import pytest
import torch

from bome.errors import ProblemError, UnsupportedError
from bome.methods import AIDCG, BOME, InnerMap
from bome.runs.plan import parse_settings, plan, variants
from bome.tasks import lls


def test_settings_given_as_text_become_what_their_types_want() -> None:
    given = {"steps": "1e1", "eta": "0.25", "outer_lr": 1, "start": "a"}
    values = parse_settings("lls", "bome", given)
    assert values == {"steps": 10, "eta": 0.25, "outer_lr": 1.0, "start": "a"}
    assert [type(value) for value in values.values()] == [int, float, float, str]


def test_what_is_given_counts_before_the_variant_and_that_before_the_usual_settings_of_the_task() -> None:
    usual, fixed = lls().settings, dict(BOME.variants["published"])
    assert plan("lls").settings == usual
    assert plan("lls", "bome", {"steps": 7}).settings.steps == 7
    published = plan("lls", "bome:published").method
    assert all(getattr(published, key) == value for key, value in fixed.items() if hasattr(published, key))
    changed = plan("lls", "bome:published", {"eta": 0.125}).method
    assert isinstance(changed, BOME)
    assert changed.eta == 0.125


def test_the_inner_map_of_a_method_is_made_from_the_settings() -> None:
    method = plan("quadratic", "aid-cg", {"inner_steps": 3, "inner_lr": 0.25}).method
    assert isinstance(method, AIDCG)
    assert isinstance(method.inner, InnerMap)
    assert (method.inner.steps, method.inner.lr) == (3, 0.25)  # type: ignore[attr-defined]


def test_only_the_variant_auto_has_a_tuner() -> None:
    assert "auto" in variants("bome")
    assert [plan("lls", name).tuner is not None for name in ("bome", "bome:auto", "bome:fresh")] == [False, True, False]


def test_step_sizes_decay_like_one_over_the_square_root_after_the_first_steps() -> None:
    """With decay D the step size at step k is that of the start times min(1, √(D/(k+1)))."""
    job = plan("lls", "bome", {"decay": 4, "outer_lr": 0.5})
    outer_opt, _, schedulers = job.optimisers()
    rates = []
    for _ in range(16):
        rates.append(outer_opt.param_groups[0]["lr"])
        outer_opt.step()
        schedulers[0].step()
    assert rates == pytest.approx([0.5 * min(1, (4 / (k + 1)) ** 0.5) for k in range(16)])
    assert plan("lls", "bome", {"decay": 0}).optimisers().schedulers == []


def test_optimisers_move_the_variables_of_the_task_with_its_step_sizes() -> None:
    job = plan("lls", "bome", {"outer_lr": 0.5, "theta_lr": 0.25, "momentum": 0.5})
    outer_opt, inner_opt, _ = job.optimisers()
    groups = [optimiser.param_groups[0] for optimiser in (outer_opt, inner_opt)]
    assert [(group["lr"], group["momentum"]) for group in groups] == [(0.5, 0.5), (0.25, 0.5)]
    for group, leaves in zip(groups, job.task.problem.point, strict=True):
        assert [x.data_ptr() for x in group["params"]] == [x.data_ptr() for x in leaves]


def test_the_seed_reaches_the_task() -> None:
    starts = [plan("hyperclean-digits", "bome", {}, seed).task.problem.point.theta[0].clone() for seed in (0, 0, 1)]
    assert torch.equal(starts[0], starts[1])
    assert not torch.equal(starts[0], starts[2])


@pytest.mark.parametrize(
    ("task", "method", "given", "message"),
    [
        ("lsl", "bome", {}, "unknown task 'lsl'; did you mean 'lls'"),
        ("lls", "bohm", {}, "unknown method 'bohm'; did you mean 'bome'"),
        ("lls", "bome:frehs", {}, "unknown variant of bome 'frehs'; did you mean 'fresh'"),
        ("lls", "bome", {"etta": 1}, "unknown setting 'etta'; did you mean 'eta'"),
        ("lls", "bome", {"inner": 1}, "unknown setting 'inner'"),
        ("lls", "itd", {"eta": 1}, "itd has no setting 'eta'"),
        ("lls", "bome", {"steps": "many"}, "steps must be a whole number, got 'many'"),
        ("lls", "bome", {"steps": 10**9}, "steps must be at most 100,000,000"),
        ("lls", "bome", {"outer_lr": 0}, "outer_lr"),
        ("lls", "bome", {"decay": -1}, "decay must be 0"),
        ("lls", "bome", {"momentum": 1}, "momentum"),
    ],
)
def test_mistakes_are_refused(task: str, method: str, given: dict[str, object], message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        plan(task, method, given)


def test_a_method_that_cannot_solve_the_task_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="gda cannot solve this problem"):
        plan("lls", "gda")

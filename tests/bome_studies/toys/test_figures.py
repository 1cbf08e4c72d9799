"""The figures of the toy study, of a few points each."""

from matplotlib.figure import Figure

from bome_studies.toys import figures
from bome_studies.toys.trials import Trace

CURVE = [1.0, 0.5, 0.1]
TRACE = Trace(
    steps=[0, 1, 2],
    seconds=[0.0, 0.1, 0.2],
    units=[0.0, 12.0, 24.0],
    v=[[1.0], [0.5], [0.1]],
    theta=[[1.0, 1.0], [0.5, 0.5], [0.1, 0.1]],
    ahead=[[0.9, 0.9], [0.4, 0.4], [0.1, 0.1]],
    f=CURVE,
    g=CURVE,
    q=CURVE,
    distance=CURVE,
)


def _titles(figure: Figure) -> list[str]:
    return [axes.get_title() for axes in figure.axes if axes.get_title()]


def test_paths_have_a_panel_for_each_method() -> None:
    paths = {method: {"a": TRACE, "b": TRACE} for method in ("bome", "bsg1")}
    assert _titles(figures.coreset_paths(paths, "code")) == ["BOME", "BSG-1"]
    assert figures.minimax_paths({"bome": TRACE, "gda": TRACE}, 10.0).axes


def test_losses_are_drawn_over_each_axis_that_is_asked_for() -> None:
    labels = {axes.get_xlabel() for axes in figures.losses({"bome": TRACE}, ("steps", "units"), 0.7).axes}
    assert {"outer steps", "gradient-equivalents"} <= labels


def test_the_four_panels_of_the_degenerate_problem() -> None:
    assert len(figures.lls_panels({"bome": TRACE}, "units", -0.5).axes) == 4


def test_a_table_of_the_grid_has_a_number_in_each_field() -> None:
    cells = {(a, b): a + b for a in (0.001, 0.01) for b in (0.001, 0.01)}
    tables = {method: dict.fromkeys(("coreset", "minimax", "lls"), cells) for method in ("bvfsm", "penalty")}
    drawn = figures.grid_tables(tables, {"bvfsm": ("x", "y"), "penalty": ("x", "y")})
    assert sum(len(axes.texts) for axes in drawn.axes) == 2 * 3 * len(cells)

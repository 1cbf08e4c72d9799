"""What the figure of a path shows besides the path: the landmarks of the toy problems.

Reports know run directories only, so the few numbers are repeated here; a test compares them with the tasks.
"""

import math
from dataclasses import dataclass

Point = tuple[float, float]
Line = tuple[Point, Point]


@dataclass(frozen=True)
class Scene:
    """The plane a path is drawn in.

    Attributes:
        across: the logged quantity on the horizontal axis.
        up: the one on the vertical axis.
        names: the labels of the two axes.
        optimum: the solution.
        hull: points whose convex hull is the feasible set.
        target: where f alone would be smallest.
        valleys: lines on which θ minimises g(v, ·).
        caption: what to see.
    """

    across: str
    up: str
    names: tuple[str, str]
    optimum: Point | None = None
    hull: tuple[Point, ...] = ()
    target: Point | None = None
    valleys: tuple[Line, ...] = ()
    caption: str = "The path of the iterates."


_THETA = ("theta_0", "theta_1", (r"$\theta_1$", r"$\theta_2$"))
_BOTH = ("v_0", "theta_0", (r"$v$", r"$\theta$"))
_CORESET = (
    "The path of θ. The inner problem lets θ be any weighted mean of the four data points, that is any point of the "
    "shaded hull; the outer loss pulls θ to the target outside. The solution is the point of the hull nearest to it."
)
_TROUGH = 3 * math.pi / 2 + 2  # v + θ − c = 3π/2, the valley of the solution; the others are 2π apart
_PERIOD = 2 * math.pi

SCENES: dict[tuple[str, str], Scene] = {
    ("coreset", "code"): Scene(
        *_THETA,
        optimum=(1.8, 0.4),
        hull=((1.0, 3.0), (3.0, 1.0), (-2.0, 2.0), (-3.0, -2.0)),
        target=(3.0, -2.0),
        caption=_CORESET,
    ),
    ("coreset", "paper"): Scene(
        *_THETA,
        optimum=(3.0, 1.0),
        hull=((1.0, 3.0), (3.0, 1.0), (-2.0, 2.0), (-3.0, 2.0)),
        target=(3.0, -2.0),
        caption=_CORESET,
    ),
    ("minimax", "code"): Scene(
        *_BOTH,
        optimum=(0.0, 0.0),
        caption="The path spirals into the saddle point of vθ; plain gradient descent and ascent would circle it.",
    ),
    ("minimax", "paper"): Scene(
        *_BOTH, optimum=(0.0, 0.0), caption="The path of the iterates around the saddle of vθ."
    ),
    ("lls", "code"): Scene(
        *_THETA,
        optimum=(1.0, 1.0),
        caption="The inner loss fixes θ₁ and says nothing of θ₂: which of its many solutions is best is up to f.",
    ),
    ("lls", "corrected"): Scene(*_THETA, optimum=(1.0, 1.0), caption="The inner loss fixes θ₁ and says nothing of θ₂."),
    ("sine", "code"): Scene(
        *_BOTH,
        optimum=(((1 - 2) * 2 + 2 * (_TROUGH - 2)) / 3, _TROUGH - ((1 - 2) * 2 + 2 * (_TROUGH - 2)) / 3),
        valleys=tuple(
            ((-20.0, _TROUGH + k * _PERIOD + 20.0), (20.0, _TROUGH + k * _PERIOD - 20.0)) for k in range(-2, 3)
        ),
        caption="On each dashed line θ minimises g(v, ·): the path goes to the nearest one, then along it.",
    ),
}


def scene_of(task: str, variant: str, columns: set[str]) -> Scene | None:
    """The plane for a problem, if the columns it needs were logged; a plain one for two entries of θ."""
    scene = SCENES.get((task, variant))
    if scene is None and "theta_1" in columns and "theta_2" not in columns:
        scene = Scene(*_THETA)
    return scene if scene is not None and {scene.across, scene.up} <= columns else None

"""Every study by its name on the command line; each is loaded only when it is asked for."""

from pkgutil import resolve_name

from bome_studies.study import Study

REPRODUCE = {
    "toys": "bome_studies.toys.study:TOYS",
    "theory": "bome_studies.theory.study:THEORY",
    "hyperclean": "bome_studies.learning.hyperclean:HYPERCLEAN",
    "regularization": "bome_studies.learning.newsgroups:REGULARIZATION",
    "continual": "bome_studies.continual.study:CONTINUAL",
}
"""The paper's experiments, and where each is found."""

BENCH = {
    "clean": "bome_studies.cleaning.study:CLEANING",
    "mix": "bome_studies.mixing.study:MIXING",
    "scale": "bome_studies.scale.study:SCALE",
    "matrix": "bome_studies.matrix.study:MATRIX",
}
"""Comparisons with other software, and measurements of this one."""


def load(place: str) -> Study:
    """The study that a catalogue names."""
    study: Study = resolve_name(place)
    return study


def study_of(name: str) -> Study | None:
    """The study of a name such as "toys" or "bench-clean"; None if there is no such study any more."""
    places = {**REPRODUCE, **{f"bench-{short}": place for short, place in BENCH.items()}}
    return load(places[name]) if name in places else None

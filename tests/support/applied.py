"""Made-up outcomes of the study of the applications."""

from collections.abc import Mapping

from bome_studies.applications.trials import Outcome, Results

Values = Mapping[str, Mapping[str, list[float | None]]]


def outcome(F: float | None, test: float | None = None, live: float | None = None, *, refused: bool = False) -> Outcome:  # noqa: N803
    """With what there is to say."""
    return Outcome(F, test, live, 10, 1.0, "", refused)


def results(values: Values, wanted: int = 2) -> Results:
    """F of each seed, by application and contender; `test` is 1 − F / 10, and f at the live θ half of F."""
    by_name = {
        application: {
            contender: {seed: outcome(F, None if F is None else 1 - F / 10, F and F / 2) for seed, F in enumerate(each)}
            for contender, each in own.items()
        }
        for application, own in values.items()
    }
    return Results(by_name, wanted, {}, 100)

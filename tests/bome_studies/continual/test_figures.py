"""The tables and figures of continual learning."""

from dataclasses import replace

from bome_studies.continual.figures import varied
from bome_studies.continual.results import Entry, Runs
from tests.support.continual_results import results, summary_of


def test_other_settings_stand_beside_the_usual_ones_on_the_same_seeds() -> None:
    other = Entry("ctn+bome", "η = 1", {}, Runs([summary_of(79.0), summary_of(79.0)]))
    found = replace(results([81.0, 81.0, 60.0], [78.0, 78.0, 50.0]), ablations=(other,))
    rows = [(row[0], row[1], row[-1]) for row in varied(found).rows]
    assert rows == [
        ("ctn+itd", "78.00 ± 0.00", "2"),
        ("ctn+bome", "81.00 ± 0.00", "2"),
        ("η = 1", "79.00 ± 0.00", "2"),
    ]

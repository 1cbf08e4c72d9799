"""What is read from docstrings."""

from bome.cli.docstrings import section


def test_section_reads_wrapped_entries_and_stops_at_the_next() -> None:
    def documented() -> None:
        """Do.

        Args:
            a: one
                and more.
            b: two.

        Returns:
            c: not an argument.
        """

    assert section(documented, "Args") == {"a": "one and more.", "b": "two."}

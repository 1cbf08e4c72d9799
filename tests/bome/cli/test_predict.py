"""`bome predict`."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bome.cli.main import execute
from tests.support.tables import CLEAN, noisy


def test_predict_labels_another_table(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["predict", "out", "test.csv"]) == 0
    assert re.search(r"accuracy against the labels of test.csv: (9\d\.\d|100\.0)%", capsys.readouterr().out)
    found = pd.read_csv(copy / "predictions.csv", dtype=str)
    assert list(found.columns) == ["row", "prediction", "confidence"]
    assert set(found["prediction"]) == {"-1", "'=yes()"}
    assert found["confidence"].astype(float).between(0.5, 1).all()


def test_predict_needs_no_label_and_ignores_other_columns(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = noisy(10, 0, 3)[0].drop(columns="y").assign(extra="text of any kind")
    frame[["kind", "c", "extra", "b", "a"]].to_csv(copy / "new.csv", index=False)
    assert execute(["predict", "out", "new.csv", "--out", "p.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "rows": 10, "labelled": 0, "accuracy": None, "predictions": "p.csv",
    }  # fmt: skip


def test_predict_judges_by_labels_that_the_model_knows_and_tells_of_new_values(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = noisy(10, 0, 3)[0].astype({"y": object, "kind": object})
    execute(["predict", "out/model.safetensors", "test.csv", "--out", "p.csv"])
    frame["y"] = pd.read_csv("p.csv")["prediction"].head(10).str.lstrip("'").to_numpy()
    frame.loc[0, "y"], frame.loc[1, "y"], frame.loc[3, "kind"] = "", "maybe", "purple"
    frame.to_csv("new.csv", index=False)
    capsys.readouterr()
    assert execute(["predict", "out", "new.csv", "--json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["labelled"] == 8
    assert "column 'kind' has 1 cell with values that the training table does not have, such as 'purple'" in told.err
    assert execute(["predict", "out", "new.csv"]) == 0
    assert "(2 without a label that the model knows)" in capsys.readouterr().out
    frame.iloc[3:4].to_csv("new.csv", index=False)  # a single row is still a question with an answer
    assert execute(["predict", "out", "new.csv"]) == 0
    pd.read_csv("trusted.csv").assign(kind="purple").to_csv("trusted.csv", index=False)
    assert execute([*CLEAN]) == 2
    assert "no value of column 'kind' ('purple', ...) occurs in the training table" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "arguments", "words"),
    [
        (None, ["nowhere", "test.csv"], "nowhere is not a directory: name one that 'bome clean' wrote"),
        (None, [".", "test.csv"], "model.safetensors does not exist: make it with 'bome clean'"),
        (None, ["out", "nothing.csv"], "nothing.csv does not exist"),
        (lambda f: f.drop(columns="b"), ["out", "new.csv"], "new.csv has no column 'b' (which the model needs)"),
        (lambda f: f.rename(columns={"kind": "kinds"}), ["out", "new.csv"], "did you mean 'kinds'?"),
        (lambda f: f.assign(a="x"), ["out", "new.csv"], "line 2, column 'a': 'x' is not a number"),
        (
            lambda f: f.assign(a=np.nan),
            ["out", "new.csv"],
            "line 2, column 'a' has no number (10 such cells in this column): fill it in, or remove the row\n",
        ),
        (lambda f: f[:0], ["out", "new.csv"], "new.csv has a header and no rows"),
        (None, ["out", "test.csv", "--out", "test.csv"], "test.csv is the table itself"),
        (None, ["out", "test.csv", "--out", "out/model.safetensors"], "is the model itself: choose another --out"),
        (None, ["out", "test.csv", "--out", "out"], "out is a directory: name a file with --out"),
    ],
)
def test_a_mistake_in_predict_is_one_line_exit_2(
    copy: Path, capsys: pytest.CaptureFixture[str], change: Any, arguments: list[str], words: str
) -> None:
    if change is not None:
        change(noisy(10, 0, 3)[0]).to_csv(copy / "new.csv", index=False)
    assert execute(["predict", *arguments]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("error: ")
    assert printed.count("\n") == 1
    assert words in printed


def test_a_damaged_model_is_exit_4(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = copy / "out" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-8])
    assert execute(["predict", "out", "test.csv"]) == 4
    assert "model.safetensors is damaged" in capsys.readouterr().err

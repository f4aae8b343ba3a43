"""What a new user meets: tables as they are, and messages that say what to do."""

import json
import re
import shlex
from pathlib import Path

import numba
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn import datasets

from equality import assert_same_model
from hebbnmf import OnlineSNMF, __version__
from hebbnmf.cli import main
from hebbnmf.cli.compiling import compile_notice
from hebbnmf.datasets import make_three_gaussians
from hebbnmf.persistence import load, read, save

FIT = ("--n-components", "3", "--rank-penalty", "0.1")


@pytest.fixture(autouse=True)
def rows(tmp_path, monkeypatch):
    """Stand in a folder that holds rows.csv."""
    monkeypatch.chdir(tmp_path)
    rows = make_three_gaussians(random_state=0)[0]
    write("rows.csv", rows)
    return rows


def write(path, rows, names=("a", "b")):
    pd.DataFrame(rows, columns=list(names)).to_csv(path, index=False)


def run(*args, code=0, stdin=None):
    result = CliRunner().invoke(main, [str(arg) for arg in args], input=stdin)
    assert result.exit_code == code, result.output
    return result


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "digits"])
def test_a_new_user_needs_no_more_than_the_messages_say(name):
    data = getattr(datasets, f"load_{name}")(as_frame=True)
    names = [f"class {name}" for name in data.target_names]
    data.data.assign(kind=[names[k] for k in data.target]).to_csv("data.csv")  # with its index
    options, result = [], None
    for _ in range(3):
        result = CliRunner().invoke(main, ["fit", "data.csv", "-o", "m.npz", *options])
        if result.exit_code == 0:
            break
        options = shlex.split(re.search(r"with (--drop \S+),", result.stderr)[1])
    if "by --scale" in result.stderr:
        result = run("fit", "data.csv", "-o", "m.npz", *options, "--scale")
    assert options == ["--drop", "0,kind"]
    assert "Warning" not in result.stderr
    labels = pd.read_csv(io_of(run("predict", "m.npz", "data.csv", "--ids", "kind")))
    assert len(labels) == len(data.data)
    assert labels.label.nunique() > 1
    assert list(labels.kind) == [names[k] for k in data.target]
    run("plot", "m.npz", "--data", "data.csv", "-o", "p.png")
    run("plot", "m.npz", "--data", "data.csv", "-o", "p.png", "--kind", "directions")
    assert "units" in run("info", "m.npz").stdout


def io_of(result):
    Path("out.csv").write_text(result.stdout)
    return "out.csv"


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("a;b\n1;2\n", "--delimiter ';'"),
        ("a\tb\n1\t2\n", "--delimiter tab"),
        ('a,b\n"1,5",2\n', "--decimal ,"),
        ("0,1\n1,2\n", "--header or --no-header"),
        ('"x, y",b,c\nrose,2,lily\n', "--drop '\"x, y\",c'"),
        ("a,b\n1,\n", "--missing skip, mean or zero"),
        ("a,b\n1,2\n3,x\n", "--on-bad-row skip"),
    ],
)
def test_messages_name_options_as_a_shell_takes_them(text, remedy):
    Path("x.csv").write_text(text)
    assert remedy in run("fit", "x.csv", "-o", "m.npz", code=1).stderr


def test_a_table_of_another_country_is_read_with_the_options_that_are_named(rows):
    frame = pd.DataFrame(rows, columns=["a", "größe"])
    frame.to_csv("x.csv", sep=";", decimal=",", encoding="utf-16", index=False)
    options = ("--delimiter", ";", "--decimal", ",", "--encoding", "utf-16")
    run("fit", "x.csv", "-o", "m.npz", *FIT, *options)
    assert_same_model(load("m.npz"), OnlineSNMF(3, rank_penalty=0.1).partial_fit(frame))
    for option, value in (("--delimiter", "ab"), ("--encoding", "utf-99")):
        run("fit", "x.csv", "-o", "m.npz", option, value, code=2)


# predict ------------------------------------------------------------------------------------------


def test_columns_that_the_model_knows_are_found_by_name(rows):
    run("fit", "rows.csv", "-o", "m.npz", *FIT)
    expected = run("predict", "m.npz", "rows.csv").stdout
    pd.DataFrame({"kind": "x", "b": rows[:, 1], "a": rows[:, 0]}).to_csv("more.csv")
    assert run("predict", "m.npz", "more.csv").stdout == expected
    text = Path("more.csv").read_text()
    assert run("predict", "m.npz", "-", stdin=text).stdout == expected
    write("other.csv", rows, "ac")
    error = run("predict", "m.npz", "other.csv", code=1).stderr
    assert "lacks the columns b, which the model learned; it has the columns a, c" in error


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "npy", "parquet"])
def test_rows_that_are_left_out_keep_their_places(suffix):
    run("fit", "rows.csv", "-o", "m.npz", *FIT)
    lines = Path("rows.csv").read_text().splitlines()
    whole = run("predict", "m.npz", "rows.csv").stdout.split()[1:]
    lines[3], lines[-1] = "1,x", "nan,2"
    Path("bad.csv").write_text("\n".join(lines))
    for command, width in (("predict", 1), ("transform", 3)):
        path = f"{command}.{suffix}"
        run(command, "m.npz", "bad.csv", "-o", path, "--on-bad-row", "skip")
        if suffix == "npy":
            found = np.load(path).reshape(300, width)
        else:
            options = {"jsonl": {"lines": True}}.get(suffix, {})
            reader = {"jsonl": pd.read_json}.get(suffix, getattr(pd, f"read_{suffix}", None))
            found = reader(path, **options).to_numpy(float)
        assert found.shape == (300, width)
        assert np.flatnonzero(np.isnan(found).any(axis=1)).tolist() == [2, 299]
        if command == "predict":
            good = ~np.isnan(found[:, 0])
            assert found[good, 0].tolist() == [float(k) for k in np.array(whole)[good]]


def test_row_numbers_say_which_rows_are_left():
    run("fit", "rows.csv", "-o", "m.npz", *FIT)
    Path("bad.csv").write_text("id,a,b\np,1,1\nq,x,1\nr,1,1\n")
    args = ("predict", "m.npz", "bad.csv", "--row-numbers", "--ids", "id")
    lines = run(*args, "--on-bad-row", "skip").stdout.split()
    assert [line.split(",")[:2] for line in lines] == [["row", "id"], ["0", "p"], ["2", "r"]]
    for suffix in ("jsonl", "parquet"):
        run(*args, "--on-bad-row", "skip", "-o", f"y.{suffix}")
    assert pd.read_parquet("y.parquet").id.tolist() == ["p", "r"]
    assert json.loads(Path("y.jsonl").read_text().splitlines()[1])["row"] == 2
    assert "can hold no column beside" in run(*args, "-o", "y.npy", code=2).stderr


def test_a_model_remembers_how_missing_values_were_filled_in(rows):
    gaps = rows.copy()
    gaps[::10, 1] = np.nan
    write("gaps.csv", gaps)
    assert "--missing" in run("fit", "gaps.csv", "-o", "m.npz", code=1).stderr
    means = np.where(np.isnan(gaps), np.nanmean(gaps, axis=0), gaps)
    expected = OnlineSNMF(3, rank_penalty=0.1).partial_fit(means)
    run("fit", "gaps.csv", "-o", "m.npz", *FIT, "--missing", "mean")
    model = read("m.npz").model
    np.testing.assert_allclose(model.components_, expected.components_, rtol=1e-10)
    fills = {"mean": means, "zero": np.nan_to_num(gaps)}
    for option in ((), ("--missing", "mean"), ("--missing", "zero")):
        run("transform", "m.npz", "gaps.csv", "-o", "y.npy", *option)
        filled = fills[option[1] if option else "mean"]
        responses = model.learner_.respond(filled).Y
        np.testing.assert_allclose(np.load("y.npy"), responses, atol=1e-8)
    run("transform", "m.npz", "gaps.csv", "-o", "y.npy", "--missing", "skip")
    assert np.isnan(np.load("y.npy")).all(axis=1).nonzero()[0].tolist() == list(range(0, 300, 10))
    run("fit", "gaps.csv", "-o", "skip.npz", *FIT, "--missing", "skip")
    kept = gaps[np.isfinite(gaps).all(axis=1)]
    assert_same_model(load("skip.npz"), OnlineSNMF(3, rank_penalty=0.1).partial_fit(kept))
    assert (
        "fit it with --missing mean"
        in run("predict", "skip.npz", "gaps.csv", "--missing", "mean", code=2).stderr
    )
    run("convert", "gaps.csv", "filled.npy", "--missing", "zero")
    np.testing.assert_array_equal(np.load("filled.npy"), fills["zero"])


# fit ----------------------------------------------------------------------------------------------


def test_a_training_is_summed_up(rows):
    facts = json.loads(run("fit", "rows.csv", "-o", "m.npz", *FIT, "--json").stdout)
    labels = load("m.npz").predict(pd.DataFrame(rows, columns=["a", "b"]))
    assert facts["unit_sizes"] == np.bincount(labels[labels >= 0], minlength=3).tolist()
    assert facts["rows_without_response"] == int((labels < 0).sum())
    assert facts["units"] == facts["units_at_most"] == 3
    score = float(run("score", "m.npz", "rows.csv").stdout)
    assert facts["explained_similarity"] == pytest.approx(score, rel=1e-5)
    assert score == pytest.approx(load("m.npz").learner_.score(rows)[0], rel=1e-5)
    text = run("fit", "rows.csv", "-o", "m.npz", *FIT).stderr
    assert "m.npz: 3 units, 300 samples seen" in text
    assert "all 3 that were allowed" in text
    assert f"sizes: {', '.join(map(str, facts['unit_sizes']))}, of 300 rows" in text


def test_a_column_that_outweighs_the_others_is_named(rows):
    write("x.csv", rows * [1, 50])
    warning = run("fit", "x.csv", "-o", "m.npz", *FIT).stderr
    assert re.search(
        r"Warning: column 'b' varies [\d.]+ times as much as column 'a'.*--scale", warning
    )
    assert "Warning" not in run("fit", "x.csv", "-o", "m.npz", *FIT, "--scale").stderr


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("remedy", [["--scale"], ["--clusters", 3, "--seed", 0]])
def test_rows_far_from_zero_are_noticed_once(rows, remedy):
    write("x.csv", rows[np.argsort(rows[:, 0])] + 100)
    warnings = run("fit", "x.csv", "-o", "m.npz", *FIT, "--epochs", 2).stderr.count("Warning")
    assert warnings == 1
    error = run("fit", "x.csv", "-o", "m.npz", *FIT).stderr
    assert "The mean of DATA explains 100%" in error
    assert "centre it by --scale, or use --clusters, unless" in error
    assert "Warning" not in run("fit", "x.csv", "-o", "m.npz", *remedy).stderr
    assert "Warning" not in run("fit", "x.csv", "-o", "m.npz", "--whiten").stderr


def test_a_model_is_continued_as_if_it_had_never_stopped(rows):
    write("day1.csv", rows[:144])
    write("day2.csv", rows[144:])
    run("fit", "day1.csv", "-o", "m.npz", *FIT)
    args = ("fit", "day2.csv", "-o", "m.npz", "--continue", "m.npz")
    run(*args, "--limit", "100")
    frame = pd.DataFrame(rows, columns=["a", "b"])
    expected = OnlineSNMF(3, rank_penalty=0.1).partial_fit(frame[:144]).partial_fit(frame[144:244])
    assert_same_model(load("m.npz"), expected)
    error = run(*args, "--n-components", "2", code=1).stderr
    assert "--n-components 2 cannot be used: 3 units are recruited already" in error
    assert "--continue keeps the preprocessing" in run(*args, "--scale", code=2).stderr
    kept = run(*args[:3], "k.npz", *args[4:], "--checkpoint", "m.npz", "--force", code=1).stderr
    assert "m.npz: is read by the same command" in kept
    run(*args, "--n-components", "9")
    assert load("m.npz").n_components == 9


def test_a_continued_training_that_has_ended_is_not_resumed_into_another():
    run("fit", "rows.csv", "-o", "m.npz", *FIT)
    args = ("fit", "rows.csv", "-o", "m.npz", "--continue", "m.npz", "--limit", 100)
    checkpoint = ("--checkpoint", "c.npz", "--every", 10)
    run(*args, *checkpoint)
    ended = Path("m.npz").read_bytes()
    assert load("m.npz").n_samples_seen_ == 400
    for _ in range(2):
        result = run(*args, *checkpoint, "--resume", "--json")
        assert "rows.csv: nothing is left to learn" in result.stderr
        assert json.loads(result.stdout)["samples_seen"] == 400
        assert Path("m.npz").read_bytes() == ended
    run(*args)  # continued further, which no resumed training takes back
    facts = json.loads(run(*args, *checkpoint, "--resume", "--json").stdout)
    assert facts["samples_seen"] == load("m.npz").n_samples_seen_ == 500
    run("fit", "rows.csv", "-o", "other.npz", *args[4:], *checkpoint, "--resume")
    assert Path("other.npz").read_bytes() == ended  # another name is written
    file = read("c.npz")
    save(file.model, "c.npz", position={**file.position, "n_before": -1})
    assert "-1 is not a number of samples" in run(*args, *checkpoint, "--resume", code=1).stderr


def test_an_ended_training_that_is_resumed_takes_no_output_back(rows):
    write("day1.csv", rows[:144])
    write("day2.csv", rows[144:])
    args = ("fit", "day1.csv", "-o", "m.npz", *FIT, "--checkpoint", "c.npz")
    run(*args)
    ended = Path("m.npz").read_bytes()
    run("fit", "day2.csv", "-o", "m.npz", "--continue", "m.npz")
    continued = Path("m.npz").read_bytes()
    result = run(*args, "--resume", "--json")
    assert Path("m.npz").read_bytes() == continued
    assert json.loads(result.stdout)["samples_seen"] == 300
    assert "m.npz stays as it is, with 300 samples seen: name another output" in result.stderr
    Path("m.npz").unlink()
    run(*args, "--resume")
    assert Path("m.npz").read_bytes() == ended
    run("fit", "day2.csv", "-o", "m.npz", "--limit", 100)  # older
    assert "stays" not in run(*args, "--resume").stderr
    assert Path("m.npz").read_bytes() == ended
    Path("m.npz").write_text("Dear reader\n")
    run(*args, "--resume", "--force")
    assert Path("m.npz").read_bytes() == ended


def test_a_shuffle_within_windows_says_so_once_there_are_several(monkeypatch):
    monkeypatch.setattr("hebbnmf.streams.opening._WINDOW", 1)
    Path("raw").write_bytes(np.eye(150, 8192, dtype="<f4").tobytes())
    args = ("fit", "raw", "-o", "m.npz", "--format", "float32", "--width", 8192, "--shuffle")
    assert "windows of 72 rows" in run(*args).stderr
    assert "windows" not in run(*args, "--limit", 72).stderr


def test_compiling_is_announced_once_it_takes_a_while(capsys):
    @numba.njit
    def double(x):
        return 2 * x

    with compile_notice(seconds=60):
        double(1)
    assert capsys.readouterr().err == ""
    with compile_notice(seconds=0.001):
        double(1.5)
        double(1.5j)
    assert capsys.readouterr().err.count("Compiling") == 1


def test_numbers_of_units_and_penalties_are_compared():
    lines = run(
        "tune", "rows.csv", "-o", "t.png", "--n-components", "1,3", "--rank-penalty", "auto,0.1"
    ).stdout.splitlines()
    table = [line.split() for line in lines[1:-1]]
    assert [row[:2] for row in table] == [["1", "auto"], ["3", "auto"], ["1", "0.1"], ["3", "0.1"]]
    assert float(table[1][3]) > float(table[0][3])
    assert lines[-1].startswith("fewest units within 0.01 of the best: --n-components 3")
    assert Path("t.png").read_bytes().startswith(b"\x89PNG")


def test_the_version_is_told():
    assert __version__ in run("--version").stdout


def test_a_training_that_fills_in_is_resumed_and_stays_as_it_was_begun(rows):
    rows[::7, 1] = np.nan
    write("gaps.csv", rows)
    fit = ("fit", "gaps.csv", *FIT, "--missing", "mean")
    run(*fit, "-o", "m.npz", "--checkpoint", "part.npz", "--limit", "100")
    again = (*fit[:-2], "-o", "m.npz", "--checkpoint", "part.npz", "--resume")
    other = run(*again, "--missing", "zero", code=2).stderr
    assert "--missing is 'zero', but part.npz was made with 'mean'" in other
    run(*again)
    assert read("m.npz").model.n_samples_seen_ == len(rows)


def test_columns_whose_names_hold_brackets_are_named_as_the_option_takes_them():
    Path("units.csv").write_text("x[mm],it's y,z\n" + "red,blue,1\n" * 5)
    error = run("fit", "units.csv", "-o", "m.npz", code=1).stderr
    drop = shlex.split(re.search(r"with (--drop .*), or choose", error)[1])
    assert drop == ["--drop", "x[mm],it's y"]
    run("fit", "units.csv", "-o", "m.npz", *drop)

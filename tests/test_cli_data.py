"""The commands that read data: what they learn and write, and how they fail."""

import hashlib
import json
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from pkgutil import resolve_name
from threading import Timer

import numpy as np
import pytest
from click.testing import CliRunner

from equality import assert_same_model
from hebbnmf import OnlineSNMF, SymNMF, make_online_clusterer
from hebbnmf.cli import main
from hebbnmf.cli.summary import Watcher
from hebbnmf.datasets import make_three_gaussians
from hebbnmf.engine.state import empty_weights
from hebbnmf.learner import LearnerState
from hebbnmf.persistence import load, read, save
from hebbnmf.preprocessing import input_filters, unnamed_rows
from hebbnmf.streams import open_stream
from hebbnmf.training import train

ROOT = Path(__file__).parents[1]
GUIDES = [ROOT / "README.md", ROOT / "docs" / "command_line.md"]
FIT = ("--n-components", "3", "--rank-penalty", "0.1")


@pytest.fixture
def rows():
    return make_three_gaussians(random_state=0)[0]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, rows):
    """Stand in a folder of small data, and of a model trained on them."""
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", rows)
    for name, part in (("rows", rows), ("day1", rows[:150]), ("day2", rows[150:])):
        np.savetxt(f"{name}.csv", part, "%.17g", ",", header="a,b", comments="")
    save(OnlineSNMF(3, rank_penalty=0.1).partial_fit(rows), "model.npz")
    return tmp_path


def run(*args, code=0, stdin=None):
    """Run a command in this process; an error must be one line, and no traceback."""
    result = CliRunner().invoke(main, [str(arg) for arg in args], input=stdin)
    assert result.exit_code == code, result.output
    if code == 1:
        # Whichever test comes first may be told that kernels are compiled.
        lines = [line for line in result.stderr.splitlines() if not line.startswith("Compiling")]
        assert len(lines) == 1
        assert lines[0].startswith("Error: ")
    return result


def start(*args, **options):
    """Start the command as a program of its own."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [sys.executable, "-W", "error", "-m", "hebbnmf.cli", *map(str, args)]
    return subprocess.Popen(command, **(pipes | options))


def wait_for(path, seconds=30.0):
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.02)


# Examples -----------------------------------------------------------------------------------------


def examples(text):
    return [line.strip()[2:] for line in text.splitlines() if line.strip().startswith("$ ")]


def run_example(line):
    """Run a pipeline stage by stage; the command itself runs in this process."""
    data = None
    for stage in line.split(" | "):
        name, *args = shlex.split(stage)
        if name == "hebbnmf":
            data = run(*args, stdin=data).stdout_bytes
        else:
            data = subprocess.run(
                [name, *args], input=data, stdout=subprocess.PIPE, check=True
            ).stdout


@pytest.mark.parametrize(
    "command", ["fit", "tune", "transform", "predict", "score", "info", "plot", "convert"]
)
def test_every_example_in_the_help_runs(command):
    lines = examples(run(command, "--help").stdout)
    assert len(lines) >= 2
    if command == "convert":  # which replaces no file
        Path("rows.npy").unlink()
    for line in lines:
        run_example(line)


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.name)
def test_every_example_in_the_guides_runs(guide):
    lines = examples(guide.read_text())
    assert len(lines) >= 3
    Path("rows.npy").unlink()  # readers begin with rows.csv
    for line in lines:
        run_example(line)


def test_the_shell_completes_commands():
    env = {**os.environ, "_HEBBNMF_COMPLETE": "bash_complete", "COMP_WORDS": "hebbnmf tr"}
    done = start(env={**env, "COMP_CWORD": "1"})
    assert b"plain,transform" in done.communicate()[0]


# fit ----------------------------------------------------------------------------------------------


def test_options_have_the_defaults_of_the_estimator():
    options = main.commands["fit"].make_context("fit", ["rows.csv", "-o", "m.npz"]).params
    options |= {"n_epochs": options["epochs"], "random_state": options["seed"]}
    parameters = OnlineSNMF().get_params()
    del parameters["n_jobs"]  # the command takes all cores
    assert {name: options[name] for name in parameters} == parameters


def test_fit_learns_what_the_estimator_learns(rows):
    options = {"n_components": 5, "rank_penalty": 0.05, "initial_activity": 2.0}
    options |= {"activity_gain": 0.5, "dynamics": "quartic", "tol": 1e-6, "max_sweeps": 500}
    args = [x for name, v in options.items() for x in (f"--{name.replace('_', '-')}", v)]
    run("fit", "rows.npy", "-o", "m.npz", *args, "--track-cost")
    net = OnlineSNMF(**options, track_cost=True).partial_fit(rows)
    model = load("m.npz")
    assert_same_model(model, net)
    assert model.cost_ == net.cost_
    assert model.get_params() == net.get_params()


def test_fit_takes_memory_and_a_penalty_without_a_scale(rows):
    given = ["--n-components", 2, "--rank-penalty", "auto", "--memory", 0.1, "--recycle"]
    run("fit", "rows.npy", "-o", "m.npz", *given)
    net = OnlineSNMF(2, rank_penalty="auto", memory=0.1, recycle=True).partial_fit(rows)
    assert_same_model(load("m.npz"), net)
    facts = json.loads(run("info", "m.npz", "--json").stdout)
    shown = {name: facts["parameters"][name] for name in ("rank_penalty", "memory", "recycle")}
    assert shown == {"rank_penalty": "auto", "memory": 0.1, "recycle": True}
    assert facts["unit_births"] == net.unit_births_.tolist()
    part = ["rows.npy", "-o", "m.npz", "--checkpoint", "part.npz", "--memory"]
    run("fit", *part, 500, "--limit", 100)
    assert "--memory is 400.0, but" in run("fit", *part, 400, "--resume", code=2).stderr
    run("fit", *part, 500, "--resume")
    net = OnlineSNMF(memory=500).partial_fit(rows[:100]).partial_fit(rows[100:])
    assert_same_model(load("m.npz"), net)


@pytest.mark.parametrize("option", ["--memory", "--rank-penalty"])
@pytest.mark.parametrize("value", ["-1", "automatic"])
def test_values_that_make_no_sense_are_refused(option, value):
    error = run("fit", "rows.npy", "-o", "m.npz", option, value, code=2).stderr
    assert f"Invalid value for '{option}'" in error


@pytest.mark.parametrize("value", ["0", "1", "1.5", "inf"])
def test_a_memory_is_a_number_of_samples_or_a_share(value):
    error = run("fit", "rows.npy", "-o", "m.npz", "--memory", value, code=2).stderr
    assert f"{value} is not a number of samples of at least 2 or a share" in " ".join(error.split())


def test_every_source_teaches_the_same(rows):
    text = Path("rows.csv").read_text()
    net = OnlineSNMF(3, rank_penalty=0.1).partial_fit(rows)
    run("convert", "rows.csv", "rows.parquet")
    run("convert", "rows.csv", "rows.jsonl")
    sources = [["day1.csv", "day2.csv"], ["day*.csv"], ["rows.parquet"], ["rows.jsonl"]]
    for data in sources:
        run("fit", *data, "-o", "m.npz", *FIT)
        assert_same_model(read("m.npz").model, net)
    run("fit", "-", "-o", "m.npz", *FIT, stdin=text)
    assert_same_model(read("m.npz").model, net)


def test_preprocessing_is_fitted_saved_and_applied(rows):
    run("fit", "rows.csv", "-o", "m.npz", "--scale", "--whiten", "--limit", "200")
    file = read("m.npz")
    assert [type(step).__name__ for step in file.preprocessing] == ["StandardScaler", "ZCAWhitener"]
    prepared = rows[:200]
    for step in file.preprocessing:
        prepared = step.transform(prepared)
    assert np.allclose(np.cov(prepared.T, bias=True), np.eye(2), atol=0.02)
    assert_same_model(file.model, OnlineSNMF().partial_fit(prepared))
    run("transform", "m.npz", "rows.csv", "-o", "y.npy")
    assert np.array_equal(np.load("y.npy")[:200], file.model.learner_.respond(prepared).Y)


def test_clusters_are_those_of_the_online_clusterer(rows):
    for data, stdin in (("rows.csv", None), ("-", Path("rows.csv").read_text())):
        run("fit", data, "-o", "m.npz", "--clusters", "3", "--seed", "0", stdin=stdin)
        model = make_online_clusterer(3, random_state=0).partial_fit(rows)
        again = load("m.npz")
        assert_same_model(again["network"], model["network"])
        assert list(again.feature_names_in_) == ["a", "b"]
        assert np.array_equal(unnamed(again.predict, rows), model.predict(rows))
    run("predict", "m.npz", "rows.csv", "-o", "labels.npy")
    assert np.array_equal(np.load("labels.npy").ravel(), model.predict(rows))
    swapped = run("predict", "m.npz", "-", stdin="b,a\n2,1\n").stdout
    assert swapped == run("predict", "m.npz", "-", stdin="a,b\n1,2\n").stdout
    run("plot", "m.npz", "--data", "rows.csv", "-o", "m.png")
    facts = run("info", "m.npz").stdout
    assert "RBFMap" in facts
    assert re.search(r"^features +2\n.*^feature names +a, b$", facts, re.M | re.S)
    assert "no filters" in run("plot", "m.npz", "--kind", "filters", "-o", "n.png", code=1).stderr


def unnamed(method, rows):
    with unnamed_rows:
        return method(rows)


@pytest.mark.parametrize(
    ("options", "classes"),
    [
        (["--scale"], ["RunningScaler"]),
        (["--whiten"], ["ZCAWhitener"]),
        (["--scale", "--whiten", "--kernel", "rbf"], ["RunningScaler", "ZCAWhitener", "RBFMap"]),
    ],
)
def test_preprocessing_of_a_pipe_learns_in_one_pass(options, classes):
    args = ["-", "-o", "m.npz", *FIT, "--memory", "all", *options]
    run("fit", *args, stdin=Path("rows.csv").read_text())
    file = read("m.npz")
    assert [type(step).__name__ for step in file.preprocessing] == classes
    assert file.model.n_samples_seen_ == 300
    assert file.preprocessing[0].n_samples_seen_ == 300


def test_a_watched_pipe_is_waited_for_until_a_kernel_has_rows_to_learn_from(rows):
    fit = start("fit", "-", "--watch", "-o", "m.npz", "--clusters", "3", "--seed", "0")
    lines = Path("rows.csv").read_text().splitlines(keepends=True)
    for line in lines[:20]:
        fit.stdin.write(line.encode())
        fit.stdin.flush()
        time.sleep(0.01)
    fit.stdin.write("".join(lines[20:]).encode())
    assert b"3 units, 300 samples seen\n" in fit.communicate()[1]
    model = make_online_clusterer(3, random_state=0).partial_fit(rows)
    np.testing.assert_array_equal(unnamed(load("m.npz").predict, rows), model.predict(rows))


def test_a_pipeline_is_resumed_as_it_was_begun():
    def args(checkpoint):
        data = ["rows.csv", "-o", "m.npz", "--epochs", "2", "--seed", "3"]
        return [*data, "--clusters", "3", "--checkpoint", checkpoint, "--force"]

    run("fit", *args("whole.npz"))
    whole = load("whole.npz")["network"]
    run("fit", *args("c.npz"), "--limit", "300")
    assert load("c.npz")["network"].n_samples_seen_ == 300
    other = run("fit", *args("c.npz"), "--clusters", "4", "--resume", code=2)
    assert "made with 3; resume it" in other.stderr
    run("fit", *args("c.npz"), "--resume")
    assert_same_model(load("c.npz")["network"], whole)
    assert whole.n_samples_seen_ == 600


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["rows.csv", "--clusters", "3", "--n-components", "3"], "give one"),
        (["rows.csv", "--clusters", "3", "--model", "pca"], "no option of --model pca"),
        (["rows.csv", "--resume"], "--resume needs --checkpoint"),
        (["rows.csv", "--every", "5"], "--every needs --checkpoint"),
        (["rows.csv", "--checkpoint", "m.npz"], "name one file"),
        (["rows.csv", "--watch", "--shuffle"], "--watch takes one file"),
        (["rows.csv", "--n-components", "0"], "--n-components"),
        (["rows.csv", "--tol", "0"], "--tol"),
    ],
)
def test_usage_that_cannot_work_is_refused(args, message):
    assert message in run("fit", *args, "-o", "m.npz", code=2).stderr


def test_limit_and_resume_equal_one_run():
    args = ["rows.csv", "-o", "m.npz", *FIT, "--epochs", "2", "--shuffle", "--checkpoint", "c.npz"]
    run("fit", *args, "--seed", "3")
    whole = load("c.npz")
    run("fit", *args, "--seed", "3", "--limit", "288", "--force")
    assert load("c.npz").n_samples_seen_ == 288
    run("fit", *args, "--seed", "3", "--resume")
    assert_same_model(load("c.npz"), whole)
    assert load("c.npz").n_samples_seen_ == 600


def test_a_checkpoint_is_resumed_as_it_was_begun():
    args = ["fit", "rows.csv", "-o", "m.npz", "--checkpoint", "c.npz"]
    run(*args, *FIT, "--limit", "72")
    result = run(*args, "--rank-penalty", "0.5", "--resume", code=2)
    assert "--rank-penalty is 0.5, but c.npz was made with 0.1" in result.stderr
    run("fit", "rows.csv", "-o", "m.npz", "--checkpoint", "model.npz", "--resume", code=1)


def test_bad_rows_stop_or_are_counted(rows):
    lines = Path("rows.csv").read_text().splitlines()
    lines[41] = "1.0,oops"
    Path("bad.csv").write_text("\n".join(lines) + "\n")
    result = run("fit", "bad.csv", "-o", "m.npz", *FIT, code=1)
    assert "bad.csv, line 42: column 'b': 'oops' is not a number" in result.stderr
    assert "--on-bad-row skip" in result.stderr
    result = run("fit", "bad.csv", "-o", "m.npz", *FIT, "--on-bad-row", "skip")
    assert "bad rows left out: 1, the last at bad.csv, line 42" in result.stderr
    assert_same_model(
        read("m.npz").model, OnlineSNMF(3, rank_penalty=0.1).partial_fit(np.delete(rows, 40, 0))
    )


def test_what_was_learned_before_a_bad_row_is_in_the_checkpoint():
    wide = np.random.default_rng(0).random((80, 8192))
    wide[75, 3] = np.nan
    np.save("wide.npy", wide)
    result = run("fit", "wide.npy", "-o", "m.npz", *FIT, "--checkpoint", "c.npz", code=1)
    assert "wide.npy, row 75" in result.stderr
    assert load("c.npz").n_samples_seen_ == 72
    assert not Path("m.npz").exists()


@pytest.mark.filterwarnings("default")
def test_a_model_without_units_is_warned_of():
    result = run("fit", "rows.csv", "-o", "m.npz", "--rank-penalty", "1e9")
    assert "Warning: No unit was recruited" in result.stderr
    assert "has no unit" in run("transform", "m.npz", "rows.csv", code=1).stderr
    assert set(run("predict", "m.npz", "rows.npy").stdout.split()) == {"-1"}


@pytest.mark.filterwarnings("default")
def test_a_warning_is_one_line_and_not_repeated_for_every_chunk():
    np.save("wide.npy", np.random.default_rng(0).random((200, 8192)) - 0.4)
    args = ["--n-components", "5", "--rank-penalty", "0", "--max-sweeps", "1", "--tol", "1e-12"]
    result = run("fit", "wide.npy", "-o", "m.npz", *args)
    warning = r"^Warning: The responses to \d+ of 200 samples did not converge"
    assert len(re.findall(warning, result.stderr, re.M)) == result.stderr.count("converge") == 1
    assert "m.npz: 5 units, 200 samples seen" in result.stderr.splitlines()


# Responses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "npy", "parquet"])
def test_rows_are_read_back_to_the_last_bit(rows, suffix, dtype):
    run("convert", "rows.npy", f"y.{suffix}", "--dtype", dtype)
    run("convert", f"y.{suffix}", "again.npy", "--dtype", dtype)
    again = np.load("again.npy")
    assert again.dtype == dtype
    assert np.array_equal(again, rows.astype(dtype))


@pytest.mark.parametrize("suffix", ["csv", "npy", "parquet"])
def test_responses_are_those_of_the_model(rows, suffix):
    run("transform", "model.npz", "rows.csv", "-o", f"y.{suffix}")
    run("convert", f"y.{suffix}", "again.npy")
    assert np.array_equal(np.load("again.npy"), load("model.npz").transform(rows))


def test_labels_and_names_go_to_standard_output(rows):
    labels = load("model.npz").predict(rows)
    assert list(map(int, run("predict", "model.npz", "rows.npy").stdout.split())) == list(labels)
    assert run("predict", "model.npz", "rows.csv").stdout.split()[0] == "label"
    header, first, *_ = run("transform", "model.npz", "-", stdin="a,b\n1.0,1.0\n").stdout.split()
    assert header == "unit0,unit1,unit2"
    assert len(first.split(",")) == 3
    run("predict", "model.npz", "rows.csv", "-o", "labels.npy")
    assert np.array_equal(np.load("labels.npy"), labels)


def test_columns_are_those_the_model_learned():
    run("fit", "rows.csv", "-o", "m.npz", *FIT)
    swapped = run("predict", "m.npz", "rows.csv", "--columns", "b,a", code=1)
    assert "columns b, a, but the model learned the columns a, b; choose them" in swapped.stderr
    one = run("predict", "m.npz", "rows.csv", "--columns", "0", code=1)
    assert "the columns a, but the model learned the columns a, b; choose them" in one.stderr


def test_models_that_cannot_respond_are_refused():
    save(OnlineSNMF(), "new.npz")
    assert "has learned nothing" in run("predict", "new.npz", "rows.csv", code=1).stderr
    save(SymNMF(2), "offline.npz")
    assert "holds a SymNMF" in run("predict", "offline.npz", "rows.csv", code=1).stderr
    assert json.loads(run("info", "offline.npz", "--json").stdout)["model"] == "SymNMF"


def test_a_broken_pipe_is_silent():
    np.save("many.npy", np.ones((20_000, 2)))
    with start("convert", "many.npy", "-") as process:
        assert process.stdout.readline() == b"1.0,1.0\n"
        process.stdout.close()
        assert process.stderr.read() == b""


def test_a_full_standard_output_is_one_line():
    with Path("/dev/full").open("wb") as full:
        process = start("convert", "rows.npy", "-", stdout=full)
        _, stderr = process.communicate()
    assert process.returncode == 1
    assert stderr == b"Error: standard output: No space left on device\n"


# Files that fail ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["fit", "missing.csv", "-o", "model.npz"], "missing.csv: No such file"),
        (["fit", "day*.txt", "-o", "model.npz"], "no file matches"),
        (["fit", "folder.csv", "-o", "model.npz"], "folder.csv: Is a directory"),
        (["fit", "cut.npy", "-o", "model.npz"], "cut.npy ends before the 300 rows"),
        (["fit", "rows.csv", "-o", "folder.csv"], "folder.csv: a folder is where"),
        (["fit", "rows.csv", "-o", "none/m.npz"], "none/m.npz: its folder does not exist"),
        (["fit", "rows.csv", "-o", "/proc/m.npz"], "/proc/m.npz: "),
        (["fit", "rows.xyz", "-o", "model.npz"], "pass --format"),
        (["transform", "rows.csv", "rows.csv", "-o", "model.csv"], "'rows.csv' is not"),
        (["info", "missing.npz"], "missing.npz: there is no such model file"),
        (["transform", "model.npz", "cut.npy", "-o", "old.npy", "--force"], "cut.npy ends before"),
        (["convert", "cut.npy", "old.parquet"], "cut.npy ends before"),
    ],
)
def test_a_file_that_fails_is_one_line_and_the_old_one_stays(folder, args, message):
    Path("folder.csv").mkdir()
    Path("cut.npy").write_bytes(Path("rows.npy").read_bytes()[:-100])
    Path("old.npy").write_bytes(b"old")
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert message in run(*args, code=1).stderr
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


@pytest.mark.parametrize(
    "args",
    [
        ["fit", "rows.csv", "-o", "model.npz"],
        ["transform", "model.npz", "rows.csv", "--force", "-o", "old.npy"],
        ["convert", "rows.csv", "--force", "old.csv"],
        ["convert", "rows.csv", "--force", "old.parquet"],
        ["plot", "model.npz", "--data", "rows.csv", "--force", "-o", "old.png"],
    ],
)
def test_a_full_disk_leaves_the_old_file_intact(folder, args):
    for name in ("old.npy", "old.csv", "old.png", "old.parquet"):
        Path(name).write_bytes(b"old")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        result = run(*args, code=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert f"{args[-1]}: " in result.stderr
    assert "unchanged: File too large" in result.stderr
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_debug_shows_where_an_error_arose():
    result = CliRunner().invoke(main, ["--debug", "info", "missing.npz"])
    assert isinstance(result.exception, FileNotFoundError)


# Signals and arriving rows ------------------------------------------------------------------------


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_fit_resumes_to_the_same_bits(folder, signum):
    X = np.random.default_rng(0).random((150, 8192), np.float32) - np.float32(0.4)
    data = X.tobytes()
    Path("raw").write_bytes(data)
    args = ["--format", "float32", "--width", 8192, *FIT, "--checkpoint"]
    run("fit", "raw", "-o", "whole.npz", *args, "whole_part.npz")
    with start("fit", "-", "-o", "m.npz", *args, "part.npz", "--every", 1) as process:
        process.stdin.write(data[:4_000_000])
        process.stdin.flush()
        wait_for(folder / "part.npz")
        process.send_signal(signum)
        _, stderr = process.communicate()
    assert process.returncode == 128 + signum
    assert stderr.decode() == (
        "Interrupted: 72 rows are learned: run the same command with --resume to continue from "
        "part.npz.\n"
    )
    assert not Path("m.npz").exists()
    assert load("part.npz").n_samples_seen_ == 72
    run("fit", "raw", "-o", "m.npz", *args, "part.npz", "--resume")
    assert Path("m.npz").read_bytes() == Path("whole.npz").read_bytes()


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_an_interrupted_fit_has_learned_is_kept(monkeypatch, signum):
    X = np.zeros((100, 8192))
    X[np.arange(100), np.arange(100) % 3] = 1
    np.save("wide.npy", X)
    # Once the first of two chunks is learned.
    monkeypatch.setattr(Watcher, "on_progress", lambda *_: os.kill(os.getpid(), signum))
    with handled(signum, signal.default_int_handler):
        result = run("fit", "wide.npy", "-o", "m.npz", code=128 + signum)
    assert result.stderr == (
        "Interrupted: 72 rows are learned: m.npz holds them; --continue m.npz learns further "
        "rows.\n"
    )
    assert_same_model(load("m.npz"), OnlineSNMF().partial_fit(X[:72]))


@contextmanager
def handled(signum, handler):
    """Handle a signal in this way, whatever started the tests."""
    before = signal.signal(signum, handler)
    try:
        yield
    finally:
        signal.signal(signum, before)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_is_ignored_does_not_end_a_fit(monkeypatch, signum):
    monkeypatch.setattr(Watcher, "on_progress", lambda *_: os.kill(os.getpid(), signum))
    with handled(signum, signal.SIG_IGN):
        run("fit", "rows.csv", "-o", "m.npz")
    assert load("m.npz").n_samples_seen_ == 300


def test_signals_are_left_as_they_were():
    with (
        handled(signal.SIGINT, signal.SIG_IGN),
        handled(signal.SIGTERM, signal.SIG_IGN),
        handled(signal.SIGHUP, signal.SIG_IGN),
    ):
        run("info", "model.npz")
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            assert signal.getsignal(signum) == signal.SIG_IGN
        before = signal.set_wakeup_fd(-1)
    assert before == -1


def interrupting(function, *, after=False):
    """Make a function that interrupts the process when it is first called, before its work."""
    is_due = iter([True])

    def interrupted(*args, **options):
        if not after and next(is_due, False):
            signal.raise_signal(signal.SIGINT)
        result = function(*args, **options)
        if after and next(is_due, False):
            signal.raise_signal(signal.SIGINT)
        return result

    return interrupted


@pytest.mark.parametrize(
    ("name", "after", "kept"),
    [
        ("hebbnmf.persistence.atomic.os.fsync", False, "m.npz holds them; --continue m.npz learns"),
        ("hebbnmf.persistence.atomic.os.replace", True, "m.npz is written.\n"),
        ("hebbnmf.cli.summary.Watcher.summarise", False, "m.npz is written.\n"),
    ],
)
def test_an_interrupt_while_the_model_is_saved_or_summed_up_loses_nothing(
    monkeypatch, rows, name, after, kept
):
    monkeypatch.setattr(name, interrupting(resolve_name(name), after=after))
    error = run("fit", "rows.npy", "-o", "m.npz", code=130).stderr
    assert f"Interrupted: 300 rows are learned: {kept}" in error
    assert_same_model(load("m.npz"), OnlineSNMF().partial_fit(rows))
    assert len(list(Path().glob("m.*"))) == 1


def test_an_interrupt_waits_for_a_slow_disk(monkeypatch):
    """Also where Python hears no signal until the call has returned."""
    killed = []
    monkeypatch.setattr("hebbnmf.cli.signals.os._exit", killed.append)
    monkeypatch.setattr("hebbnmf.cli.signals._PATIENCE", 0.1)

    def fsync(_):
        monkeypatch.setattr("hebbnmf.persistence.atomic.os.fsync", lambda _: None)
        Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
        hashlib.pbkdf2_hmac("sha256", b"", b"", 1_500_000)

    monkeypatch.setattr("hebbnmf.persistence.atomic.os.fsync", fsync)
    run("fit", "rows.npy", "-o", "m.npz", code=130)
    assert load("m.npz").n_samples_seen_ == 300
    assert killed == []


def test_a_watch_whose_pipe_nobody_reads_is_ended_by_a_second_interrupt(folder, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(Watcher, "on_progress", lambda *_: signal.raise_signal(signal.SIGINT))
    monkeypatch.setattr("hebbnmf.persistence.atomic._Sequential", interrupting(open))
    os.mkfifo("pipe")
    error = run("fit", "rows.csv", "-o", "pipe", "--watch", code=130).stderr
    (path,) = folder.glob("hebbnmf-*/model.npz")
    assert f"300 rows are learned: {path} holds them" in error


def test_watching_learns_each_row_as_it_arrives_and_saves_in_the_end(folder, rows):
    lines = [json.dumps(row) + "\n" for row in rows.tolist()]
    growing = folder / "growing.jsonl"
    growing.write_text("".join(lines[:10]) + lines[10][:5])
    args = ["-o", "m.npz", *FIT, "--checkpoint", "c.npz", "--every", "1", "--watch"]
    with start("fit", growing, *args) as process:
        wait_for(folder / "c.npz")
        with growing.open("a") as file:
            file.write(lines[10][5:] + "".join(lines[11:20]))
        while load("c.npz").n_samples_seen_ < 20:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == 130
    learned = OnlineSNMF(3, rank_penalty=0.1).partial_fit(rows[:20]).components_
    assert np.allclose(load("m.npz").components_, learned)
    run("fit", growing, *args, "--resume", "--limit", "20")
    assert load("c.npz").n_samples_seen_ == 20


def without_response(model):
    """Give a model an odd number of units, which inhibit each other in a circle without end."""
    m = model.n_features_in_
    weights = empty_weights(m, m, np.float64)
    weights.V[:], weights.s[:], weights.Yhat[:] = np.eye(m), 1.0, 1e6
    for i in range(m):
        weights.N_T[i, (i + 1) % m] = 2.0
    model.set_params(dynamics="quartic", n_components=m, max_sweeps=100_000)
    model.learner_.configure(model.check_parameters())
    model.learner_.restore(LearnerState(weights, 1000, None))


def processor_time(process):
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def wait_for_processor(process, seconds):
    """Wait until a process has computed for so many seconds since now, by all its threads."""
    start = processor_time(process)
    while processor_time(process) < start + seconds:
        assert process.poll() is None
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.filterwarnings("ignore:The mean of X explains 100%")
@pytest.mark.parametrize(
    ("command", "n_rows", "signum"),
    [
        ("predict", 10, signal.SIGINT),  # in the main thread
        pytest.param("predict", 1000, signal.SIGTERM, marks=pytest.mark.soak),  # in a pool
        ("fit", 1000, signal.SIGTERM),
        pytest.param("fit", 10, signal.SIGINT, marks=pytest.mark.soak),
    ],
)
def test_a_forged_network_without_a_response_can_be_interrupted(command, n_rows, signum):
    np.save("ones.npy", np.ones((1000 + n_rows, 501)))
    np.save("few.npy", np.ones((n_rows, 501)))
    fit = ["fit", "ones.npy", "-o", "m.npz", "--checkpoint", "c.npz", "--rank-penalty", "1e30"]
    with pytest.warns(UserWarning, match="No unit"):
        train(
            OnlineSNMF(rank_penalty=1e30),
            open_stream("ones.npy", limit=1000),
            checkpoint="c.npz",
        )
    model, position = read("c.npz").model, read("c.npz").position
    without_response(model)
    save(model, "c.npz", position=position)
    before = Path("c.npz").read_bytes()
    predict = ["predict", "c.npz", "few.npy", "-o", "labels.csv"]
    with start(*(predict if command == "predict" else [*fit, "--resume"])) as process:
        wait_for_processor(process, 6.0)  # imports take two, and responses have no end
        begun = time.monotonic()
        process.send_signal(signum)
        _, stderr = process.communicate()
    assert time.monotonic() - begun < 2  # a second on a machine that does nothing else
    assert process.returncode == 128 + signum
    assert stderr.decode().startswith("Interrupted")
    assert len(stderr.decode().splitlines()) == 1
    assert Path("c.npz").read_bytes() == before
    assert not Path("labels.csv").exists()


def is_asleep(process):
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_an_interrupt_does_not_wait_for_the_interpreter_to_clear_up():
    with start("fit", "-", "-o", "m.npz") as process:
        n_asleep = 0
        while n_asleep < 10:  # until it waits for rows
            n_asleep = n_asleep + 1 if is_asleep(process) else 0
            time.sleep(0.05)
        before = processor_time(process)
        process.send_signal(signal.SIGINT)
        _, status, usage = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 130
    # Not by the clock, which runs on while others compute. Otherwise it takes 0.7.
    assert usage.ru_utime + usage.ru_stime - before < 0.35


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
def test_fifty_killed_commands(seed, record_property):
    rng = np.random.default_rng(seed)
    fit = ["fit", "rows.csv", *FIT, "--epochs", 4000, "--shuffle", "--seed", 1]
    run(*fit, "-o", "whole.npz")
    resumable = [*fit, "-o", "m.npz", "--checkpoint", "c.npz", "--every", 3000]
    predict = ["predict", "whole.npz", *50 * ["rows.csv"], "-o", "labels.csv"]
    run(*predict)
    labels = Path("labels.csv").read_bytes()
    Path("labels.csv").unlink()
    for command in 5 * [resumable, predict]:
        resume = ["--resume"] if command is resumable and Path("c.npz").exists() else []
        with start(*command, *resume) as process:
            time.sleep(rng.uniform(0.5, 5))
            process.kill()
        # Whatever was there is whole.
        assert not Path("c.npz").exists() or read("c.npz").position is not None
        assert not Path("m.npz").exists() or load("m.npz")
        assert not Path("labels.csv").exists() or Path("labels.csv").read_bytes() == labels
    run(*resumable, *(["--resume"] if Path("c.npz").exists() else []))
    assert Path("m.npz").read_bytes() == Path("whole.npz").read_bytes()
    record_property("killed commands", {"killed": 10, "half-written files": 0})


# info, plot ---------------------------------------------------------------------------------------


def test_info_tells_the_same_to_people_and_programs():
    run("fit", "rows.csv", "-o", "m.npz", *FIT, "--scale", "--track-cost", "--checkpoint", "c.npz")
    facts = json.loads(run("info", "m.npz", "--json").stdout)
    assert facts["units"] == 3
    assert facts["samples_seen"] == 300
    assert facts["cost"] == load_any("m.npz").cost_
    assert facts["feature_names"] == ["a", "b"]
    assert facts["parameters"]["rank_penalty"] == 0.1
    assert [step["class"] for step in facts["preprocessing"]] == ["StandardScaler"]
    assert facts["libraries"]["numpy"] == np.__version__
    text = run("info", "m.npz").stdout
    assert re.search(r"^units +3$", text, re.M)
    assert re.search(r"^preprocessing +.*StandardScaler", text, re.M)
    assert json.loads(run("info", "c.npz", "--json").stdout)["position"]["epoch"] == 0
    save(OnlineSNMF(), "new.npz")
    assert json.loads(run("info", "new.npz", "--json").stdout)["units"] is None


def load_any(path):
    return read(path).model


def test_the_picture_suits_the_model(monkeypatch):
    drawn = []
    for kind in ("filters", "clusters", "directions", "activity_density", "cost"):
        name = f"hebbnmf.plots.plot_{kind}"
        monkeypatch.setattr(name, lambda *_, kind=kind, ax: drawn.append(kind) or ax)
    rng = np.random.default_rng(0)
    np.save("patches.npy", rng.standard_normal((200, 16)))
    np.save("five.npy", rng.standard_normal((200, 5)))
    for name in ("patches", "five"):
        run("fit", f"{name}.npy", "-o", f"{name}.npz", "--scale", "--whiten")
    run("plot", "patches.npz", "-o", "p.png")
    run("plot", "model.npz", "--data", "rows.csv", "-o", "p.svg")
    run("plot", "five.npz", "--data", "five.npy", "-o", "p.pdf")
    run("plot", "model.npz", "--data", "rows.csv", "--kind", "activity", "-o", "p.png")
    for kind in ("directions", "cost"):
        run("plot", "model.npz", "--data", "rows.csv", "--kind", kind, "-o", "p.png")
    run("fit", "five.npy", "-o", "pca.npz", "--model", "pca", "--n-components", "2")
    run("plot", "pca.npz", "--data", "five.npy", "-o", "p.png")
    assert drawn == [
        *("filters", "clusters", "clusters", "activity_density"),
        *("directions", "cost", "activity_density"),
    ]
    assert Path("p.png").read_bytes().startswith(b"\x89PNG")
    assert "--data FILE" in run("plot", "five.npz", "-o", "p.png", code=2).stderr
    without = ["pca.npz", "--data", "five.npy", "--kind", "clusters", "-o", "p.png"]
    assert "has no clusters" in run("plot", *without, code=1).stderr


def test_clusters_of_a_kernel_are_drawn_on_the_plane_of_the_rows_before_it(rows):
    run("fit", "rows.csv", "-o", "m.npz", "--clusters", "3", "--seed", "0")
    run("plot", "m.npz", "--data", "rows.csv", "-o", "p.svg")
    drawn = Path("p.svg").read_text()
    assert "feature 1" in re.sub("<[^>]*>", "", drawn) or "<!-- feature 1 -->" in drawn
    assert drawn.count("<use ") > len(rows)


def test_filters_act_on_rows_as_they_were():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 16)) * rng.uniform(0.5, 2, 16)
    np.save("patches.npy", X)
    run("fit", "patches.npy", "-o", "m.npz", "--scale", "--whiten")
    file = read("m.npz")
    prepared = X
    for step in file.preprocessing:
        prepared = step.transform(prepared)
    W = file.model.components_
    filters = input_filters(W, file.preprocessing)
    assert np.allclose((X - X.mean(axis=0)) @ filters.T, prepared @ W.T)
    run("plot", "m.npz", "-o", "filters.png")

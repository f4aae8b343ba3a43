"""scikit-learn's contract for estimators, in both dynamics, and what its own checks leave out."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

import hebbnmf
from hebbnmf import (
    NonnegativeICA,
    OnlineDictionary,
    OnlinePCA,
    OnlineSNMF,
    StreamPipeline,
    SymNMF,
)
from hebbnmf.feature_map import RBFMap
from hebbnmf.preprocessing import MissingFiller, PatchNormalizer, RunningScaler, ZCAWhitener

TRANSFORMERS = [
    OnlineSNMF(),
    OnlineSNMF(dynamics="quartic"),
    OnlinePCA(),
    OnlineDictionary(),
    NonnegativeICA(2),  # there are ten samples in some checks
    MissingFiller(),
    PatchNormalizer(),
    RBFMap(n_landmarks=3),
    RunningScaler(),
    RunningScaler(memory=20),
    ZCAWhitener(),
]
OUTPUT_CHECKS = [
    estimator_checks.check_transformer_get_feature_names_out,
    estimator_checks.check_transformer_get_feature_names_out_pandas,
    estimator_checks.check_dataframe_column_names_consistency,
    estimator_checks.check_set_output_transform,
    estimator_checks.check_set_output_transform_pandas,
    estimator_checks.check_set_output_transform_polars,
    estimator_checks.check_global_output_transform_pandas,
    estimator_checks.check_global_set_output_transform_polars,
]


@pytest.mark.filterwarnings("ignore:The mean of X explains")
@parametrize_with_checks([*TRANSFORMERS, SymNMF(), SymNMF(init="random")])
def test_scikit_learn_check(estimator, check):
    check(estimator)


PIPELINE = StreamPipeline([("scaler", RunningScaler()), ("network", OnlineSNMF(3))])
# scikit-learn's own Pipeline fails these two: its steps are parameters, and it fits them.
OF_ANY_PIPELINE = {
    "check_estimators_overwrite_params": "fits its steps",
    "check_dont_overwrite_parameters": "fits its steps",
}


@parametrize_with_checks([PIPELINE], expected_failed_checks=lambda _: OF_ANY_PIPELINE)
def test_scikit_learn_check_of_a_pipeline(estimator, check):
    check(estimator)


# These checks fit on a frame and transform an array on purpose, and the other way round.
@pytest.mark.filterwarnings("ignore:X .* feature names, but")
@pytest.mark.parametrize("estimator", TRANSFORMERS, ids=repr)
@pytest.mark.parametrize("check", OUTPUT_CHECKS, ids=lambda c: c.__name__)
def test_scikit_learn_output_check(estimator, check):
    check(type(estimator).__name__, clone(estimator))


@pytest.fixture
def X():
    return np.random.default_rng(0).standard_normal((40, 3))


@pytest.mark.parametrize(
    ("container", "frame"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)]
)
def test_every_transform_returns_the_container_that_was_set(X, container, frame):
    named = frame({name: X[:, j] for j, name in enumerate("abc")})
    net = OnlineSNMF(4).set_output(transform=container)
    outputs = [net.partial_fit_transform(named), net.transform(named), net.fit_transform(named)]
    for Y in outputs:
        assert isinstance(Y, frame)
        assert list(Y.columns) == ["onlinesnmf0", "onlinesnmf1", "onlinesnmf2", "onlinesnmf3"]
    assert list(net.feature_names_in_) == list("abc")


def test_online_responses_keep_the_index_of_a_pandas_frame(X):
    frame = pd.DataFrame(X, columns=list("abc"), index=[f"row {i}" for i in range(len(X))])
    Y = OnlineSNMF(2).set_output(transform="pandas").partial_fit_transform(frame)
    assert (Y.index == frame.index).all()


def test_a_chunk_with_other_feature_names_is_refused_and_not_learned(X):
    net = OnlineSNMF(2).partial_fit(pd.DataFrame(X, columns=list("abc")))
    before = net.components_
    with pytest.raises(ValueError, match="feature names should match"):
        net.partial_fit(pd.DataFrame(X, columns=list("abd")))
    np.testing.assert_array_equal(net.components_, before)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_data_that_are_refused_leave_a_fitted_model_as_it_was(X, bad, method):
    frame = pd.DataFrame(X, columns=list("abc"))
    net = OnlineSNMF(2).fit(frame)
    before = net.transform(frame)
    with pytest.raises(ValueError, match=r"NaN|infinity|squared norm|names should match"):
        getattr(net, method)(pd.DataFrame([[1.0, bad]], columns=list("pq")))
    assert (net.n_features_in_, list(net.feature_names_in_)) == (3, list("abc"))
    np.testing.assert_array_equal(net.transform(frame), before)


def test_frames_in_single_precision_stay_so_in_every_library(X):
    narrow = pd.DataFrame(X.astype(np.float32), columns=list("abc"))
    for frame in (narrow, narrow.astype("Float32"), pl.from_pandas(narrow)):
        assert OnlineSNMF(2).fit(frame).components_.dtype == np.float32
    for frame in (narrow.astype({"a": float}), pl.from_pandas(narrow).cast(pl.Float64)):
        assert OnlineSNMF(2).fit(frame).components_.dtype == np.float64


def test_a_frame_that_is_not_computed_yet_is_refused(X):
    with pytest.raises(TypeError, match=r"X is a LazyFrame.*pass X\.collect\(\)"):
        OnlineSNMF(2).fit(pl.DataFrame(X, schema=list("abc")).lazy())


def test_no_recruited_unit_means_no_column_in_every_container(X):
    net = OnlineSNMF(2, rank_penalty=1e9).partial_fit(X)
    assert net.transform(X).shape == (40, 0)
    assert net.get_feature_names_out().shape == (0,)
    assert net.set_output(transform="pandas").transform(X).shape == (40, 0)


def test_fit_transform_equals_fit_then_transform(X):
    np.testing.assert_array_equal(OnlineSNMF(4).fit_transform(X), OnlineSNMF(4).fit(X).transform(X))


def test_works_in_a_pipeline_and_a_grid_search(X):
    search = GridSearchCV(
        make_pipeline(StandardScaler(), OnlineSNMF()),
        {"onlinesnmf__n_components": [1, 2]},
        scoring=lambda model, X: -np.square(model.transform(X)).sum(),
        cv=2,
    )
    assert search.fit(X).best_params_ == {"onlinesnmf__n_components": 1}


def test_the_private_name_of_scikit_learn_that_is_used_still_exists():
    # hebbnmf/estimators/_sklearn.py is the only file that imports private names of scikit-learn.
    module = importlib.import_module("sklearn.utils._set_output")
    assert hasattr(module, "_wrap_data_with_container"), (
        "scikit-learn has moved _wrap_data_with_container: adapt hebbnmf/estimators/_sklearn.py"
    )
    source = Path(hebbnmf.__file__).parent
    users = [p.name for p in source.rglob("*.py") if re.search(r"sklearn[.\w]*\._", p.read_text())]
    assert users == ["_sklearn.py"]


def test_public_submodules_are_attributes():
    code = "import hebbnmf; [getattr(hebbnmf, name) for name in hebbnmf.__all__]; "
    code += "hebbnmf.adapters.river.RiverSNMF, hebbnmf.estimators.OnlineSNMF"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("method", ["transform", "predict", "score"])
def test_the_number_of_threads_reaches_the_network_and_is_checked(X, method, monkeypatch):
    net = OnlineSNMF(3, n_jobs=2).fit(X)
    seen = []
    respond = hebbnmf.Network.respond

    def recorded(self, rows, n_jobs=None, **options):
        seen.append(n_jobs)
        return respond(self, rows, n_jobs, **options)

    monkeypatch.setattr(hebbnmf.Network, "respond", recorded)
    getattr(net, method)(X)
    assert seen == [2]
    for bad in (0, "all", True):
        with pytest.raises(ValueError, match=r"n_jobs=.* cannot be used"):
            getattr(net.set_params(n_jobs=bad), method)(X)


def test_a_warning_reaches_a_caller_without_a_module_name(X):
    code = compile("net.partial_fit(X)", "cell", "exec")
    with pytest.warns(ConvergenceWarning) as caught:
        exec(code, {"net": OnlineSNMF(3, max_sweeps=1, tol=1e-12, rank_penalty=0.0), "X": X})
    assert caught[0].filename == "cell"

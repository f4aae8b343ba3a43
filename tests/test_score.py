"""Explained similarity: its values, and the model selection of scikit-learn that rests on it."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hebbnmf import OnlineSNMF
from hebbnmf.datasets import make_sparse_sources, make_three_gaussians

FRAMES = [pd.DataFrame, pl.DataFrame]


@pytest.fixture
def X():
    return make_three_gaussians(random_state=0)[0]


def named(frame, X, names="abc"):
    return frame({name: X[:, j] for j, name in enumerate(names)})


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_samples", [3, 200, 5000])
def test_score_is_one_less_the_share_of_the_whole_matrix_of_similarities(n_samples, dtype):
    X = make_sparse_sources(n_samples, 6, random_state=0).astype(dtype)
    net = OnlineSNMF(8).fit(X)
    wide, Y = X.astype(np.float64), net.transform(X).astype(np.float64)
    missed = np.square(wide @ wide.T - Y @ Y.T).sum() / np.square(wide @ wide.T).sum()
    assert net.score(X) == pytest.approx(1 - missed, rel=1e-9)


@pytest.mark.parametrize("scale", [2.0**-280, 2.0**253])
def test_score_does_not_depend_on_the_scale_even_where_fourth_powers_have_no_number(X, scale):
    net = OnlineSNMF(3, rank_penalty=0.1).fit(X)
    assert net.score(scale * X) == pytest.approx(net.score(X), rel=1e-9)
    assert 0 < net.score(X) < 1


def test_silence_scores_zero_and_samples_of_zeros_score_one(X):
    silent = OnlineSNMF(3, rank_penalty=1e9).partial_fit(X)
    assert silent.score(X) == 0
    assert silent.score(np.zeros((4, 2))) == 1
    assert OnlineSNMF(3).fit(X).score(np.zeros((4, 2))) == 1


def test_score_refuses_what_transform_refuses(X):
    with pytest.raises(NotFittedError):
        OnlineSNMF().score(X)
    net = OnlineSNMF(3).fit(X)
    with pytest.raises(ValueError, match="NaN"):
        net.score([[np.nan, 1.0]])


def test_score_warns_of_responses_that_did_not_converge(X):
    net = OnlineSNMF(3, rank_penalty=0.1, tol=1e-12, max_sweeps=1)
    with pytest.warns(ConvergenceWarning):
        net.partial_fit(X)
    with pytest.warns(ConvergenceWarning, match="of 300 samples did not converge"):
        net.score(X)


@pytest.mark.parametrize("frame", FRAMES)
def test_a_frame_scores_as_its_array_whatever_the_output_container(X, frame):
    net = OnlineSNMF(3, rank_penalty=0.1).fit(named(frame, X, "ab"))
    plain = OnlineSNMF(3, rank_penalty=0.1).fit(X).score(X)
    for container in ("default", "pandas", "polars"):
        assert net.set_output(transform=container).score(named(frame, X, "ab")) == plain


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("method", ["partial_fit", "partial_fit_transform", "transform", "score"])
def test_feature_names_are_kept_and_checked_in_every_chunk(X, frame, method):
    net = OnlineSNMF(3)
    for start in (0, 100, 200):
        net.partial_fit(named(frame, X[start : start + 100], "ab"))
        assert list(net.feature_names_in_) == ["a", "b"]
        with pytest.raises(ValueError, match="feature names should match"):
            getattr(net, method)(named(frame, X, "ba"))
    assert net.n_samples_seen_ == 300


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_responses_of_some_columns_join_the_others_in_a_column_transformer(X, container):
    frame = named(
        pd.DataFrame if container == "pandas" else pl.DataFrame, np.hstack([X, X]), "abcd"
    )
    columns = ColumnTransformer(
        [("net", OnlineSNMF(2, rank_penalty=0.1), ["a", "b"])], remainder="passthrough"
    ).set_output(transform=container)
    assert list(columns.fit_transform(frame).columns) == [
        "net__onlinesnmf0",
        "net__onlinesnmf1",
        "remainder__c",
        "remainder__d",
    ]


def test_a_pipeline_scores_by_its_last_step(X):
    pipeline = make_pipeline(StandardScaler(), OnlineSNMF(3)).fit(X)
    Z = StandardScaler().fit_transform(X)
    assert pipeline.score(X) == OnlineSNMF(3).fit(Z).score(Z)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_grid_search_prefers_more_units_without_a_scoring_argument(X, n_jobs):
    model = make_pipeline(StandardScaler(), OnlineSNMF(rank_penalty=0.1))
    search = GridSearchCV(model, {"onlinesnmf__n_components": [1, 4]}, cv=2, n_jobs=n_jobs)
    frame = named(pd.DataFrame, X, "ab")
    assert search.fit(frame).best_params_ == {"onlinesnmf__n_components": 4}
    assert 0.5 < search.score(frame) <= 1


def test_cross_validation_scores_every_fold_on_what_it_left_out(X):
    scores = cross_val_score(OnlineSNMF(3, rank_penalty=0.1), X, cv=3)
    for k, left_out in enumerate(np.split(np.arange(300), 3)):
        net = OnlineSNMF(3, rank_penalty=0.1).fit(np.delete(X, left_out, axis=0))
        assert scores[k] == net.score(X[left_out])


STATES = {
    "new": lambda net, X: net,  # noqa: ARG005
    "without a unit": lambda net, X: net.set_params(rank_penalty=1e9).partial_fit(X),
    "recruiting": lambda net, X: net.partial_fit(X[:1]),
    "fitted": lambda net, X: net.fit(X),
    "tracking cost": lambda net, X: net.set_params(track_cost=True).fit(X),
    "named": lambda net, X: net.fit(named(pd.DataFrame, X, "ab")),
    "float32": lambda net, X: net.fit(X.astype(np.float32)),
}


@pytest.mark.parametrize("reach", STATES.values(), ids=STATES)
def test_a_pickled_model_goes_on_in_every_state_and_a_clone_begins_anew(X, reach):
    net = reach(OnlineSNMF(3, rank_penalty=0.1), X)
    data = named(pd.DataFrame, X, "ab") if hasattr(net, "feature_names_in_") else X
    again = pickle.loads(pickle.dumps(net))
    fresh = clone(net)
    assert not hasattr(fresh, "n_features_in_")
    assert fresh.get_params() == net.get_params()
    for model in (net, again):
        model.partial_fit(data)
    np.testing.assert_array_equal(again.components_, net.components_)
    assert again.score(data) == net.score(data)

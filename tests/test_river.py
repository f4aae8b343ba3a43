"""RiverSNMF: river's own checks, features that come and go, and pipelines."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from river import checks, evaluate, linear_model, metrics, preprocessing, stream
from sklearn.exceptions import ConvergenceWarning

from hebbnmf import Network, OnlinePCA, Settings
from hebbnmf.adapters.river import RiverPCA, RiverSNMF
from hebbnmf.datasets import make_sparse_sources, make_three_gaussians

MODELS = [RiverSNMF(), RiverSNMF(dynamics="quartic")]
CHECKS = [(model, check) for model in [*MODELS, RiverPCA()] for check in checks.yield_checks(model)]


@pytest.mark.parametrize(
    ("model", "check"), CHECKS, ids=[f"{model!r}-{c.__name__}" for model, c in CHECKS]
)
def test_river_check(model, check):
    check(model.clone())


PLAIN = {"memory": None}
SECTION_III_C = {"initial_activity": 20.0, "activity_gain": 0.1, "memory": None}
MEMORY = {"rank_penalty": "auto", "memory": 10, "recycle": True}


def dicts(X, names):
    return [dict(zip(names, row, strict=True)) for row in X.tolist()]


def assert_same_network(model, net):
    order = list(model.columns.values())
    np.testing.assert_allclose(
        model.learner.network.components, net.components[:, order], rtol=1e-9
    )
    np.testing.assert_allclose(
        model.learner.network.lateral_weights, net.lateral_weights, rtol=1e-9
    )
    np.testing.assert_array_equal(model.learner.network.unit_births, net.unit_births)


@pytest.mark.parametrize("dynamics", ["rectified", "quartic"])
@pytest.mark.parametrize("schedule", [PLAIN, SECTION_III_C, MEMORY])
def test_features_that_come_and_go_give_the_network_of_zeros_in_their_place(dynamics, schedule):
    X = make_sparse_sources(60, 4, random_state=0)
    X[:20, 2:] = 0
    X[20:40, 0] = 0
    X[40:, 1:] = 0
    X[50, :] = 0
    schedule = {"rank_penalty": 0.1, **schedule}
    settings = Settings(6, dynamics=dynamics, tol=1e-10, **schedule)
    net = Network(4, settings.rules())
    net.learn(X)
    model = RiverSNMF(6, dynamics=dynamics, tol=1e-10, **schedule)
    for row in dicts(X, "abcd"):
        model.learn_one({name: value for name, value in row.items() if value != 0})
    assert sorted(model.columns) == list("abcd")
    assert_same_network(model, net)


@pytest.mark.parametrize("dynamics", ["rectified", "quartic"])
def test_a_feature_never_seen_counts_in_the_norm_of_a_sample_and_is_not_kept(dynamics):
    X = make_sparse_sources(50, 3, random_state=1)
    model = RiverSNMF(4, rank_penalty=0.1, dynamics=dynamics)
    net = Network(4, Settings(4, rank_penalty=0.1, dynamics=dynamics).rules())
    for row in dicts(X, "abc"):
        model.learn_one(row)
        net.learn(np.array([[*row.values(), 0.0]]))
    response = model.transform_one({"a": 1.0, "b": 2.0, "c": 0.5, "new": 3.0})
    expected = net.respond(np.array([[1.0, 2.0, 0.5, 3.0]])).Y[0]
    np.testing.assert_allclose(list(response.values()), expected)
    assert list(model.columns) == list("abc")


def test_frames_are_learned_and_responded_to_as_their_rows():
    X = make_three_gaussians(random_state=0)[0]
    frame = pd.DataFrame(X, columns=["a", "b"], index=[f"row {i}" for i in range(len(X))])
    one, many = RiverSNMF(3, rank_penalty=0.1), RiverSNMF(3, rank_penalty=0.1)
    for row in dicts(X, "ab"):
        one.learn_one(row)
    many.learn_many(frame[["a"]].head(0))
    many.learn_many(frame)
    assert_same_network(one, many.learner.network)
    Y = many.transform_many(frame)
    assert (Y.index == frame.index).all()
    for t in (0, 150, 299):
        x = frame.iloc[t].to_dict()
        np.testing.assert_allclose(Y.iloc[t], list(one.transform_one(x).values()), rtol=1e-9)
        assert one.predict_one(x) == (Y.iloc[t].argmax() if Y.iloc[t].any() else -1)


def test_clusters_in_a_pipeline_after_a_scaler():
    X, labels = make_three_gaussians(random_state=0)
    model = preprocessing.StandardScaler() | RiverSNMF(3, rank_penalty=0.1)
    found = []
    for x in dicts(X, "ab"):
        found.append(model.predict_one(x))
        model.learn_one(x)
    assert found[0] == -1
    table = pd.crosstab(labels[100:], np.array(found)[100:])
    assert table.max(axis=1).sum() > 150
    many = model.transform_many(pd.DataFrame(X, columns=["a", "b"]))
    assert list(many.columns) == ["unit0", "unit1", "unit2"]


@pytest.mark.parametrize(
    "frame", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"]
)
def test_frames_of_every_library_go_in_and_come_out(frame):
    X = make_three_gaussians(random_state=0)[0]
    rows = frame({"a": X[:, 0], "b": X[:, 1]})
    model = preprocessing.StandardScaler() | RiverSNMF(3, rank_penalty=0.1)
    assert model.transform_many(rows).shape[1] == 0
    model.learn_many(rows)
    Y, labels = model.transform_many(rows), model.predict_many(rows)
    assert type(Y) is type(rows)
    one = [model.predict_one(x) for x in dicts(X, "ab")]
    np.testing.assert_array_equal(np.asarray(labels), one)
    responses = [list(model.transform_one(x).values()) for x in dicts(X, "ab")]
    np.testing.assert_allclose(np.asarray(Y), responses, rtol=1e-9)


def test_responses_join_other_features_and_feed_other_steps():
    X, labels = make_three_gaussians(random_state=0)
    union = RiverSNMF(3, rank_penalty=0.1) + preprocessing.StandardScaler()
    product = RiverSNMF(3, rank_penalty=0.1) * preprocessing.StandardScaler()
    for x, _ in stream.iter_array(X):  # features are named by numbers
        union.learn_one(x)
        product.learn_one({f"x{name}": value for name, value in x.items()})
    assert set(union.transform_one({0: 1.0, 1: 1.0})) == {0, 1, "unit0", "unit1", "unit2"}
    assert "unit0*x1" in product.transform_one({"x0": 1.0, "x1": 1.0})
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = preprocessing.StandardScaler() | RiverSNMF(3, rank_penalty=0.1)
    model |= preprocessing.StandardScaler()
    model |= linear_model.LinearRegression()
    for _ in range(200):
        model.learn_many(frame, pd.Series(labels == 2, dtype=float))
    found = model.predict_many(frame).to_numpy() > 0.5
    assert np.mean(found == (labels == 2)) > 0.9


def test_is_evaluated_by_labels_in_a_pipeline():
    X, labels = make_three_gaussians(random_state=0)
    model = preprocessing.StandardScaler() | RiverSNMF(3, rank_penalty=0.1)
    pairs = zip(dicts(X, "ab"), labels.tolist(), strict=True)
    metric = evaluate.progressive_val_score(pairs, model, metrics.AdjustedRand())
    assert metric.get() > 0.8


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_of_a_trained_pipeline_goes_on_as_the_pipeline_does(copied):
    X = make_three_gaussians(random_state=0)[0]
    model = preprocessing.StandardScaler() | RiverSNMF(3, rank_penalty=0.1)
    for x in dicts(X[:150], "ab"):
        model.learn_one(x)
    again = copied(model)
    for x in dicts(X[150:], "ab"):
        assert again.transform_one(x) == model.transform_one(x)
        for one in (model, again):
            one.learn_one(x)


def test_a_clone_that_keeps_what_was_learned_goes_on_by_its_new_parameters():
    model = RiverSNMF(1, rank_penalty=0.1)
    model.learn_one({"a": 2.0})
    model.learn_one({"b": 2.0})
    wider = model.clone({"n_components": 2}, include_attributes=True)
    wider.learn_one({"b": 2.0})
    assert list(wider.transform_one({"a": 1.0})) == ["unit0", "unit1"]
    assert list(model.transform_one({"a": 1.0})) == ["unit0"]
    assert model.clone().transform_one({"a": 1.0}) == {}


def test_a_sample_without_features_belongs_to_no_cluster():
    model = RiverSNMF(3)
    assert (model.predict_one({}), model.transform_one({})) == (-1, {})
    model.learn_one({})
    model.learn_one({"a": 2.0})
    assert (model.predict_one({}), model.transform_one({})) == (-1, {"unit0": 0.0})


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e160])
def test_a_bad_sample_is_refused_and_leaves_the_model_as_it_was(bad):
    model = RiverSNMF(3)
    model.learn_one({"a": 2.0})
    for call in (model.learn_one, model.transform_one, model.predict_one):
        with pytest.raises(ValueError, match=r"contains NaN or infinity|squared norm"):
            call({"a": 1.0, "b": bad})
    with pytest.raises(ValueError, match=r"contains NaN or infinity|squared norm"):
        model.learn_many(pd.DataFrame([{"a": 1.0}, {"b": bad}]))
    assert (list(model.columns), model.learner.network.n_samples) == (["a"], 1)


def test_columns_of_one_name_are_refused_and_leave_the_model_as_it_was():
    model = RiverSNMF(3)
    frame = pd.DataFrame([[1.0, 2.0]], columns=["a", "a"])
    for call in (model.learn_many, model.transform_many):
        with pytest.raises(ValueError, match="unique column names"):
            call(frame)
    assert (model.columns, model.learner.network.n_samples) == ({}, 0)


def test_a_bad_parameter_is_refused_at_once():
    with pytest.raises(ValueError, match="n_components=0 cannot be used"):
        RiverSNMF(0)


def test_responses_that_did_not_converge_are_warned_of():
    model = RiverSNMF(3, rank_penalty=0.1, tol=1e-12, max_sweeps=1)
    model.learn_one({0: 1.0, 1: 1.0})
    with pytest.warns(ConvergenceWarning, match="did not converge within max_sweeps=1"):
        model.learn_many(pd.DataFrame(make_three_gaussians(random_state=0)[0]))


def test_without_river_the_package_works_and_the_error_names_the_extra():
    code = """
import sys
sys.modules["river"] = None
import hebbnmf
hebbnmf.OnlineSNMF
try:
    import hebbnmf.adapters.river
except ImportError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "needs river: install the extra by pip install 'hebbnmf[river]'" in run.stdout


def test_pca_on_dicts_is_that_of_rows_with_zeros_for_what_is_absent():
    X = make_sparse_sources(200, 4, random_state=0)
    X[:50, 2:] = 0
    X[50:60, 0] = 0
    pca = OnlinePCA(2, memory=50).partial_fit(X)
    model = RiverPCA(2, memory=50)
    for row in dicts(X, "abcd"):
        model.learn_one({name: value for name, value in row.items() if value != 0})
    many = RiverPCA(2, memory=50)
    many.learn_many(pd.DataFrame(X, columns=list("abcd")))
    expected = pca.transform(X)
    frame = many.transform_many(pd.DataFrame(X, columns=list("abcd")))
    assert list(frame.columns) == ["component0", "component1"]
    np.testing.assert_allclose(frame, expected, atol=1e-9)
    for t in (0, 55, 199):
        found = model.transform_one(dicts(X, "abcd")[t] | {"never seen": 3.0})
        np.testing.assert_allclose(np.abs(list(found.values())), np.abs(expected[t]), atol=1e-9)
    assert "never seen" not in model.columns

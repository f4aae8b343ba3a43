"""StreamPipeline: it learns from streams, and is scikit-learn's Pipeline in all else."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.cluster import MiniBatchKMeans
from sklearn.datasets import load_iris, make_blobs
from sklearn.decomposition import PCA, IncrementalPCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import hebbnmf
from hebbnmf import (
    NonnegativeICA,
    OnlineDictionary,
    OnlinePCA,
    OnlineSNMF,
    StreamPipeline,
    make_online_clusterer,
)
from hebbnmf.feature_map import RBFMap
from hebbnmf.preprocessing import MissingFiller, PatchNormalizer, RunningScaler, ZCAWhitener

FIRST = 150


def blobs(n_samples=600, n_features=4):
    X, _ = make_blobs(n_samples, n_features, centers=5, random_state=0)
    return X * [1e-3, 1.0, 10.0, 1e4]


def clusterer(**settings):
    return make_online_clusterer(5, n_landmarks=40, random_state=0, **settings)


def scaled_network(**settings):
    return StreamPipeline([("scaler", RunningScaler()), ("network", OnlineSNMF(5, **settings))])


MODELS = {
    "clusterer": clusterer,
    "linear": lambda: clusterer(kernel="linear"),
    "drifting": lambda: clusterer(memory=100),
    "with a step that is fitted once": lambda: StreamPipeline(
        [("scaler", RunningScaler()), ("pca", PCA(3)), ("network", OnlineSNMF(5))]
    ),
    "with steps that do nothing": lambda: StreamPipeline(
        [("a", "passthrough"), ("scaler", RunningScaler()), ("b", None), ("network", OnlineSNMF(5))]
    ),
    "of networks": lambda: StreamPipeline(
        [("scaler", RunningScaler()), ("features", OnlineSNMF(8)), ("network", OnlineSNMF(5))]
    ),
}


# Every step of this package that may stand before a network.
STEPS = [
    MissingFiller(),
    PatchNormalizer(),
    RBFMap(n_landmarks=40, random_state=0),
    RunningScaler(),
    RunningScaler(memory=50),
    ZCAWhitener(),
    ZCAWhitener(eps=0.0),
    NonnegativeICA(3),
    OnlineDictionary(8),
    OnlinePCA(3),
    OnlineSNMF(8),
]


def in_chunks(model, X, size, first=FIRST):
    """Learn a first chunk, then chunks of a size; return the model and all outputs."""
    model.partial_fit(X[:first].copy())
    outputs = [
        model.partial_fit_transform(X[i : i + size].copy()) for i in range(first, len(X), size)
    ]
    width = max(output.shape[1] for output in outputs)
    return np.vstack([np.pad(Y, ((0, 0), (0, width - Y.shape[1]))) for Y in outputs])


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_chunks_of_any_size_after_the_first_give_the_same_result(make):
    X = blobs()
    models = [make() for _ in range(3)]
    outputs = [in_chunks(m, X, size) for m, size in zip(models, (1, 7, 1000), strict=True)]
    assert outputs[0].any()
    for model, Y in zip(models[1:], outputs[1:], strict=True):
        np.testing.assert_allclose(Y, outputs[0], atol=1e-6)
        np.testing.assert_allclose(
            model["network"].components_, models[0]["network"].components_, atol=1e-9
        )
        np.testing.assert_array_equal(model.predict(X), models[0].predict(X))


def test_every_step_of_the_package_is_tried():
    modules = (hebbnmf.estimators, hebbnmf.feature_map, hebbnmf.preprocessing)
    public = {getattr(module, name) for module in modules for name in module.__all__}
    online = {c for c in public if hasattr(c, "transform") and c is not hebbnmf.SymNMF}
    assert {type(step) for step in STEPS} == online


@pytest.mark.filterwarnings("ignore:The mean of X")
@pytest.mark.parametrize("step", [s for s in STEPS if not isinstance(s, OnlinePCA)], ids=repr)
def test_behind_any_step_of_the_package_chunks_of_any_size_give_the_same_result(step):
    X = StandardScaler().fit_transform(blobs(2000))
    if isinstance(step, MissingFiller):
        X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    models = [
        StreamPipeline([("step", clone(step)), ("network", OnlineSNMF(5, tol=1e-9))])
        for _ in range(3)
    ]
    Y = [in_chunks(model, X, size) for model, size in zip(models, (1, 7, 1000), strict=True)]
    assert Y[0].any()
    for other in Y[1:]:
        np.testing.assert_allclose(other, Y[0], atol=1e-6)


@pytest.mark.filterwarnings("ignore:The mean of X")
@pytest.mark.parametrize("step", [*STEPS, OnlinePCA(3, whiten=True)], ids=repr)
def test_what_a_step_gives_for_new_rows_is_what_it_gave_while_it_learned(step):
    X = StandardScaler().fit_transform(blobs(4000))
    model = StreamPipeline([("step", clone(step)), ("network", OnlineSNMF(5))])
    labels = [model.partial_fit(rows).labels_ for rows in np.split(X, 8)][-1]
    assert adjusted_rand_score(labels, model.predict(X[-500:])) > 0.8


def test_where_every_step_goes_row_by_row_the_first_chunk_is_like_all_others():
    X = blobs()
    one, other = scaled_network(), scaled_network()
    in_chunks(one, X, 7, first=1)
    in_chunks(other, X, 1000, first=500)
    np.testing.assert_allclose(one["network"].components_, other["network"].components_, atol=1e-9)


def test_every_row_passes_the_steps_as_they_stand_when_it_arrives():
    X = blobs()
    model = scaled_network()
    scaler, network = RunningScaler(), OnlineSNMF(5)
    for chunk in np.split(X, 4):
        expected = network.partial_fit_transform(scaler.partial_fit_transform(chunk.copy()))
        np.testing.assert_array_equal(model.partial_fit_transform(chunk.copy()), expected)
        np.testing.assert_array_equal(model.labels_, network.labels_)
    np.testing.assert_array_equal(model.transform(X), network.transform(scaler.transform(X)))


def test_the_first_chunk_is_fitted_as_a_pipeline_is():
    X = blobs()
    model, batch = clusterer(), clusterer()
    model.partial_fit(X[:FIRST])
    prepared = batch[:-1].fit_transform(X[:FIRST])
    np.testing.assert_array_equal(model[:-1].transform(X), batch[:-1].transform(X))
    expected = OnlineSNMF(5).partial_fit(prepared)
    np.testing.assert_array_equal(model["network"].components_, expected.components_)
    # and what was fitted to it alone stays as it is
    landmarks = model["kernel"].landmarks_.copy()
    model.partial_fit(X[FIRST:])
    np.testing.assert_array_equal(model["kernel"].landmarks_, landmarks)


def test_steps_of_scikit_learn_transform_a_chunk_as_they_stood_then_learn_from_it():
    X = blobs()
    model = StreamPipeline([("scaler", StandardScaler()), ("network", OnlineSNMF(5))])
    scaler, network = StandardScaler().fit(X[:200]), OnlineSNMF(5)
    model.partial_fit(X[:200])
    network.partial_fit(scaler.transform(X[:200]))
    model.partial_fit(X[200:])
    network.partial_fit(scaler.transform(X[200:]))
    np.testing.assert_array_equal(model["network"].components_, network.components_)
    assert model["scaler"].n_samples_seen_ == 600


@pytest.mark.filterwarnings("ignore:n_landmarks")
@pytest.mark.parametrize(("name", "step"), [("kernel", RBFMap()), ("pca", PCA(3))])
def test_a_first_chunk_too_small_for_a_step_is_refused(name, step):
    X = blobs()
    model = StreamPipeline([("scaler", RunningScaler()), (name, step), ("network", OnlineSNMF(5))])
    message = f"the step '{name}' learns from the first chunk alone, and failed on its 1 rows: "
    with pytest.raises(ValueError, match=message + ".* A larger first chunk may do"):
        model.partial_fit(X[:1])
    assert not hasattr(model["network"], "learner_")
    # The chunk that was refused is not half learned.
    model.partial_fit(X[:FIRST])
    np.testing.assert_array_equal(model["scaler"].mean_, RunningScaler().fit(X[:FIRST]).mean_)


@pytest.mark.filterwarnings("ignore:n_landmarks")
def test_a_chunk_that_is_refused_is_not_learned():
    X = blobs()
    model = clusterer().partial_fit(X[:FIRST])
    before = pickle.dumps(model)
    for bad in (np.full((3, 4), np.nan), X[:3, :2]):
        with pytest.raises(ValueError, match=r"NaN|features"):
            model.partial_fit(bad)
        assert pickle.dumps(model) == before


# What scikit-learn's Pipeline does ----------------------------------------------------------------


@pytest.mark.parametrize(
    "method", ["transform", "predict", "score", "fit_transform", "fit_predict"]
)
def test_what_is_fitted_as_a_whole_is_what_scikit_learn_would_fit(method):
    X = blobs()
    steps = clusterer().steps
    ours, theirs = StreamPipeline(steps), Pipeline(clone(StreamPipeline(steps)).steps)
    if not method.startswith("fit"):
        ours.fit(X)
        theirs.fit(X)
    np.testing.assert_array_equal(getattr(ours, method)(X), getattr(theirs, method)(X))
    assert list(ours.get_feature_names_out()) == list(theirs.get_feature_names_out())
    assert ours.get_params().keys() == theirs.get_params().keys()


def test_a_pipeline_is_reached_into_and_shown_as_scikit_learns_is(tmp_path, capsys):
    X = blobs()
    model = scaled_network().partial_fit(X)
    assert model.named_steps.scaler is model["scaler"] is model.steps[0][1]
    assert [*model.named_steps] == ["scaler", "network"]
    assert len(model) == 2
    assert "RunningScaler" in model._repr_html_()
    for absent in ("decision_function", "predict_proba", "score_samples", "inverse_transform"):
        assert not hasattr(model, absent)
    np.testing.assert_allclose(
        model[:1].inverse_transform(model[:1].transform(X)), X, rtol=1e-9, atol=1e-9
    )
    bare = scaled_network().set_params(scaler="passthrough").partial_fit(X)
    np.testing.assert_array_equal(
        bare["network"].components_, OnlineSNMF(5).partial_fit(X).components_
    )
    stored = scaled_network().set_params(memory=str(tmp_path), verbose=True).fit(X)
    np.testing.assert_array_equal(stored.predict(X), scaled_network().fit(X).predict(X))
    assert "(step 2 of 2) Processing network" in capsys.readouterr().out
    stored.partial_fit(X)
    assert stored["network"].n_samples_seen_ == 1200


def test_epochs_and_a_new_fit_are_those_of_the_last_step():
    X = blobs()
    model = clusterer().set_params(network__n_epochs=3).partial_fit(X)
    expected = OnlineSNMF(5, n_epochs=3).fit(model[:-1].fit_transform(X))
    np.testing.assert_array_equal(model.fit(X)["network"].components_, expected.components_)
    assert model["network"].n_samples_seen_ == 1800


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_frames_go_through_with_their_names(container):
    X = pd.DataFrame(blobs(), columns=list("abcd"))
    model = clusterer().set_output(transform=container)
    model.partial_fit(X[:FIRST])
    Y = model.partial_fit_transform(X[FIRST:])
    assert list(Y.columns) == [f"onlinesnmf{k}" for k in range(5)]
    assert list(Y.columns) == list(model.get_feature_names_out())
    assert list(model.feature_names_in_) == list("abcd")
    assert model.n_features_in_ == 4
    plain = clusterer().partial_fit(X[:FIRST]).partial_fit(X[FIRST:])
    np.testing.assert_allclose(plain.transform(X), model.transform(X).to_numpy(), atol=1e-9)
    with pytest.raises(ValueError, match="feature names should match"):
        model.partial_fit(X[list("badc")])


def test_slices_share_the_steps_and_clones_begin_anew():
    X = blobs()
    model = clusterer().partial_fit(X)
    head = model[:-1]
    assert type(head) is StreamPipeline
    assert head["scaler"] is model["scaler"] is model[0]
    head.partial_fit(X)
    assert model["scaler"].n_samples_seen_ == 1200
    fresh = clone(model)
    with pytest.raises(NotFittedError):
        fresh.predict(X)
    np.testing.assert_array_equal(
        fresh.partial_fit(X).predict(X), clusterer().partial_fit(X).predict(X)
    )


def test_a_pickled_pipeline_goes_on_as_the_other_does():
    X = blobs()
    model = clusterer().partial_fit(X[:FIRST])
    again = pickle.loads(pickle.dumps(model))
    for chunk in np.split(X[FIRST:], 3):
        np.testing.assert_array_equal(
            model.partial_fit_transform(chunk.copy()), again.partial_fit_transform(chunk.copy())
        )


def test_grid_search_and_cross_validation_reach_into_the_steps():
    X = blobs()
    settings = {"network__n_components": [1, 5], "kernel__n_landmarks": [20]}
    search = GridSearchCV(clusterer(), settings, cv=2).fit(X)
    assert search.best_params_["network__n_components"] == 5
    assert len(cross_val_score(clusterer(), X, cv=3)) == 3


def test_steps_may_be_pipelines_and_models_of_any_kind():
    X = blobs()
    inner = StreamPipeline([("scaler", RunningScaler()), ("map", RBFMap(n_landmarks=20))])
    nested = StreamPipeline([("inner", inner), ("network", OnlineSNMF(5))]).partial_fit(X)
    flat = StreamPipeline([*clone(inner).steps, ("network", OnlineSNMF(5))])
    np.testing.assert_array_equal(nested.predict(X).shape, flat.partial_fit(X).predict(X).shape)
    kmeans = MiniBatchKMeans(5, random_state=0, n_init=1)
    model = StreamPipeline([("scaler", RunningScaler()), ("kmeans", kmeans)])
    assert len(np.unique(model.partial_fit(X).partial_fit(X).labels_)) == 5
    pca = StreamPipeline([("scaler", RunningScaler()), ("pca", IncrementalPCA(2))])
    assert pca.partial_fit(X).partial_fit_transform(X).shape == (600, 2)


def test_targets_and_parameters_reach_the_steps():
    X, y = blobs(), np.arange(600) % 2
    model = StreamPipeline([("scaler", StandardScaler()), ("sgd", SGDClassifier(random_state=0))])
    model.partial_fit(X[:300], y[:300], sgd__classes=[0, 1]).partial_fit(X[300:], y[300:])
    assert model.classes_.tolist() == [0, 1]
    weights = np.linspace(0, 1, 600)
    weighted = StreamPipeline([("scaler", StandardScaler()), ("pass", None)])
    weighted.partial_fit(X, scaler__sample_weight=weights)
    np.testing.assert_allclose(weighted["scaler"].mean_, np.average(X, axis=0, weights=weights))
    with pytest.raises(ValueError, match=r"clases is not a parameter of a step: .*scaler, sgd"):
        model.partial_fit(X, y, clases=[0, 1])


def test_what_the_last_step_cannot_do_the_pipeline_has_not():
    assert not hasattr(StreamPipeline([("once", LogisticRegression())]), "partial_fit")
    assert hasattr(scaled_network(), "partial_fit_transform")
    classifier = StreamPipeline([("sgd", SGDClassifier())])
    assert hasattr(classifier, "partial_fit")
    assert not hasattr(classifier, "partial_fit_transform")
    with pytest.raises(TypeError, match="All intermediate steps should be transformers"):
        StreamPipeline([("sgd", SGDClassifier()), ("network", OnlineSNMF())]).partial_fit([[1.0]])


def test_steps_that_learn_nothing_take_texts():
    texts = ["red green", "green red", "one two", "two one"] * 10
    model = StreamPipeline(
        [
            ("hash", HashingVectorizer(n_features=16)),
            ("dense", FunctionTransformer(lambda X: X.toarray(), accept_sparse=True)),
            ("network", OnlineSNMF(4)),
        ]
    )
    labels = model.partial_fit(texts[:1]).partial_fit(texts[1:]).predict(texts)
    assert len(np.unique(labels)) == 2
    np.testing.assert_array_equal(labels[0::4], labels[1::4])
    assert labels[0] != labels[2]


# The kernel map and the clusterer -----------------------------------------------------------------


def test_the_kernel_map_is_nystroem_with_a_width_of_the_data():
    X = StandardScaler().fit_transform(blobs(200))
    features = RBFMap(n_landmarks=200, random_state=0).fit(X)
    gamma = 3 / np.median(pdist(X, "sqeuclidean"))
    assert features.gamma_ == pytest.approx(gamma)
    F = features.transform(X)
    np.testing.assert_allclose(F @ F.T, rbf_kernel(X, gamma=gamma), atol=1e-6)
    features = RBFMap(0.5, n_landmarks=30, random_state=7).fit(X)
    expected = Nystroem(gamma=0.5, n_components=30, random_state=7).fit(X)
    np.testing.assert_allclose(features.transform(X), expected.transform(X), atol=1e-9)
    assert features.transform(X.astype(np.float32)).dtype == np.float32


def test_the_width_does_not_depend_on_how_often_samples_are_repeated():
    X = np.repeat([[0.0], [1.0]], [997, 3], axis=0)
    assert RBFMap(n_landmarks=2).fit(X).gamma_ == pytest.approx(3.0)
    with pytest.raises(ValueError, match="n_samples=5 are all equal: give more"):
        RBFMap(n_landmarks=2).fit(X[:5])
    assert RBFMap(2.0, n_landmarks=2).fit(X[:5]).gamma_ == 2.0
    for bad in ({"gamma": 0.0}, {"gamma": "mean"}, {"n_landmarks": 0}):
        with pytest.raises(ValueError, match="cannot be used: set it to"):
            RBFMap(**bad).fit(X)


def test_clusters_in_one_direction_are_told_apart_only_through_the_kernel():
    X, y = make_blobs(900, centers=[[4, 4], [12, 12], [20, 20]], random_state=0)
    with_kernel = make_online_clusterer(3, random_state=0)
    in_chunks(with_kernel, X, 100, first=300)
    assert adjusted_rand_score(y, with_kernel.predict(X)) > 0.95
    linear = OnlineSNMF(3).fit(X - X.mean(axis=0))
    assert adjusted_rand_score(y, linear.predict(X - X.mean(axis=0))) < 0.9


@pytest.mark.filterwarnings("ignore:n_landmarks=300, but there are 150 samples")
def test_one_line_clusters_a_real_table():
    X, y = load_iris(return_X_y=True)
    order = np.random.RandomState(0).permutation(len(X))
    labels = make_online_clusterer(3, random_state=0).fit_predict(X[order])
    assert adjusted_rand_score(y[order], labels) > 0.5


def test_the_clusterer_refuses_other_kernels():
    with pytest.raises(ValueError, match="kernel='cosine' cannot be used: set it to 'rbf' or"):
        make_online_clusterer(3, kernel="cosine")

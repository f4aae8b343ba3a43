"""The examples run, and show what they say; and the contract of BERTopic's online mode."""

import runpy
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import IncrementalPCA, TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer

from hebbnmf import OnlineSNMF, make_online_clusterer

TOPICS = runpy.run_path(str(Path(__file__).parents[1] / "examples/streams/topics.py"))


@pytest.fixture(scope="module")
def texts():
    return {
        name: TOPICS["documents"](f"scipy.{name}")[:120] for name in ("signal", "sparse.linalg")
    }


def test_new_topics_appear_and_old_ones_keep_their_labels(texts):
    model, words = TOPICS["make_topic_model"](12), defaultdict(Counter)
    first = TOPICS["follow"](model, ["signal"], words)["signal"]
    before = model.predict(texts["signal"])
    later = TOPICS["follow"](model, ["sparse.linalg"], words)["sparse.linalg"]
    topic, n = Counter(later).most_common(1)[0]
    assert n > 0.6 * len(later)
    assert np.mean(np.array(first) == topic) < 0.1
    assert "sparse" in TOPICS["telling_words"](words, topic)
    assert np.mean(model.predict(texts["signal"]) == before) > 0.8


def test_topics_are_told(capsys):
    TOPICS["main"]()
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("scipy.") for line in lines) == len(TOPICS["STREAM"])
    assert lines[-1].endswith("are in the same topic at the end")


@pytest.mark.parametrize("make", [OnlineSNMF, make_online_clusterer])
def test_a_cluster_model_of_bertopic_learns_on_and_labels_the_chunk_it_learned(make, texts):
    # What bertopic.BERTopic.partial_fit asks of its cluster_model.
    space = TruncatedSVD(20, random_state=0)
    X = space.fit_transform(HashingVectorizer(n_features=2**12).fit_transform(texts["signal"]))
    X -= X.mean(axis=0)
    settings = {"n_landmarks": 50} if make is make_online_clusterer else {}
    model = make(5, **settings)
    for chunk in (X[:60], X[60:]):
        model.partial_fit(chunk)
        assert model.labels_.shape == (60,)
        assert model.labels_.dtype.kind == "i"
        assert model.labels_.min() >= -1
    assert model.predict(X).shape == (120,)


@pytest.mark.filterwarnings("ignore")
def test_bertopic_itself_takes_the_network(texts):
    bertopic = pytest.importorskip("bertopic")
    vectorizers = pytest.importorskip("bertopic.vectorizers")
    model = bertopic.BERTopic(
        embedding_model=bertopic.backend.BaseEmbedder(),
        umap_model=IncrementalPCA(5),
        hdbscan_model=OnlineSNMF(5),
        vectorizer_model=vectorizers.OnlineCountVectorizer(stop_words="english"),
    )
    space = TruncatedSVD(20, random_state=0)
    documents = [*texts["signal"], *texts["sparse.linalg"]]
    X = space.fit_transform(HashingVectorizer(n_features=2**12).fit_transform(documents))
    for part in (slice(0, 100), slice(100, None)):
        model.partial_fit(documents[part], embeddings=X[part])
    assert isinstance(model.get_topic_info(), pd.DataFrame)
    assert len(model.get_topic_info()) > 1

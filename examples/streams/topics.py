"""
Topics of a stream of texts
===========================

The documents are the docstrings of scipy's functions, one subpackage after the other, as news on
new subjects would arrive. They pass a hashing vectoriser, which needs no vocabulary, and a
truncated SVD, fitted to documents of another kind: the docstrings of numpy and scikit-learn. Topics
are directions, so the network needs no kernel and no scaler, only rows of unit length. New topics
appear, and labels keep their meaning.
"""

import importlib
import inspect
from collections import Counter, defaultdict

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, HashingVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from hebbnmf import OnlineSNMF, StreamPipeline

BACKGROUND = ("numpy", "numpy.linalg", "numpy.fft", "sklearn.metrics", "sklearn.preprocessing")
BACKGROUND += ("sklearn.linear_model", "sklearn.cluster", "sklearn.decomposition", "numpy.ma")
STREAM = ("signal", "stats", "sparse.linalg", "ndimage", "special", "optimize")
WORDS = 5
# Words that all docstrings have, whatever their topic.
STOP_WORDS = [*ENGLISH_STOP_WORDS, "array", "return", "returns", "compute", "ndarray", "float"]
STOP_WORDS += ["parameters", "int", "optional", "array_like", "shape", "default", "input", "output"]
STOP_WORDS += ["function", "functions", "given", "value", "values", "used", "element", "elements"]
# Those of the signature of every ufunc, and of the note on array libraries.
STOP_WORDS += ["dtype", "casting", "same_kind", "subok", "python", "api", "numpy", "experimental"]


def documents(name):
    """Return the beginnings of the docstrings of the functions and classes of a module."""
    module = importlib.import_module(name)
    found = (getattr(module, key) for key in sorted(dir(module)) if not key.startswith("_"))
    texts = [inspect.getdoc(thing) or "" for thing in found if callable(thing)]
    return [text[:600] for text in texts if len(text) > 100]


def make_topic_model(n_topics):
    """Return a clusterer of texts, with an SVD that has seen the background."""
    hashing = HashingVectorizer(stop_words=STOP_WORDS, n_features=2**14, alternate_sign=False)
    svd = TruncatedSVD(100, random_state=0)
    space = make_pipeline(hashing, svd, Normalizer())
    space.fit([text for name in BACKGROUND for text in documents(name)])
    return StreamPipeline([*space.steps, ("network", OnlineSNMF(n_topics, memory=2000))])


def follow(model, subjects, words, chunk=50, seed=0):
    """Learn subject after subject; return the labels given to each, and count words by topic."""
    rng = np.random.default_rng(seed)
    labels = {}
    splits = model["hashingvectorizer"].build_analyzer()
    for subject in subjects:
        texts = documents(f"scipy.{subject}")
        texts = [texts[i] for i in rng.permutation(len(texts))]
        labels[subject] = []
        for start in range(0, len(texts), chunk):
            some = texts[start : start + chunk]
            model.partial_fit(some)
            labels[subject] += model.labels_.tolist()
            for text, label in zip(some, model.labels_, strict=True):
                words[label].update(set(splits(text)))
    return labels


def telling_words(words, topic):
    """Return the words that are more frequent in a topic than in all of them."""
    everywhere = sum(words.values(), Counter())
    n = sum(words[topic].values())
    score = {w: c / n * np.log(n * 10 / everywhere[w]) for w, c in words[topic].items() if c > 2}
    return sorted(score, key=score.get, reverse=True)[:WORDS]


def plot(labels, words):
    """Draw each document as a dot in the row of its topic, told by its words."""
    given = np.concatenate(list(labels.values()))
    topics = [topic for topic, n in Counter(given.tolist()).items() if n >= 10 and topic >= 0]
    row = {topic: i for i, topic in enumerate(topics)}
    shown = np.isin(given, topics)
    ax = plt.subplots(figsize=(9, 4), layout="constrained")[1]
    rows = np.array([row[topic] for topic in given[shown]])
    ax.scatter(np.flatnonzero(shown), rows, c=rows % 10, cmap="tab10", s=40, marker="|")
    end = 0
    for subject, some in labels.items():
        middle, end = end + len(some) / 2, end + len(some)
        ax.axvline(end, color="0.7", linewidth=0.8)
        ax.text(middle, 1.02, subject, transform=ax.get_xaxis_transform(), rotation=25, fontsize=8)
    names = [", ".join(telling_words(words, topic)[:3]) for topic in topics]
    ax.set(yticks=range(len(topics)), yticklabels=names, xlabel="documents")
    ax.invert_yaxis()


def main():
    """Follow the stream, and say after each subject which topics it has and what they are."""
    model, words = make_topic_model(n_topics=12), defaultdict(Counter)
    labels, seen, told = {}, Counter(), set()
    early = [text for subject in STREAM[:2] for text in documents(f"scipy.{subject}")]
    for subject in STREAM:
        given = labels[subject] = follow(model, [subject], words)[subject]
        print(f"scipy.{subject}: {len(given)} documents")
        seen.update(given)
        for topic, n in Counter(given).most_common(3):
            # New: not told before, and most of its documents so far are of this subject.
            new = "new " if n > seen[topic] / 2 and topic not in told else ""
            told.add(topic)
            print(f"  {n:4} in {new}topic {topic:2}: {', '.join(telling_words(words, topic))}")
        if subject == STREAM[1]:
            before = model.predict(early)
    kept = np.mean(model.predict(early) == before)
    print(f"{kept:.0%} of the documents of the first two subjects are in the same topic at the end")
    plot(labels, words)
    plt.show()


if __name__ == "__main__":
    main()

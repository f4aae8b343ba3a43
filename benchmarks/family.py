"""The family: OnlinePCA, OnlineDictionary, NonnegativeICA, tiling of a ring; and their peers.

Settings were chosen on seeds from 100 on; those reported here are 0, 1, 2, ...
"""

import json
import time
import warnings
from pathlib import Path

import click
import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.decomposition import FastICA, IncrementalPCA, MiniBatchDictionaryLearning
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from benchmarks.baselines import fast_similarity_matching
from benchmarks.timing import ratio, time_in_turn
from hebbnmf import NonnegativeICA, OnlineDictionary, OnlinePCA, OnlineSNMF
from hebbnmf.experiments import family
from hebbnmf.experiments.tiling import tuning_widths
from hebbnmf.learner import Learner, SubspaceSettings
from hebbnmf.preprocessing import ZCAWhitener

DICTIONARY = {"alpha": 0.5, "memory": 0.02, "n_epochs": 3}
ALPHAS = (0.35, 0.5, 0.7, 1.0, 1.4, 2.0)


def spiked(n_samples, n, m, seed):
    """Return samples with m directions of variance 1 to 0.5 in noise of 0.002, and these."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(n, m)))[0].T
    noise = np.sqrt(0.002) * rng.normal(size=(n_samples, n))
    return rng.normal(size=(n_samples, m)) * np.sqrt(np.linspace(1, 0.5, m)) @ basis + noise, basis


def subspace_error(components, basis):
    """Return ``|P - P_true|^2 / m`` of the projections on two subspaces."""
    Q = np.linalg.qr(components.T)[0].T
    return 2 - 2 * np.sum((Q @ basis.T) ** 2) / len(basis)


def fsm(X, m):
    W = X[:m] / np.linalg.norm(X[:m], axis=1, keepdims=True) / 100
    M_inverse = 100 * np.eye(m)
    fast_similarity_matching(X, W, M_inverse)
    return M_inverse @ W


def pca(seeds):
    errors = {"OnlinePCA": [], "FSM": [], "IncrementalPCA": [], "batch": []}
    moved = {"memory=2000": [], "memory=None": [], "IncrementalPCA": []}
    for seed in tqdm(seeds, desc="pca"):
        X, basis = spiked(20_000, 64, 8, seed)
        batch = IncrementalPCA(8, batch_size=40).fit(X)
        errors["OnlinePCA"].append(subspace_error(OnlinePCA(8).fit(X).components_, basis))
        errors["FSM"].append(subspace_error(fsm(X, 8), basis))
        errors["IncrementalPCA"].append(subspace_error(batch.components_, basis))
        axes = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][:8]
        errors["batch"].append(subspace_error(axes, basis))
        Z, other = spiked(20_000, 64, 8, seed + 50)
        for name, memory in (("memory=2000", 2000), ("memory=None", None)):
            net = OnlinePCA(8, memory=memory).partial_fit(X).partial_fit(Z)
            moved[name].append(subspace_error(net.components_, other))
        for i in range(0, len(Z), 40):
            batch.partial_fit(Z[i : i + 40])
        moved["IncrementalPCA"].append(subspace_error(batch.components_, other))
    return {"error": _means(errors), "after a change": _means(moved), "speed": pca_speed()}


def pca_speed():
    X, _ = spiked(8000, 256, 16, 0)
    narrow = X.astype(np.float32)

    def learn(rows):
        settings = SubspaceSettings(16, None, True)
        return lambda: Learner(settings, 256, rows.dtype).learn(rows, keep=False)

    seconds = time_in_turn(
        {
            "OnlinePCA": lambda: OnlinePCA(16).fit(X),
            "not validated": learn(X),
            "float32": learn(narrow),
            "IncrementalPCA": lambda: IncrementalPCA(16, batch_size=80).fit(X),
            "FSM": lambda: fsm(X, 16),
        }
    )
    us = {name: float(np.median(s) / len(X) * 1e6) for name, s in seconds.items()}
    faster = {
        f"{name} than {peer}": ratio(seconds, peer, name)
        for peer in ("IncrementalPCA", "FSM")
        for name in ("OnlinePCA", "not validated")
    }
    return {"us a sample": us, "times faster": faster}


def uniform_mixtures(seed, n_samples=100_000, n_sources=5, n=10, snr=30):
    rng = np.random.default_rng(seed)
    sources = rng.random((n_samples, n_sources))
    X = sources @ rng.normal(size=(n_sources, n))
    noise = np.sqrt(np.square(X).mean() * 10 ** (-snr / 10))
    return X + noise * rng.normal(size=X.shape), sources


def signal_to_interference(Y, sources):
    """Return the decibels of each source in its output over all others in that output."""
    centred = sources - sources.mean(axis=0)
    gains = np.linalg.lstsq(centred / centred.std(axis=0), Y - Y.mean(axis=0))[0].T
    power = np.square(gains)
    decibels = 10 * np.log10(power / np.maximum(power.sum(axis=1, keepdims=True) - power, 1e-300))
    return decibels[linear_sum_assignment(decibels, maximize=True)]


def ica(seeds):
    scores, seconds = {}, {}
    for seed in tqdm(seeds, desc="ica"):
        X, sources = uniform_mixtures(seed)
        contestants = {
            "NonnegativeICA": NonnegativeICA(5),
            "its linear map": NonnegativeICA(5),
            "FastICA": FastICA(5, random_state=0),
        }
        for name, model in contestants.items():
            start = time.process_time()
            model.fit(X)
            seconds.setdefault(name, []).append(time.process_time() - start)
            Y = X @ model.components_.T if "linear" in name else model.transform(X)
            scores.setdefault(name, []).append(float(signal_to_interference(Y, sources).mean()))
    medians = {name: float(np.median(values)) for name, values in scores.items()}
    return {"median dB": medians, "dB": scores, "seconds": _means(seconds)}


def sparse_codes(seed, n_samples=20_000, n_atoms=24, n=16, n_active=3):
    rng = np.random.default_rng(seed)
    atoms = rng.normal(size=(n_atoms, n))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    codes = np.zeros((n_samples, n_atoms))
    active = np.argsort(rng.random(codes.shape), axis=1)[:, :n_active]
    np.put_along_axis(codes, active, rng.normal(size=active.shape), axis=1)
    return codes @ atoms, atoms


def n_found(components, atoms):
    unit = components / np.maximum(np.linalg.norm(components, axis=1, keepdims=True), 1e-300)
    return int(np.sum(np.abs(unit @ atoms.T).max(axis=0) > 0.95))


def dictionary(seeds):
    found, seconds = {}, {}

    def note(name, start, components, atoms):
        seconds.setdefault(name, []).append(time.process_time() - start)
        found.setdefault(name, []).append(n_found(components, atoms))

    for seed in tqdm(seeds, desc="dictionary"):
        X, atoms = sparse_codes(seed)
        start = time.process_time()
        whitener = ZCAWhitener(eps=0.0).fit(X)
        Z = whitener.transform(X)
        whitening = time.process_time() - start
        back = np.linalg.inv(whitener.whitening_)
        start = time.process_time() - whitening
        net = OnlineDictionary(24, **DICTIONARY).fit(Z)
        note("OnlineDictionary, whitened", start, net.components_ @ back, atoms)
        start = time.process_time()
        note("OnlineDictionary, raw", start, OnlineDictionary(24).fit(X).components_, atoms)
        for alpha in ALPHAS:
            for rows, turn, name in ((X, np.eye(16), "raw"), (Z, back, "whitened")):
                start = time.process_time()
                model = MiniBatchDictionaryLearning(
                    24, alpha=alpha, max_iter=5, fit_algorithm="cd", random_state=0
                )
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    model.fit(rows)
                label = f"MiniBatchDictionaryLearning, {name}, alpha={alpha}"
                note(label, start, model.components_ @ turn, atoms)
    return {"atoms found of 24": found, "mean": _means(found), "seconds": _means(seconds)}


def gabors():
    """Return the share of Gabor filters among atoms of whitened natural patches."""
    return {f"seed {seed}": family.measure_dictionary(50_000, seed)["gabors"] for seed in range(3)}


def tiling(seeds):
    widths = {}
    for offset in (0.0, 0.2, 0.4, 0.6, 0.8, 0.9):
        for seed in seeds:
            angles = np.random.default_rng(seed).uniform(0, 2 * np.pi, 20_000)
            net = OnlineSNMF(20, rank_penalty=0.0, similarity_offset=offset)
            net.partial_fit(np.column_stack([np.cos(angles), np.sin(angles)]))
            widths.setdefault(str(offset), []).append(float(np.median(tuning_widths(net))))
    return _means(widths)


def _means(values):
    return {name: float(np.mean(v)) for name, v in values.items()}


@click.command()
@click.option("--only", type=click.Choice(["pca", "ica", "dictionary", "gabors", "tiling"]))
@click.option("--out", type=click.Path(path_type=Path), default=Path("out/family.json"))
def main(only, out):
    parts = {
        "pca": lambda: pca(range(10)),
        "ica": lambda: ica(range(10)),
        "dictionary": lambda: dictionary(range(10)),
        "gabors": gabors,
        "tiling": lambda: tiling(range(5)),
    }
    with threadpool_limits(1):
        results = {name: run() for name, run in parts.items() if only in (None, name)}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

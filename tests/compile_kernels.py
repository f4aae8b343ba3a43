"""Compile the kernels, one precision a process, before coverage slows the compiler."""

from concurrent.futures import ProcessPoolExecutor

import numpy as np

from hebbnmf import NonnegativeICA, OnlineDictionary, OnlineSNMF
from hebbnmf.preprocessing import RunningScaler


def compile_for(dtype):
    X = np.random.default_rng(0).standard_normal((100, 4)).astype(dtype)
    for model in (OnlineSNMF(), OnlineDictionary(), NonnegativeICA(2), RunningScaler()):
        model.partial_fit(X).transform(X)


if __name__ == "__main__":
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(compile_for, ["float64", "float32"]))

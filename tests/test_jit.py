"""Compilation: where nothing can be cached, and with the compiler switched off."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hebbnmf
from hebbnmf import OnlineSNMF
from hebbnmf.datasets import make_sparse_sources

pytestmark = pytest.mark.jit

SCRIPT = """
import numpy as np
from hebbnmf import OnlineSNMF
from hebbnmf.datasets import make_sparse_sources
net = OnlineSNMF(12, rank_penalty=2.0, tol=1e-12)
X = make_sparse_sources(40, 6, random_state=0)
np.savez("responses.npz", Y=net.partial_fit_transform(X), W=net.components_, M=net.lateral_weights_)
"""


def run(folder, **variables):
    environment = {"PATH": os.environ["PATH"], **variables}
    subprocess.run([sys.executable, "-c", SCRIPT], cwd=folder, env=environment, check=True)
    return np.load(folder / "responses.npz")


def test_works_where_no_cache_can_be_placed(tmp_path):
    # numba asks for a folder it can write; root can write anywhere but below a file.
    package = tmp_path / "package"
    shutil.copytree(
        Path(hebbnmf.__file__).parent,
        package / "hebbnmf",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    (package / "hebbnmf" / "engine" / "__pycache__").write_text("in the way")
    nowhere = tmp_path / "file"
    nowhere.write_text("in the way")
    responses = run(
        tmp_path, PYTHONPATH=str(package), HOME=str(nowhere / "home"), MPLCONFIGDIR=str(tmp_path)
    )
    assert responses["Y"].any()


def test_compiled_equals_uncompiled(tmp_path):
    plain = run(tmp_path, NUMBA_DISABLE_JIT="1", HOME=str(tmp_path))
    net = OnlineSNMF(12, rank_penalty=2.0, tol=1e-12)
    Y = net.partial_fit_transform(make_sparse_sources(40, 6, random_state=0))
    np.testing.assert_allclose(Y, plain["Y"], atol=1e-9)
    np.testing.assert_allclose(net.components_, plain["W"], atol=1e-10)
    np.testing.assert_allclose(net.lateral_weights_, plain["M"], atol=1e-10)

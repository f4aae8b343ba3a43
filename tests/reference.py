"""Algorithm 1 as the paper prints it, in plain loops: slow, literal, and the oracle of the tests.

Written from the paper alone. Nothing here is shared with the package.
"""

import numpy as np


def online_snmf(
    X, m, lam, *, initial=None, gain=1.0, quartic=False, tol=1e-12, max_sweeps=100_000, residue=1e-7
):
    """Present the rows of X. Returns the responses, W, M and Yhat (m rows, those unused zero)."""
    n_samples, n = X.shape
    W = np.zeros((m, n))
    M = np.zeros((m, m))
    Yhat = np.zeros(m)
    active_set = []
    responses = np.zeros((n_samples, m))
    for T in range(n_samples):
        x = X[T]
        y = np.zeros(m)
        for _ in range(max_sweeps):
            before = y.copy()
            for i in active_set:
                net = W[i] @ x - M[i] @ y
                if quartic:
                    others = y @ y - y[i] ** 2
                    y[i] = minimum_of_equation_6(Yhat[i], others - x @ x, net)
                else:
                    y[i] = max(net, 0.0)
            if np.abs(y - before).max() <= tol * y.max():
                break
        else:
            raise AssertionError("the oracle did not converge")

        rest = x @ x - y @ y
        newborn = None
        if len(active_set) < m and rest > residue * (x @ x) and rest**2 > lam:
            newborn = len(active_set)
            active_set.append(newborn)
            y[newborn] = np.sqrt(rest)

        for i in active_set:
            if y[i] == 0:
                continue
            if i == newborn:
                # The definitions of W and M, with a single term in each sum.
                Yhat[i] = y[i] ** 2 if initial is None else initial
                W[i] = y[i] * x / y[i] ** 2
                M[i] = y[i] * y / y[i] ** 2
            else:
                Yhat[i] = Yhat[i] + gain * y[i] ** 2
                W[i] = W[i] + y[i] * (x - W[i] * y[i]) / Yhat[i]
                M[i] = M[i] + y[i] * (y - M[i] * y[i]) / Yhat[i]
            M[i, i] = 0.0
        responses[T] = y
    return responses, W, M, Yhat


def minimum_of_equation_6(Yhat, excess, net):
    """Minimise the bracket of Eq. (6) times Yhat over y >= 0, by the roots of its derivative."""

    def energy(y):
        return 2 * excess * y**2 - 4 * Yhat * y * net + 2 * Yhat * y**2 + y**4

    roots = np.roots([4.0, 0.0, 4 * (Yhat + excess), -4 * Yhat * net])
    candidates = [0.0]
    for root in roots:
        if abs(root.imag) <= 1e-6 * abs(root) and root.real > 0:
            y = root.real
            for _ in range(3):  # np.roots is good to about 1e-8 only where roots are close
                slope = 3 * y**2 + Yhat + excess
                if slope > 0:
                    y -= (y**3 + (Yhat + excess) * y - Yhat * net) / slope
            candidates.append(max(y, 0.0))
    return min(candidates, key=energy)

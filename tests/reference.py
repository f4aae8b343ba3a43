"""Algorithm 1 as the paper prints it, in plain loops: slow, literal, and the oracle of the tests.

Written from the paper alone. Nothing here is shared with the package.
"""

import math

import numpy as np


def online_snmf(
    X,
    m,
    lam,
    *,
    initial=None,
    gain=1.0,
    quartic=False,
    alpha=0.0,
    signed=False,
    offset=0.0,
    memory=None,
    recycle=False,
    tol=1e-12,
    max_sweeps=100_000,
    residue=1e-7,
):
    """Present the rows of X.

    Returns the responses, W, M, Yhat and the sample at which each unit was born; unused units are
    zero, and -1 in the last. With an offset, similarities are ``x'x - offset``.
    """
    n_samples, n = X.shape
    W = np.zeros((m, n))
    b = np.zeros(m)
    M = np.zeros((m, m))
    Yhat = np.zeros(m)
    births = np.full(m, -1)
    active_set = []
    squares, total = 0.0, 0.0
    responses = np.zeros((n_samples, m))
    for T in range(n_samples):
        x = X[T]
        gamma = discount_of(T, memory)
        Yhat = gamma * Yhat
        squares, total = gamma * squares + x @ x, gamma * total + 1
        level = offset
        if isinstance(offset, str):
            level = float(offset[:-1]) / 100 * squares / total
        x_norm2 = x @ x - level
        y = np.zeros(m)
        for _ in range(max_sweeps):
            before = y.copy()
            for i in active_set:
                net = W[i] @ x - level**0.5 * b[i] - M[i] @ y
                if quartic:
                    others = y @ y - y[i] ** 2
                    y[i] = minimum_of_equation_6(Yhat[i], others - x_norm2, net)
                elif signed:
                    y[i] = np.sign(net) * max(abs(net) - alpha, 0.0)
                else:
                    y[i] = max(net - alpha, 0.0)
            if np.abs(y - before).max() <= tol * np.abs(y).max():
                break
        else:
            raise AssertionError("the oracle did not converge")

        rest = x_norm2 - y @ y
        newborn = None
        enough = lam**0.5 if lam != "auto" else 0.0
        if lam == "auto" and x_norm2 > 0:
            enough = 0.6 * (x_norm2 * max(squares / total - level, 0)) ** 0.5
        if rest > residue * x_norm2 and rest > enough:
            silent = [i for i in active_set if y[i] == 0]
            weakest = min(silent, key=lambda i: Yhat[i], default=None)
            if len(active_set) < m:
                newborn = len(active_set)
                active_set.append(newborn)
            elif recycle and weakest is not None and Yhat[weakest] < rest:
                newborn = weakest
                W[newborn] = 0
                b[newborn] = 0
                M[newborn] = 0
                M[:, newborn] = 0
            if newborn is not None:
                y[newborn] = np.sqrt(rest)
                births[newborn] = T

        for i in active_set:
            if y[i] == 0:
                continue
            if i == newborn:
                # The definitions of W and M, with a single term in each sum.
                Yhat[i] = y[i] ** 2 if initial is None else initial
                W[i] = y[i] * x / y[i] ** 2
                b[i] = y[i] * level**0.5 / y[i] ** 2
                M[i] = y[i] * y / y[i] ** 2
            else:
                Yhat[i] = Yhat[i] + gain * y[i] ** 2
                rate = min(y[i] ** 2 / Yhat[i], 1)  # at most 1 in the paper, but for III.C's gain
                W[i] = W[i] + rate * (x - W[i] * y[i]) / y[i]
                b[i] = b[i] + rate * (level**0.5 - b[i] * y[i]) / y[i]
                M[i] = M[i] + rate * (y - M[i] * y[i]) / y[i]
            M[i, i] = 0.0
        responses[T] = y
    return responses, W, M, Yhat, births


def discount_of(T, memory):
    """Gamma of sample T, the first being 0."""
    if memory is None:
        return 1.0
    if memory < 1:
        return 1 - (1 / memory - 1) / (T + 10 / memory)
    return 1 - 1 / memory


def ratios_of_discounted_sums(X, Y, births, memory):
    """W, M and Yhat by their definitions: sums in which sample t has the weight w_t.

    A unit that took another's place begins at its birth.
    """
    n_samples = len(X)
    w = [
        np.prod([discount_of(u, memory) for u in range(t + 1, n_samples)]) for t in range(n_samples)
    ]
    own = np.array(Y)
    for i, birth in enumerate(births):
        own[:birth, i] = 0
    A = sum(w[t] * np.outer(own[t], own[t]) for t in range(n_samples))
    B = sum(w[t] * np.outer(own[t], X[t]) for t in range(n_samples))
    Yhat = np.diag(A).copy()
    M = A / Yhat[:, None]
    np.fill_diagonal(M, 0)
    return B / Yhat[:, None], M, Yhat


def minimum_of_equation_6(Yhat, excess, net):
    """Minimise the bracket of Eq. (6) times Yhat over y >= 0, by the roots of its derivative."""

    def energy(y):
        return 2 * excess * y**2 - 4 * Yhat * y * net + 2 * Yhat * y**2 + y**4

    candidates = [0.0]
    for y in real_roots_of_cubic(Yhat + excess, -Yhat * net):
        if y > 0:
            for _ in range(3):  # a formula loses digits where roots are close, or cancel
                slope = 3 * y**2 + Yhat + excess
                if slope > 0:
                    y -= (y**3 + (Yhat + excess) * y - Yhat * net) / slope
            candidates.append(max(y, 0.0))
    return min(candidates, key=energy)


def real_roots_of_cubic(p, q):
    """Solve ``y^3 + p y + q = 0`` by Cardano's and Viete's formulas."""
    discriminant = (q / 2) ** 2 + (p / 3) ** 3
    if discriminant >= 0:
        root = math.sqrt(discriminant)
        return [math.cbrt(-q / 2 + root) + math.cbrt(-q / 2 - root)]
    radius = 2 * math.sqrt(-p / 3)
    angle = math.acos(max(-1.0, min(1.0, 3 * q / (p * radius)))) / 3
    return [radius * math.cos(angle - 2 * math.pi * k / 3) for k in range(3)]


def online_subspace(X, m, *, memory=None, center=False, residue=1e-8):
    """Present the rows of X to identity units; return the responses, A, B and the mean."""
    n_samples, n = X.shape
    A, B = np.zeros((0, 0)), np.zeros((0, n))
    mean, count = np.zeros(n), 0.0
    responses = np.zeros((n_samples, m))
    for T in range(n_samples):
        gamma = discount_of(T, memory)
        count = gamma * count + 1
        x = X[T]
        if center:
            x = ((count - 1) / count) ** 0.5 * (X[T] - mean)
            mean = mean + (X[T] - mean) / count
        y = np.linalg.solve(A, B @ x)
        rest = x @ x - y @ y
        if len(y) < m and rest > residue * (x @ x):
            y = np.append(y, rest**0.5)
            A, B = np.pad(A, ((0, 1), (0, 1))), np.pad(B, ((0, 1), (0, 0)))
        A = gamma * A + np.outer(y, y)
        B = gamma * B + np.outer(y, x)
        responses[T, : len(y)] = y
    return responses, A, B, mean


def separated_online(X, m, memory):
    """Whiten the rows of X by their covariance, not centred, and present them to rectified units.

    The whitening is taken anew after 1, 2, 4, ... 64 samples, and then after every 72; it is zero
    as long as there are fewer than four samples a dimension.
    """
    n_samples, n = X.shape
    Z = np.zeros((n_samples, m))
    Q = np.zeros((m, n))
    for T in range(n_samples):
        Z[T] = Q @ X[T]
        if T + 1 in (1, 2, 4, 8, 16, 32, 64) or (T + 1) % 72 == 0:
            _, A, B, _ = online_subspace(X[: T + 1], m, center=True)
            K = len(A)
            Q = np.zeros((m, n))
            if K and T + 1 >= 4 * K:
                values, axes = np.linalg.eigh(A / (T + 1))
                noise = 0.0
                if n > K:
                    noise = (X[: T + 1].var(axis=0).sum() - values.sum()) / (n - K)
                values = np.maximum(values - max(noise, 0), 1e-6 * values.max())
                Q[:K] = axes @ np.diag(values**-0.5) @ axes.T @ np.linalg.solve(A, B)
    return online_snmf(Z, m, 0.0, memory=memory)

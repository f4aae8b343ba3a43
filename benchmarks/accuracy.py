"""How far are responses at the default tolerance from a tight solution?"""

import numpy as np

from benchmarks.workloads import (
    SCHEDULES,
    grown_network,
    laplace,
    raw_patches,
    three_gaussians,
    whitened_patches,
)


def error_of_responses(tol=1e-4, tight=1e-11):
    """Largest error of an activity, as a share of the largest activity of that sample."""
    errors, unconverged = {}, {}
    for workload, X, m, rank_penalty in (
        ("whitened patches n=m=256", whitened_patches(4096), 256, 200.0),
        ("raw patches n=m=256", raw_patches(4096), 256, 200.0),
        ("three Gaussians n=2 m=3", three_gaussians(10_000), 3, 0.6),
        ("Laplace n=m=64", laplace(8192, 64), 64, 64.0),
    ):
        for schedule, settings in SCHEDULES.items():
            net = grown_network(X, m, rank_penalty, tol=tol, **settings)
            Y = net.respond(X).Y
            net.rules = net.rules._replace(tol=tight)
            exact = net.respond(X)
            top = exact.Y.max(axis=1)
            name, active = f"{workload}, {schedule}", top > 0
            error = np.abs(Y - exact.Y).max(axis=1)[active] / top[active]
            errors[name] = float(error.max())
            unconverged[name] = exact.n_unconverged
    return {
        "workload": f"error of responses at tol={tol:g} against tol={tight:g}",
        "errors": errors,
        "unconverged": unconverged,
    }

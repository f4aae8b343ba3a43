"""Training in synchronous rounds on many workers, and responses on a cluster.

Workers may be threads or processes of one machine (`concurrent.futures`) or those of a
`distributed.Client`, which needs the extra ``dask``.
"""

from hebbnmf.distributed.responding import predict, transform
from hebbnmf.distributed.rounds import fit, resume

__all__ = ["fit", "predict", "resume", "transform"]

"""Aware chooser: our own policy: of what nodes offer, pods take what the product's scorer expects to hurt least.

What it sees is what was measured; nothing here knows the world's law.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from advisor.cluster.pending_pod import PodClass
from advisor.scoring.score_scale import violation
from advisor.scoring.scorer import Compared, ModelScorer
from benchmarks.best_effort.best_effort_loop import View
from cohabit.backtest.advice import Scorers
from cohabit.backtest.sight import Measured
from ingest.simulator.law import Floats, Ints
from ingest.simulator.messages import app_name

AT_ONCE = 2
"""Pods that start on one node in one interval, at most: about one ends there."""
NO_VETO = 1e9
"""Slowdown ratio that no bound reaches: best-effort pods are never vetoed."""


@dataclass(frozen=True)
class Aware:
    """Places pods by expected work and expected violations.

    Args:
        scorers: by what was learnt from a history.
        price: cores of undisturbed work that one latency-sensitive container in violation is worth.
    """

    scorers: Scorers
    price: float

    def __call__(self, view: View) -> Sequence[tuple[int, int]]:
        """See Chooser: pods of the app that is worth most on a node, the nodes where most is gained first."""
        apps, nodes = np.unique(view.queue), np.flatnonzero(view.room >= view.size[view.queue].min())
        if not len(nodes):
            return []
        scorer = self.scorers.over(_together(view.residents, view.pods), view.platform)
        worth = self._worth(scorer, view.size, apps, nodes)
        waiting = {int(app): np.flatnonzero(view.queue == app).tolist()[::-1] for app in apps}
        room, found = view.room[nodes], list[tuple[int, int]]()
        for _ in range(AT_ONCE):
            left = np.array([bool(waiting[int(app)]) for app in apps])
            fits = (view.size[apps][:, None] <= room) & left[:, None]
            net = np.where(fits, worth, -np.inf)
            for at in np.argsort(-net.max(axis=0), kind="stable").tolist():
                app = int(apps[net[:, at].argmax()])
                if net[:, at].max() > 0 and waiting[app]:
                    room[at] -= view.size[app]
                    found.append((waiting[app].pop(), int(nodes[at])))
        return found

    def _worth(self, scorer: ModelScorer, size: Floats, apps: Ints, nodes: Ints) -> Floats:
        """(a, k) per core requested, of one pod more of each app on each node."""
        classes = [PodClass(app_name(int(app)), best_effort=True).pending_pod() for app in apps]
        found = scorer.compare_each(classes, nodes.astype(np.int32), limit=NO_VETO)
        view = scorer.snapshot
        cores = np.where(view.resident_best_effort, size[view.resident_app], 0.0)
        worth = [self._gained(one, cores, float(size[app])) / size[app] for app, one in zip(apps, found, strict=True)]
        return np.array(worth)

    def _gained(self, one: Compared, cores: Floats, size: float) -> Floats:
        """(k,) work that a pod adds, less what it takes from others and what it costs latency-sensitive ones."""
        harm = one.harm
        after = harm.before * harm.ratio
        others = cores[harm.resident]
        lost = others * (1.0 / np.maximum(harm.before, 1.0) - 1.0 / np.maximum(after, 1.0))
        more = np.where(others > 0, 0.0, violation(after) - violation(harm.before))
        node = np.repeat(np.arange(len(one.choice)), np.diff(harm.offsets))
        cost = np.bincount(node, lost + self.price * more, minlength=len(one.choice))
        return np.asarray(size / np.maximum(one.choice, 1.0) - cost)


def _together(some: Measured, others: Measured) -> Measured:
    return Measured(
        np.append(some.node, others.node), np.append(some.app, others.app), np.concatenate([some.use, others.use])
    )

"""Gang costs: what members cost on all nodes, from the table that schedulers are answered from, or from a scorer."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from advisor.cluster.pending_pod import PodClass, class_of
from advisor.errors import Unavailable
from advisor.gangs.gang_columns import ClassCosts, class_costs, known_class
from advisor.placement.encoded_scores import Replies
from advisor.scoring.score_table import REFERENCE, begun
from advisor.scoring.scorer import ModelScorer

VETO_COST = 10.0
"""Added on nodes without points: more than five containers at twice their baseline cost, so that they come last."""
UNKNOWN = (REFERENCE, PodClass("", True))
"""Classes of unknown apps."""


def table_costs(
    replies: Callable[[], Replies | None], classes: Sequence[PodClass], held: Iterable[tuple[PodClass, str]]
) -> ClassCosts:
    """Costs from a server's score table, with assumed pods; a class that it lacks costs what unknown apps do.

    Raises:
        Unavailable: there is no table yet.
    """
    if (found := replies()) is None:
        raise Unavailable("no score table yet: `cohabit serve` writes it seconds after its start; retry then")
    known = [known_class(of, found.row_of) for of in classes]
    rows = np.arange(len(found.table.nodes))
    cost = [found.costs(of, rows) + VETO_COST * (found.points(of, rows) == 0) for of in known]
    return class_costs(found.table, known, np.where(found.table.known, np.array(cost), np.nan), held)


def exact_costs(
    scorer: ModelScorer | None, classes: Sequence[PodClass], held: Iterable[tuple[PodClass, str]]
) -> ClassCosts:
    """Costs from a table that is computed for this gang alone: seconds for thousands of nodes.

    Raises:
        Unavailable: there is no scorer.
    """
    if scorer is None:
        raise Unavailable("no model or no snapshot: run `cohabit model train` and `cohabit refresh`")
    view, others = scorer.snapshot, list(held)
    known = [class_of(of.pending_pod(), view.app_index, view.team_index) for of in classes]
    every = dict.fromkeys([*UNKNOWN, *known, *(of for of, _ in others if of.is_known(view.app_index, ()))])
    table = begun(scorer, "", list(every))
    at = [table.classes.index(of) for of in known]
    cost = table.cost[at].astype(np.float64) + VETO_COST * (table.points[at] == 0)
    return class_costs(table, known, np.where(table.known, cost, np.nan), others)

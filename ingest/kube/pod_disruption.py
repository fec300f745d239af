"""Disruption budgets: which budget a pod is under, and how many disruptions that allows. Kernel."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ingest.kube.api_types import DisruptionBudget, LabelSelector, Record


class Budget(NamedTuple):
    """A disruption budget as it is remembered.

    Args:
        namespace: its own, and that of its pods.
        name: of the budget.
        selector: JSON of a label selector; None selects no pod.
        allowed: disruptions that it allows now; None where its status does not say.
    """

    namespace: str
    name: str
    selector: str | None
    allowed: int | None


Budgets = Mapping[str, Sequence[tuple[Budget, LabelSelector]]]
"""Budgets that select pods, and their selectors, by namespace."""
NO_BUDGETS: Budgets = {}


def budget_of(raw: object) -> Budget:
    """A budget as the API has it; one changed since its status was computed allows no disruption, as in an eviction.

    Raises:
        pydantic.ValidationError: it is no budget.

    Source: kubernetes/pkg/registry/core/pod/storage/eviction.go, checkAndDecrement.
    """
    found = DisruptionBudget.model_validate(raw)
    meta, behind = found.metadata, found.observed_generation < found.metadata.generation
    selected = None if found.selector is None else found.selector.model_dump_json(by_alias=True)
    return Budget(meta.namespace, meta.name, selected, 0 if behind else found.disruptions_allowed)


def by_namespace(budgets: Sequence[Budget]) -> Budgets:
    """Budgets with their selectors, in the order of their names."""
    found = dict[str, list[tuple[Budget, LabelSelector]]]()
    for one in sorted(budgets, key=lambda budget: budget.name):
        if one.selector is not None:
            selector = LabelSelector.model_validate_json(one.selector)
            found.setdefault(one.namespace, []).append((one, selector))
    return found


def columns_of(namespace: str, labels: Mapping[str, str], budgets: Budgets) -> Record:
    """Columns of `placements` that say which budget a pod is under; none without a budget.

    Of several budgets it is the first by name, and it allows no disruption: Kubernetes does not evict such a pod.

    Source: Kubernetes documentation, "Specifying a Disruption Budget": null selects none, {} all pods of the namespace.
    """
    mine = [one for one, selector in budgets.get(namespace, ()) if selector.matches(labels)]
    if not mine:
        return {}
    allowed = mine[0].allowed if len(mine) == 1 else 0
    return {"disruption_budget": mine[0].name} | ({} if allowed is None else {"disruptions_allowed": allowed})


def differing(before: Sequence[Budget], now: Sequence[Budget]) -> Iterator[tuple[str, str]]:
    """Namespace and `labelSelector` of pods whose budget may have changed, each once."""
    for namespace, selector in sorted({(one.namespace, one.selector) for one in {*before} ^ {*now} if one.selector}):
        yield namespace, LabelSelector.model_validate_json(str(selector)).query()

"""Neighbours: nodes that pod affinity, anti-affinity and topology spread keep a pod from. Kernel.

A pod that moves is counted as gone from its own node, since it is evicted first; other pods that a plan moves count on
both nodes. Where labels are not known, whatever may match keeps away, and nothing counts as company.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from advisor.remediation.fits import holds, matches_node, tolerates
from advisor.remediation.pod_rules import NodeRules, PodRules, PodTerm, Selector, Spread

Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Occupancy:
    """Pods as the scheduler sees them: their rules, and the nodes on which they count.

    Args:
        nodes: (n,) rules of nodes.
        pods: rules by uid, of all pods that have a node.
        places: rows of nodes by uid: the own one, and the target once a plan moves it.
    """

    nodes: tuple[NodeRules, ...]
    pods: Mapping[str, PodRules]
    places: Mapping[str, tuple[int, ...]]

    def moved(self, uid: str, target: int) -> "Occupancy":
        """The same with a pod on a second node."""
        return replace(self, places={**self.places, uid: (*self.places.get(uid, ()), target)})

    @cached_property
    def apart(self) -> tuple[str, ...]:
        """Pods with required anti-affinity, which others must respect too."""
        return tuple(uid for uid, pod in self.pods.items() if pod.apart)

    @cached_property
    def domains(self) -> dict[str, list[str | None]]:
        """(n,) value of each topology key by node, computed once for each key that pods name."""
        keys = {term.topology for pod in self.pods.values() for term in (*pod.apart, *pod.together)}
        keys |= {term.topology for pod in self.pods.values() for term in pod.spread}
        return {key: [node.labels.get(key) for node in self.nodes] for key in keys}

    def kept_away(self, uid: str) -> Flags:
        """(n,) nodes that other pods keep a pod from.

        Args:
            uid: of a pod in `pods`.

        Returns:
            True where it may not go.

        Raises:
            KeyError: there is no such pod.

        Source: Kubernetes documentation, "Inter-pod affinity and anti-affinity", "Pod Topology Spread Constraints".
        """
        pod = self.pods[uid]
        found = np.zeros(len(self.nodes), np.bool_)
        for term in pod.apart:
            found |= self._near(term.topology, [other for other, rules in self._others(uid) if _may(term, rules)])
        for other in self.apart:
            if other != uid:
                for term in self.pods[other].apart:
                    if _may(term, pod):
                        found |= self._near(term.topology, [other])
        if pod.together:
            found |= ~self._company(uid, pod)
        for spread in pod.spread:
            found |= self._uneven(uid, pod, spread)
        return found

    def _others(self, uid: str) -> Iterator[tuple[str, PodRules]]:
        return ((other, rules) for other, rules in self.pods.items() if other != uid)

    def _near(self, topology: str, uids: list[str]) -> Flags:
        """(n,) nodes in the topology domain of some pods."""
        domain = self.domains[topology]
        taken = {domain[row] for uid in uids for row in self.places.get(uid, ())} - {None}
        return np.fromiter((value in taken for value in domain), np.bool_, len(domain))

    def _company(self, uid: str, pod: PodRules) -> Flags:
        """(n,) nodes where required affinity holds: one pod at least matches all terms in the domain of each.

        Where no pod matches, one that matches its own terms may go to any node with the labels.
        """
        able = np.ones(len(self.nodes), np.bool_)
        for term in pod.together:
            able &= np.array([value is not None for value in self.domains[term.topology]], np.bool_)
        possible = [other for other, rules in self._others(uid) if all(_may(term, rules) for term in pod.together)]
        if not possible:
            return able & all(_matches(term, pod) is True for term in pod.together)
        certain = [
            other
            for other in possible
            if len(self.places.get(other, ())) == 1
            and all(_matches(term, self.pods[other]) is True for term in pod.together)
        ]
        for term in pod.together:
            able &= self._near(term.topology, certain)
        return able

    def _uneven(self, uid: str, pod: PodRules, of: Spread) -> Flags:
        """(n,) nodes on which the pod would exceed the largest skew allowed."""
        domain = self.domains[of.topology]
        counted = [self._counted(pod, of, row) for row in range(len(self.nodes))]
        names = sorted({value for value, counts in zip(domain, counted, strict=True) if value is not None and counts})
        code = {name: number for number, name in enumerate(names)}
        least, most = np.zeros(len(names), np.int64), np.zeros(len(names), np.int64)
        for other, rules in self._others(uid):
            rows = self.places.get(other, ()) if (matched := _counts(pod, of, rules)) is not False else ()
            for row in rows:
                if counted[row] and (value := domain[row]) is not None:
                    most[code[value]] += 1
                    least[code[value]] += matched is True and len(rows) == 1
        fewest = int(least.min()) if len(names) >= max(of.min_domains, 1) else 0
        own = int(_selects(of.selector, pod) is not False)
        full = {name for name in names if most[code[name]] + own - fewest > of.max_skew}
        return np.fromiter((value is None or value in full or value not in code for value in domain), np.bool_)

    def _counted(self, pod: PodRules, of: Spread, row: int) -> bool:
        """Whether a node's domain counts for a constraint."""
        node = self.nodes[row]
        if any(one.topology not in node.labels for one in pod.spread):
            return False
        matched = not of.honours_affinity or matches_node(pod, node)
        return matched and (not of.honours_taints or tolerates(pod, node.taints))


def _matches(term: PodTerm, pod: PodRules) -> bool | None:
    """Whether a term is about a pod; None where that is not known."""
    place = True if term.every or pod.namespace in term.namespaces else term.every
    if place is False and pod.namespace is None:
        place = None
    selected = _selects(term.selector, pod)
    if place is False or selected is False:
        return False
    return None if place is None or selected is None else True


def _may(term: PodTerm, pod: PodRules) -> bool:
    return _matches(term, pod) is not False


def _selects(selector: Selector | None, pod: PodRules) -> bool | None:
    """Whether a selector matches a pod; None where its labels are not known. No selector matches no pod."""
    if selector is None:
        return False
    if pod.labels is None:
        return None if selector else True
    return holds(selector, pod.labels)


def _counts(pod: PodRules, of: Spread, other: PodRules) -> bool | None:
    """Whether a pod counts for a constraint of another one, which is about its own namespace; None: not known."""
    if None not in {pod.namespace, other.namespace} and pod.namespace != other.namespace:
        return False
    selected = _selects(of.selector, other)
    return selected if selected is not True or None not in {pod.namespace, other.namespace} else None

"""Terms of `docs/glossary.md` that pages show with their meaning; a test compares both."""

from markupsafe import Markup

TERMS = {
    "adjustment": "Rebate or surcharge on a charge record; adjustments of a month sum to zero.",
    "antagonist": "Neighbour that causes most of a victim's slowdown.",
    "charge record": "One priced amount of one account, container, resource and hour.",
    "change freeze": "State in which no plan is created, approved or exported.",
    "cost estimate": "What a container would cost before it runs.",
    "days until full": "Days until demand for a resource reaches the capacity of its pool.",
    "headroom": (
        "CPU and memory of a node that best-effort containers may use until a time, in addition to those that are "
        "there."
    ),
    "holdout": "Pods or plan steps that are drawn at random and get no advice, as control group.",
    "idle cost": "Pool cost that no container reserved or used.",
    "neighbour": "Other container on the same node.",
    "plan": "Ordered, reviewed moves and limits for slowed containers.",
    "price book": "Dated, immutable unit prices and policy.",
    "slowdown": (
        "Time for the same work as a ratio to the app's baseline, by latency, CPI, CPU time per request, or waiting; "
        "2.0 is twice as slow."
    ),
    "victim": "Container that interference slows down.",
}
"""By term its meaning."""


def term(name: str, shown: str = "") -> Markup:
    """A term with its meaning as a tooltip.

    Args:
        name: as in the glossary.
        shown: text on the page; the term itself if empty.

    Raises:
        KeyError: the glossary of pages has no such term.
    """
    return Markup('<abbr title="{}">{}</abbr>').format(TERMS[name], shown or name)

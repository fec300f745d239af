"""What both models read: each feature's unit, sign, meaning and when it is known, from the catalogues themselves."""

from collections.abc import Sequence

from cohabit.reference.markdown import as_text, code, page, table
from features.schema.catalog import FEATURES, Feature
from features.training.diagnosis_rows import DIAGNOSIS
from models.bundle.leakage_guard import DIAGNOSIS as DIAGNOSES
from models.bundle.leakage_guard import PLACEMENT
from models.registry.model_card import KNOWN, SIGNS, USES, meaning

ABOUT = (
    "What both models read, in the order of their input, from `features/schema/catalog.py` and "
    "`features/training/diagnosis_rows.py`. More "
    "of a feature raises the predicted slowdown or leaves it as it is, lowers it, or does either: the model is held to "
    "that. Features marked *base* are weighed by the additive base that compares nodes. Where a pressure was not "
    "measured a column says so. `make reference` writes this page."
)


def features_page() -> str:
    """The reference of features."""
    both: dict[str, Sequence[Feature]] = {PLACEMENT: FEATURES, DIAGNOSES: DIAGNOSIS}
    return page("Features", ABOUT, (_section(name, of) for name, of in both.items()))


def _section(name: str, features: Sequence[Feature]) -> str:
    use, not_for = USES[name]
    rows = [
        (
            code(f.name),
            as_text(f.unit),
            SIGNS[f.sign],
            "base" if f.base else "",
            as_text(meaning(f.name)),
            KNOWN[f.known],
        )
        for f in features
    ]
    head = f"## Model `{name}`\n\n{use}\n\nNot for: {not_for}\n\n{len(features)} features.\n"
    return f"{head}\n{table(('feature', 'unit', 'more of it', 'base', 'meaning', 'known from'), rows)}"

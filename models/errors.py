"""Errors of the models package, one class per action a caller can take."""

from datetime import datetime
from pathlib import Path


class ModelsError(Exception):
    """Something in models cannot go on; the message says what to do."""


class NotExactlyExportable(ModelsError):
    """A trained forest uses something ONNX cannot reproduce to the bit."""

    def __init__(self, reason: str, remedy: str) -> None:
        self.reason, self.remedy = reason, remedy
        super().__init__(f"the forest cannot be exported exactly: {reason}; {remedy}")


class WrongFeatures(ModelsError):
    """Rows do not have the columns the model was trained on."""

    def __init__(self, found: tuple[int, ...], expected_width: int) -> None:
        self.found, self.expected_width = found, expected_width
        super().__init__(
            f"features have shape {found}, the model reads (rows, {expected_width}): "
            "build the rows with the catalogue of the model's manifest"
        )


class GraphUnreadable(ModelsError):
    """A graph that this process's runtime cannot open."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"onnxruntime cannot open the graph: {reason}; was it exported by a newer version? Upgrade, or roll back"
        )


class WithoutBase(ModelsError):
    """A model of data without signs was used where the sum of pressures is needed."""

    def __init__(self) -> None:
        super().__init__("the model starts from a trend, not from a sum of pressures: train it on columns with signs")


class InconsistentDataset(ModelsError):
    """Training data contradict themselves; nothing can be learnt from them as they are."""

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem, self.remedy = problem, remedy
        super().__init__(f"the training data cannot be used: {problem}; {remedy}")


class KnownTooLate(ModelsError):
    """A placement model reads what is measured only after the decision it is asked about."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        super().__init__(
            f"a placement model may not read {', '.join(names)}: known only after the decision; leave it out, or "
            "give it to the diagnosis model"
        )


class BundleCorrupt(ModelsError):
    """A bundle on disk is not what was written."""

    def __init__(self, directory: Path, file: str, problem: str) -> None:
        self.directory, self.file, self.problem = directory, file, problem
        super().__init__(
            f"bundle {directory}: {file} {problem}; do not serve it: copy it again, train another if another version "
            "wrote it, or run `cohabit model rollback`"
        )


class UnknownModel(ModelsError):
    """A bundle holds no model of that name."""

    def __init__(self, directory: Path, model: str, known: tuple[str, ...]) -> None:
        self.directory, self.model, self.known = directory, model, known
        super().__init__(f"bundle {directory} has no model {model!r}; it has {', '.join(sorted(known)) or 'none'}")


class NotExplainable(ModelsError):
    """A bundle predicts, but does not hold what explains a prediction."""

    def __init__(self, directory: Path, model: str) -> None:
        self.directory, self.model = directory, model
        super().__init__(
            f"bundle {directory} has graphs but no trees of model {model!r}, it is older than explanations: "
            "train again to have them"
        )


class BadBundleName(ModelsError):
    """A bundle cannot be called so."""

    def __init__(self, name: str, followed: str) -> None:
        self.name = name
        super().__init__(
            f"no bundle can be called {name!r}: give up to 100 letters of a to z and A to Z, digits, '.', '_' and '-', "
            f"a letter or digit first, without {followed!r}"
        )


class BundleExists(ModelsError):
    """A bundle of that name was written before; bundles never change."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        super().__init__(f"bundle {directory} exists already and is never overwritten: write under another name")


class CatalogueMismatch(ModelsError):
    """A bundle was trained on another feature catalogue than the one that builds its rows."""

    def __init__(self, directory: Path, found: str, expected: str) -> None:
        self.directory, self.found, self.expected = directory, found, expected
        super().__init__(
            f"bundle {directory} was trained on feature catalogue {found!r}, this process builds {expected!r}: "
            "train again with this version, or start the version that trained it"
        )


class UnknownBundle(ModelsError):
    """The registry holds no bundle of that name."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        self.name, self.known = name, known
        super().__init__(f"the registry has no bundle {name!r}; it has {', '.join(known) or 'none'}")


class NothingToFollow(ModelsError):
    """There is no bundle whose margins could follow, or nothing for them to follow."""

    def __init__(self, reason: str, remedy: str) -> None:
        self.reason, self.remedy = reason, remedy
        super().__init__(f"margins stay as they are: {reason}; {remedy}")


class NothingNewer(NothingToFollow):
    """Every label there is was followed already."""

    def __init__(self, until: datetime) -> None:
        self.until = until
        super().__init__(
            f"the lake has no label of a window after {until:%Y-%m-%d %H:%M} UTC",
            "run `cohabit features` over newer samples, then again",
        )


class ChangedMeanwhile(ModelsError):
    """Another bundle became current than the one that was to be replaced."""

    def __init__(self, name: str, expected: str | None, found: str | None) -> None:
        self.name, self.expected, self.found = name, expected, found
        super().__init__(
            f"{name} was made for the place of {expected or 'nothing'}, but {found or 'nothing'} is current by now: "
            "run the command again"
        )


class UnreadableVerdict(ModelsError):
    """What is kept as the verdict on a challenger is none."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path} is no verdict ({reason}): judge again with `cohabit model gate`")


class NothingToWatch(ModelsError):
    """There is no model to check for drift."""

    def __init__(self, root: Path, reason: str) -> None:
        self.root, self.reason = root, reason
        super().__init__(f"there is no model to watch in {root}: {reason}; run `cohabit model train` first")


class UnreadableDrift(ModelsError):
    """What is kept as the status of drift is none."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path} is no status of drift ({reason}): remove it, and run `cohabit model drift`")


class NotNoted(ModelsError):
    """Another bundle became current, and that could not be written down."""

    def __init__(self, path: Path, name: str, reason: str) -> None:
        self.path, self.name, self.reason = path, name, reason
        super().__init__(
            f"{name} is current now, but {path} does not record who did that ({reason}): write it down yourself"
        )


class NotJudged(ModelsError):
    """A challenger has no verdict on the place it is to take."""

    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, reason
        super().__init__(
            f"{name} may not become current: {reason}; run `cohabit model gate {name}`, or say why with --force REASON"
        )


class GateRefused(ModelsError):
    """A challenger was judged, and is worse than the current model, or is not shown to be as good."""

    def __init__(self, name: str, refusals: tuple[str, ...]) -> None:
        self.name, self.refusals = name, refusals
        super().__init__(
            f"{name} may not become current: {'; '.join(refusals)}. What is current stays; --force REASON overrides"
        )


class Unsigned(ModelsError):
    """A bundle is not signed by anybody who is trusted."""

    def __init__(self, directory: Path, reason: str) -> None:
        self.directory, self.reason = directory, reason
        super().__init__(
            f"bundle {directory} {reason}: train it where COHABIT_SIGNING__KEY is set, or add the key of who signed it "
            "to COHABIT_SIGNING__TRUSTED_KEYS"
        )


class BadKey(ModelsError):
    """A file that is to hold a key for bundles holds none."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path} is no Ed25519 key in PEM ({reason}): `cohabit model keys FOLDER` makes a pair")


class StillServed(ModelsError):
    """The current bundle cannot be removed."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"bundle {name} is current: promote another one first")


class NothingToRollBackTo(ModelsError):
    """No bundle was current before the present one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        super().__init__(f"registry {root} has no earlier bundle to return to: promote one by name")


class NotComparable(ModelsError):
    """Pods that were advised and pods that were not cannot be compared; the message says what is missing."""

    def __init__(self, reason: str, remedy: str) -> None:
        self.reason, self.remedy = reason, remedy
        super().__init__(f"the impact of advice cannot be estimated: {reason}; {remedy}")

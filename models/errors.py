"""Errors of the models package, one class per action a caller can take."""


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

"""What stores of a lake share: names in a table's log, and what is said where a store cannot be used. Facts."""

import re

from ingest.schema.errors import IngestError

LOG = "_delta_log"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_PASSWORD = re.compile(r"//[^/@\s]*@")
LINES = "cohabitLines"
"""Key of a log entry's commitInfo: how many lines the entry has. One that was cut after a line would pass as whole."""


def unsupported_lake(uri: str, reason: str) -> IngestError:
    """The lake's address names a store on which a commit may be lost."""
    return IngestError(
        f"lake {uri!r} cannot be used: {reason}; name a folder on a file system with hard links, or a bucket (s3://, "
        "gs://, az://) of a store that honours If-None-Match"
    )


def unreachable_lake(uri: str, error: Exception) -> IngestError:
    """The lake's store does not answer, or refuses its user."""
    keyless = "169.254.169.254" in str(error)  # who has no keys asks a machine of the cloud for some
    why = "no keys are set, and this machine has no identity" if keyless else first_line(error)
    return IngestError(
        f"lake {uri!r} cannot be reached ({why}): check its address, that the store runs, and what your credentials "
        "allow there, then try again"
    )


def first_line(error: Exception) -> str:
    """What an error says first, and what the system said; libraries go on for pages. Without passwords of addresses."""
    lines = _COLOUR.sub("", str(error)).strip().split("\n")
    system = next((line.strip(" ↳") for line in lines[1:] if "os error" in line), "")
    return _PASSWORD.sub("//***@", f"{lines[0]}: {system}" if system else lines[0])

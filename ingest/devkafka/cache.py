"""Where downloads are kept between runs."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """COHABIT_CACHE, else XDG_CACHE_HOME, else ~/.cache; then `cohabit` inside it. Not created here."""
    root = os.environ.get("COHABIT_CACHE") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(root).expanduser() / "cohabit"

"""Logs: structlog to standard error, one JSON object per line if it is not a terminal. Set up once per process.

Those that a command starts are processes too: not set up, they would log to standard output, debugging included.
"""

import logging
import sys

import structlog


def set_up_logs(level: str = "INFO") -> None:
    """Send all logs to standard error with time, level and fields."""
    renderer = structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level]),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),  # of the moment: a test may replace and close it
        cache_logger_on_first_use=False,
    )

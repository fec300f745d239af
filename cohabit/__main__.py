"""`python -m cohabit`."""

from cohabit.cli import main

main()

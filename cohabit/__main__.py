"""`cohabit`, and `python -m cohabit`. Processes that a command starts import this too, and have no use for commands."""


def main() -> None:
    """Run the command that was typed."""
    from cohabit.cli.main import main as run

    run()


if __name__ == "__main__":
    main()

"""YAML depth: files that are nested too deeply are refused before they are read into objects. Kernel."""

MAX_DEPTH = 100
"""Ten times as deep as a kubeconfig or a scheduler's configuration."""


def refuse_deep(content: bytes) -> None:
    """Nothing, for YAML that is nested at most MAX_DEPTH deep.

    Args:
        content: of a file.

    Raises:
        YAMLError: it is nested more deeply, or it is not YAML.

    Source: ours. PyYAML reads a level within a level, looking again at every open bracket: thousands take seconds.
    """
    import yaml  # heavy, and not there everywhere

    depth = 0
    for event in yaml.parse(content, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise yaml.YAMLError(f"it is nested more than {MAX_DEPTH} levels deep,{event.start_mark}")

"""Body: what requests and replies as JSON have in common."""

from pydantic import BaseModel, ConfigDict


class Body(BaseModel):
    """A body whose fields are described by what stands below them."""

    model_config = ConfigDict(use_attribute_docstrings=True)

"""What a configured value must look like, and our words for what does not. Pure.

The one place at which decoded YAML meets a schema; above are the files that have one.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel, Field, StrictStr, ValidationError

from acpbridge.config import yamltext

Word = Annotated[StrictStr, Field(min_length=1)]

# What the library says about them is not for people.
PROBLEMS: Final[Mapping[str, str]] = {
    "extra_forbidden": "this key is not known; remove it",
    "model_type": "a mapping belongs here; give keys below it, or remove it",
    "dict_type": "a mapping belongs here; give names with values",
    "list_type": "a list belongs here; write it as [a, b] or as lines that begin with -",
    "string_type": "text belongs here; put it in quotes",
    "string_too_short": "it must not be empty",
    "bool_type": "write true or false",
    "string_pattern_mismatch": "write it as module:name, or as /path/to/file.py:name",
}

M = TypeVar("M", bound=BaseModel)


def shaped(source: yamltext.Text, model: type[M], value: Any, here: yamltext.Path = ()) -> M:
    """Return a value as its model has it.

    Args:
        source: where it was read.
        model: its schema.
        value: decoded.
        here: where it stands in the source.

    Raises:
        BridgeError: `config_error`, with file, line and key; no value is repeated in it.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = (*here, *(part for part in first["loc"] if part != "[key]"))
        raise source.error(path, PROBLEMS.get(first["type"], first["msg"])) from None

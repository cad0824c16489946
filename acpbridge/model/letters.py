"""What messages that come in and messages that go out have in common: how they are read.

Names are camelCase on a wire; an unknown one is an error, and so is a value of another type.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
)
from pydantic.alias_generators import to_camel

from acpbridge.errors import BridgeError
from acpbridge.model.address import NOBODY, Address


def _read(value: object) -> object:
    if isinstance(value, str):
        return Address.parse(value) if value else NOBODY
    return value


WireAddress = Annotated[
    Address, BeforeValidator(_read), PlainSerializer(str, return_type=str, when_used="json")
]
"""An address that is its text on a wire."""


class Letter(BaseModel):
    """What both kinds of messages have.

    Attributes:
        content: the text.
        sender: who sent it; on a wire `from`.
        recipient: whom it is for; on a wire `to`.
        account: ours in the channel, by which it came or goes; "" for the only one.
        thread: in which it stands; "" for none.
        media: paths or addresses of what comes with it.
        metadata: of the channel or of the caller; texts only.
        channel: older form of an address: the channel, or `agent`.
        chat_id: in which chat of the channel.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        hide_input_in_errors=True,
        arbitrary_types_allowed=True,
    )

    content: str = ""
    sender: WireAddress = Field(default=NOBODY, validation_alias="from", serialization_alias="from")
    recipient: WireAddress = Field(default=NOBODY, validation_alias="to", serialization_alias="to")
    account: str = ""
    thread: str = ""
    media: tuple[str, ...] = ()
    metadata: Mapping[str, str] = Field(default_factory=dict)
    channel: str = ""
    chat_id: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return self.model_dump(mode="json", by_alias=True)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote.

        Raises:
            BridgeError: `invalid_params`, naming the field.
        """
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "message"
            raise bad_field(where, first["msg"]) from None


def bad_field(name: str, problem: str) -> BridgeError:
    """Return the error of a field that is wrong."""
    return BridgeError("invalid_params", f"{name}: {problem.rstrip('.')}.")

"""An OpenFeature provider: evaluating a flag assigns an action.

A flag is an experiment, and its variants are the actions. The targeting key is the unit, the attributes are the
context. The flag metadata hold the id of the assignment, to report the reward with, its propensity, round and seal.

    from openfeature import api
    from openfeature.evaluation_context import EvaluationContext

    api.set_provider(PacbanditsProvider(Client("http://localhost:8000", key)))
    details = api.get_client().get_string_details(
        "checkout", "standard", EvaluationContext("u-17", {"age": 31, "country": "DE"})
    )
    details.value, details.flag_metadata["assignment"]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import (
    ErrorCode,
    FlagNotFoundError,
    GeneralError,
    InvalidContextError,
    OpenFeatureError,
    ProviderNotReadyError,
    TargetingKeyMissingError,
    TypeMismatchError,
)
from openfeature.flag_evaluation import FlagResolutionDetails, Reason
from openfeature.provider import AbstractProvider, Metadata

from pacbandits.errors import InputError, plain
from pacbandits.schema import Json
from pacbandits.service.client import Client, ServiceError

if TYPE_CHECKING:
    from openfeature.flag_evaluation import FlagValueType

Result = TypeVar("Result")
_TRUE, _FALSE = ("true", "on", "yes", "1"), ("false", "off", "no", "0")
# OpenFeature errors by HTTP status; any other status is a GeneralError.
_KINDS: dict[int, Callable[[str], OpenFeatureError]] = {
    0: ProviderNotReadyError,
    403: FlagNotFoundError,
    404: FlagNotFoundError,
    422: InvalidContextError,
    503: ProviderNotReadyError,
}


class PacbanditsProvider(AbstractProvider):
    """An OpenFeature provider whose flags are the experiments of a service.

    client: client of the service, with a key of scope write.

    On an error it returns the default value with an error code, as OpenFeature requires: also if the experiment is
    paused, or if the service cannot be reached.
    """

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client

    def get_metadata(self) -> Metadata:
        """Return the provider's name."""
        return Metadata(name="pacbandits")

    def shutdown(self) -> None:
        """Close the connections."""
        self._client.close()

    def resolve_string_details(
        self, flag_key: str, default_value: str, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[str]:
        """Return the name of the action."""
        return self._resolve(flag_key, default_value, evaluation_context, lambda action: action)

    def resolve_boolean_details(
        self, flag_key: str, default_value: bool, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[bool]:
        """Return True for an action named true, on, yes or 1, and False for one named false, off, no or 0."""
        return self._resolve(flag_key, default_value, evaluation_context, _flag)

    def resolve_integer_details(
        self, flag_key: str, default_value: int, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[int]:
        """Return the action's name as an integer."""
        return self._resolve(flag_key, default_value, evaluation_context, int)

    def resolve_float_details(
        self, flag_key: str, default_value: float, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[float]:
        """Return the action's name as a float."""
        return self._resolve(flag_key, default_value, evaluation_context, float)

    def resolve_object_details(
        self,
        flag_key: str,
        default_value: Sequence[FlagValueType] | Mapping[str, FlagValueType],
        evaluation_context: EvaluationContext | None = None,
    ) -> FlagResolutionDetails[Sequence[FlagValueType] | Mapping[str, FlagValueType]]:
        """Return the default with a type error: actions have names only."""
        return _failed(default_value, TypeMismatchError("the actions of an experiment are names, and no objects"))

    def track(
        self,
        tracking_event_name: str,
        evaluation_context: EvaluationContext | None = None,
        tracking_event_details: Any = None,
    ) -> None:
        """Report a reward: the event's name is the experiment, its value the reward, and its attribute `assignment`
        the id in the flag's metadata; `metrics` are those of the experiment. An event without an id is ignored."""
        attributes: Mapping[str, Any] = getattr(tracking_event_details, "attributes", None) or {}
        value, assignment = getattr(tracking_event_details, "value", None), attributes.get("assignment")
        if isinstance(assignment, str) and isinstance(value, int | float):
            metrics = attributes.get("metrics")
            self._client.experiment(tracking_event_name).record(assignment, float(value), metrics=metrics)

    def _resolve(
        self,
        flag: str,
        default: Result,
        context: EvaluationContext | None,
        read: Callable[[str], Result],
    ) -> FlagResolutionDetails[Result]:
        """Return the assigned action as a flag value, or the default with an error code."""
        try:
            told = self._assign(flag, context)
            return FlagResolutionDetails(
                value=_read(read, told["action"]),
                variant=told["action"],
                reason=Reason.STATIC if told["holdout"] else Reason.SPLIT,
                flag_metadata={
                    "assignment": told["id"],
                    "propensity": told["propensity"],
                    "round": told["round"],
                    "seal": told["seal"],
                    "new": told["new"],
                },
            )
        except OpenFeatureError as error:
            return _failed(default, error)

    def _assign(self, flag: str, context: EvaluationContext | None) -> Json:
        if context is None or not context.targeting_key:
            raise TargetingKeyMissingError("an assignment is for somebody: give a targeting key")
        try:
            attributes = {name: _value(value) for name, value in context.attributes.items()}
            return self._client.experiment(flag).assign_as_json(attributes, context.targeting_key)
        except ServiceError as error:
            raise _KINDS.get(error.status, GeneralError)(str(error)) from None
        except InputError as error:
            raise InvalidContextError(str(error)) from None


def _value(value: object) -> object:
    """Return an attribute as the service accepts it: date-times as ISO 8601 text."""
    return value.isoformat() if isinstance(value, datetime) else value


def _flag(action: str) -> bool:
    word = action.casefold()
    if word not in (*_TRUE, *_FALSE):
        raise ValueError
    return word in _TRUE


def _read(read: Callable[[str], Result], action: str) -> Result:
    try:
        return read(action)
    except ValueError:
        raise TypeMismatchError(
            f"the action '{plain(action)}' is not of the kind that was asked for; ask for a string"
        ) from None


def _failed(default: Result, error: OpenFeatureError) -> FlagResolutionDetails[Result]:
    code: ErrorCode = error.error_code
    return FlagResolutionDetails(value=default, error_code=code, error_message=error.error_message, reason=Reason.ERROR)

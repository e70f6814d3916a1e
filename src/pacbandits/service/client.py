"""A thin client of the service.

Requests that fail for lack of a connection, or because the server is busy, are retried a few times. That is safe: with
sticky visits a unit gets the same assignment again, and a reward that is reported twice counts once. With visits
"each", a retried assignment may be drawn twice.
"""

from __future__ import annotations

import json
import random
import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast
from urllib.parse import quote

import httpx

from pacbandits.errors import InputError, plain
from pacbandits.experiment.assignment_records import Assignment, Recorded
from pacbandits.schema import Json

DEFAULT_TIMEOUT_SECONDS, DEFAULT_RETRIES = 10.0, 4
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.1, 5.0
ASKED_AGAIN = (429, 502, 503, 504)
_LATE = 410


class ServiceError(InputError):
    """The service refused a request, or could not be reached.

    status: HTTP status; 0 if there was no response.
    """

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Client:
    """A client of a service.

    url: the URL that `pacbandits serve` prints.
    key: a key of an experiment, or an admin key.
    timeout_seconds: timeout of one request.
    retries: maximum number of retries.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        retries: int = DEFAULT_RETRIES,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._retries = retries
        self._http = httpx.Client(
            base_url=_address(url),
            headers={"Authorization": f"Bearer {key}"},
            timeout=timeout_seconds,
            transport=transport,
            trust_env=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def experiment(self, name: str) -> RemoteExperiment:
        """Return a client of one experiment."""
        return RemoteExperiment(self, name)

    def experiments(self) -> list[str]:
        """Return the names of the experiments that the key may read."""
        return cast(list[str], self.ask("GET", "/experiments")["experiments"])

    def create(self, protocol: Mapping[str, Any]) -> Json:
        """Create an experiment, with an admin key; return the response, which has the experiment's keys.

        protocol: the body of POST /experiments.
        """
        return self.ask("POST", "/experiments", protocol, again=False)

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, again: bool = True) -> Json:
        """Send a request, with retries unless `again` is false; return the JSON response."""
        return cast(Json, json.loads(self.fetch(method, path, body, again=again)))

    def fetch(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, again: bool = True) -> bytes:
        """Send a request, with retries unless `again` is false; return the response's bytes.

        Raises:
            ServiceError: If the service refuses, or cannot be reached after all retries.
        """
        content = None if body is None else _in_json(body)
        headers = {} if body is None else {"Content-Type": "application/json"}
        pause = FIRST_PAUSE_SECONDS
        for left in range(self._retries if again else 0, -1, -1):
            wait = pause
            try:
                answer = self._http.request(method, path, content=content, headers=headers)
            except httpx.TransportError as error:
                why = plain(error) or type(error).__name__
                refused = ServiceError(0, f"the service at {plain(self._http.base_url)} cannot be reached: {why}")
            else:
                if answer.is_success:
                    return answer.content
                refused = ServiceError(answer.status_code, _sentence(answer))
                if answer.status_code not in ASKED_AGAIN:
                    raise refused
                wait = max(wait, _seconds_to_wait(answer))
            if not left:
                raise refused
            time.sleep(wait * random.uniform(0.5, 1.0) if wait == pause else wait)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        raise AssertionError  # the last attempt either returns or raises


class RemoteExperiment:
    """An experiment of a service, with an interface like that of `pacbandits.Experiment`.

    name: the experiment's name.
    """

    def __init__(self, client: Client, name: str) -> None:
        self.name = name
        self._client, self._path = client, f"/experiments/{quote(name, safe='')}"

    def assign(self, context: Mapping[str, Any], unit: str | None = None) -> Assignment:
        """Assign an action; unit: identifier of the user, random by default, for one who does not return."""
        return _assignment(self.assign_as_json(context, unit))

    def assign_as_json(self, context: Mapping[str, Any], unit: str | None = None) -> Json:
        """Assign an action; return the service's JSON response, with the seal."""
        return self._client.ask("POST", f"{self._path}/assignments", _who(context, unit))

    def assign_many(
        self, contexts: Sequence[Mapping[str, Any]], units: Sequence[str | None] | None = None
    ) -> list[Assignment | InputError]:
        """Assign actions for several contexts; return an assignment or an error for each."""
        named = [None] * len(contexts) if units is None else list(units)
        if len(named) != len(contexts):
            raise InputError(f"there are {len(contexts)} contexts and {len(named)} units; give one for each")
        asked = [_who(context, unit) for context, unit in zip(contexts, named, strict=True)]
        told = self._client.ask("POST", f"{self._path}/assignments", {"assignments": asked})["assignments"]
        return [InputError(one["error"]) if "error" in one else _assignment(one) for one in cast(list[Json], told)]

    def record(
        self,
        id: str,
        reward: float | None = None,
        *,
        guardrail: float | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> Recorded:
        """Report the outcomes of an assignment; metrics: each by its name, together with the reward."""
        try:
            told = self._client.ask("POST", f"{self._path}/rewards", _what(id, reward, guardrail, metrics))
        except ServiceError as error:
            if error.status != _LATE:
                raise
            return Recorded(id, reward, "late")
        return Recorded(id, reward, told["outcome"])

    def record_many(
        self, rewards: Mapping[str, float], *, metrics: Mapping[str, Mapping[str, float]] | None = None
    ) -> list[Recorded]:
        """Report several rewards, and their metrics, by assignment id: either all are stored, or none."""
        asked = [_what(id, reward, None, (metrics or {}).get(id)) for id, reward in rewards.items()]
        told = cast(list[Json], self._client.ask("POST", f"{self._path}/rewards", {"rewards": asked})["rewards"])
        return [Recorded(one["assignment"], rewards[one["assignment"]], one["outcome"]) for one in told]

    def status(self) -> Json:
        """Return the status."""
        return self._client.ask("GET", self._path)

    def result(self) -> Json:
        """Return the best claim so far, with its policy and certificate."""
        return self._client.ask("GET", f"{self._path}/result")

    def seal(self) -> Json:
        """Return the seal of the event log."""
        return self._client.ask("GET", f"{self._path}/seal")

    def design(self) -> Json:
        """Return the open round's design, or the certified policy."""
        return self._client.ask("GET", f"{self._path}/design")

    def export(self, path: str | Path) -> Path:
        """Write the exported event log to a Parquet file and return its path."""
        written = Path(path)
        written.write_bytes(self._client.fetch("GET", f"{self._path}/export"))
        return written

    def steer(self, word: str, *, reason: str = "", **more: str) -> Json:
        """Pause, resume, stop, withdraw (with action=…) or close-round; return the new status."""
        return self._client.ask("POST", f"{self._path}/{quote(word, safe='')}", {"reason": reason, **more})


def _address(url: str) -> httpx.URL:
    try:
        made = httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        made = None
    if made is None or made.scheme not in ("http", "https") or not made.host:
        raise InputError(f"'{plain(url)}' is no address of a service; write http://host:port")
    return made


def _who(context: Mapping[str, Any], unit: str | None) -> Json:
    """Return the body of a request; without a unit, one is drawn here, so that the request can be retried."""
    return {"unit": secrets.token_hex(12) if unit is None else unit, "context": dict(context)}


def _what(id: str, reward: float | None, guardrail: float | None, metrics: Mapping[str, float] | None) -> Json:
    named = None if metrics is None else dict(metrics)
    told = {"assignment": id, "reward": reward, "guardrail": guardrail, "metrics": named}
    return {name: value for name, value in told.items() if value is not None}


def _assignment(told: Json) -> Assignment:
    return Assignment(**{name: value for name, value in told.items() if name != "seal"})


def _in_json(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, allow_nan=False, default=_item).encode()
    except ValueError:
        raise InputError(
            "what is not a number (NaN) or infinite cannot be sent; None stands for what is missing"
        ) from None


def _item(value: object) -> object:
    """Convert a numpy scalar to a Python value."""
    item = getattr(value, "item", None)
    if item is None:
        raise InputError(f"a {type(value).__name__} cannot be sent; give text, numbers, true, false or None")
    return item()


def _sentence(answer: httpx.Response) -> str:
    try:
        told = answer.json()["error"]
    except (ValueError, KeyError, TypeError):
        told = f"the service answered with status {answer.status_code}"
    return str(told)


def _seconds_to_wait(answer: httpx.Response) -> float:
    given = answer.headers.get("retry-after", "")
    return min(float(given), LONGEST_PAUSE_SECONDS) if given.isdigit() else 0.0

"""Optional packages: SQLAlchemy, without which there are no experiments, and OpenTelemetry, which records traces."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from pacbandits.errors import InputError, one_line, plain

if TYPE_CHECKING:
    import sqlalchemy
    from sqlalchemy import event, exc
else:
    try:
        sqlalchemy, event, exc = (import_module(name) for name in ("sqlalchemy", "sqlalchemy.event", "sqlalchemy.exc"))
    except ModuleNotFoundError:
        raise InputError("experiments are kept by SQLAlchemy; pip install 'pacbandits[service]'") from None

__all__ = ["Tracing", "event", "exc", "sqlalchemy", "tracing"]

# OpenTelemetry's own variables: one of the first three switches traces on; its packages read all others.
_ASKING = ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_ATTRIBUTES = "OTEL_RESOURCE_ATTRIBUTES"
_MODULES = ("trace", "trace.export", "resources")
_MAX_CHARACTERS = 300


class Tracing:
    """Traces of this process: off until `start` finds that they are asked for. Spans never name units, values or keys.

    tracer: of OpenTelemetry; None while traces are off.
    """

    def __init__(self) -> None:
        self.tracer: Any = None

    def start(self, say: Callable[..., None], environment: Mapping[str, str] = os.environ) -> None:
        """Switch traces on if the environment asks for them; say: logs an event with its fields."""
        asked = next((environment[name] for name in _ASKING if environment.get(name)), "none")
        if asked.strip() == "none" or environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
            return
        try:
            modules: list[Any] = [import_module(f"opentelemetry.sdk.{one}") for one in _MODULES]
            sdk, export, resources = modules
            named = environment.get("OTEL_SERVICE_NAME") or "service.name" in environment.get(_ATTRIBUTES, "")
            own = {} if named else {"service.name": "pacbandits"}
            provider = sdk.TracerProvider(resource=resources.Resource.create(own))
            for exporter in _exporters(environment):
                provider.add_span_processor(export.BatchSpanProcessor(exporter()))
        except ModuleNotFoundError as error:
            say("traces are off", reason=f"they need {error.name}; pip install 'pacbandits[telemetry]'")
        except (InputError, ValueError, TypeError) as error:
            say("traces are off", reason=one_line(str(error), most=_MAX_CHARACTERS))
        else:
            _relay(say)
            self.use(provider)

    def use(self, provider: Any) -> None:
        """Switch traces on, with a tracer provider of OpenTelemetry."""
        self.tracer = provider.get_tracer("pacbandits")

    def record(self, name: str, begun: int, *, parent: str | None = None, failed: bool = False, **about: Any) -> None:
        """Record a span that ends now.

        begun: its start, in nanoseconds. parent: for a request, its W3C header traceparent or an empty text.
        """
        if self.tracer is None:
            return
        api: Any = import_module("opentelemetry.trace")
        context, kind = None, api.SpanKind.INTERNAL
        if parent is not None:
            propagation: Any = import_module("opentelemetry.trace.propagation.tracecontext")
            context = propagation.TraceContextTextMapPropagator().extract({"traceparent": parent})
            kind = api.SpanKind.SERVER
        span = self.tracer.start_span(name, context=context, kind=kind, attributes=about, start_time=begun)
        if failed:
            span.set_status(api.StatusCode.ERROR)
        span.end()


def _exporters(environment: Mapping[str, str]) -> list[Any]:
    """Return the exporters that the environment names; raise InputError if one is not installed."""
    protocol = next((environment[name] for name in _PROTOCOLS if environment.get(name)), "http")
    found: list[Any] = []
    for asked in (environment.get("OTEL_TRACES_EXPORTER") or "otlp").split(","):
        name = f"otlp_proto_{'grpc' if protocol == 'grpc' else 'http'}" if asked.strip() == "otlp" else asked.strip()
        known = entry_points(group="opentelemetry_traces_exporter")
        if name not in known.names:
            raise InputError(
                f"no exporter of traces '{plain(name)}' is installed; there is {', '.join(sorted(known.names))}"
            )
        found.append(known[name].load())
    return found


def _relay(say: Callable[..., None]) -> None:
    """Log what OpenTelemetry says, such as that a collector does not answer, as lines of our log."""
    handler = logging.Handler()
    handler.emit = lambda record: say("opentelemetry", text=one_line(record.getMessage(), most=_MAX_CHARACTERS))
    logger = logging.getLogger("opentelemetry")
    logger.handlers, logger.propagate = [handler], False


tracing = Tracing()

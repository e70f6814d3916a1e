"""The dashboard: pages that show the status of experiments, with a small script and no resources from other sites."""

from __future__ import annotations

from pacbandits.service.dashboard.routes import MemorySessions, router_for

__all__ = ["MemorySessions", "router_for"]

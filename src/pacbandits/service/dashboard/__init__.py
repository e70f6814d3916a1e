"""The dashboard: pages over what an experiment says of itself, with a small script and nothing from elsewhere."""

from __future__ import annotations

from pacbandits.service.dashboard.routes import router_for

__all__ = ["router_for"]

"""Sums made by a CUDA card (`pip install 'pacbandits[gpu]'`)."""

from pacbandits.engines.cuda.engine import CardQuestion, CudaEngine, available
from pacbandits.engines.cuda.stretch import Stretch, Wanted

__all__ = ["CardQuestion", "CudaEngine", "Stretch", "Wanted", "available"]

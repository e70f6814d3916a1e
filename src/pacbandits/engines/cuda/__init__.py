"""Sums computed by a CUDA GPU (`pip install 'pacbandits[gpu]'`)."""

from pacbandits.engines.cuda.engine import CardQuestion, CudaEngine, Stretch, Wanted, available

__all__ = ["CardQuestion", "CudaEngine", "Stretch", "Wanted", "available"]

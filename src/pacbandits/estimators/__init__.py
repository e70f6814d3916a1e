"""Values and gaps from logs: importance weighting, its regularised form, and Catoni's mean."""

from pacbandits.estimators.catoni import catoni_gaps, catoni_leads, catoni_means
from pacbandits.estimators.cells import Cells
from pacbandits.estimators.importance import regularised_gaps, regularised_scores

__all__ = ["Cells", "catoni_gaps", "catoni_leads", "catoni_means", "regularised_gaps", "regularised_scores"]

"""Any scikit-learn estimator as a policy class (`pip install 'pacbandits[learn]'`)."""

from pacbandits.policies.learners.estimator_classes import Learned, LearnedPolicy
from pacbandits.policies.learners.reductions import OneHot

__all__ = ["Learned", "LearnedPolicy", "OneHot"]

"""Any scikit-learn estimator as a policy class (`pip install 'pacbandits[learn]'`)."""

from pacbandits.policies.learners.learned import Learned, LearnedPolicy
from pacbandits.policies.learners.reductions import OneHot

__all__ = ["Learned", "LearnedPolicy", "OneHot"]

"""Any scikit-learn estimator as a policy class (`pip install 'pacbandits[learn]'`)."""

from pacbandits.policies.learners.encoding import OneHot
from pacbandits.policies.learners.learned import Learned, LearnedPolicy

__all__ = ["Learned", "LearnedPolicy", "OneHot"]

"""What all tests share: Hypothesis profiles, and what tests/__init__.py sets.

`ci`, the default, draws the same examples every time, so that a failure is the change's own (`make test` fixes the
hashes of texts for that, which decide the order of sets). It does not explain a failure by tracing: on Python 3.11 that
takes longer than a test may, and the time-out would hide what failed.
`TOCSIN_HYPOTHESIS=thorough make test` draws new and many more.
"""

import os

from hypothesis import HealthCheck, Phase, settings

import tests  # noqa: F401

# Schemas, subscriptions and events are generated together; the first draw is slow on a busy machine.
_SLOW_DRAWS = (HealthCheck.too_slow, HealthCheck.data_too_large)

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=60,
    database=None,
    phases=[Phase.explicit, Phase.generate, Phase.target, Phase.shrink],
    suppress_health_check=_SLOW_DRAWS,
)
settings.register_profile(
    "thorough", deadline=None, max_examples=2000, print_blob=True, suppress_health_check=_SLOW_DRAWS
)
settings.load_profile(os.environ.get("TOCSIN_HYPOTHESIS", "ci"))

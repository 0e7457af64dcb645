"""Credit of a few methods, measured once for all that look at it."""

import pytest

from agentrl.lab.papers.credit import study as study_credit
from tests.lab.papers.credit.small_credit import NAMES, SIZE


@pytest.fixture(scope='package')
def measured(tmp_path_factory):
  """Of methods that need nothing, and of one that is not for this place."""
  folder = str(tmp_path_factory.mktemp('data'))
  original = study_credit.config

  def config(name, *args):
    c = original(name, *args)
    c.data = folder
    c.env.update(dict(train=8, test=2, length=3))
    c.rollout.max_turns = 3
    c.micro_batch = 48
    if name == 'oprl':
      raise ValueError('there is no prm here')
    return c

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(study_credit, 'config', config)
    yield study_credit.measure(NAMES, 'bifurcation', SIZE)

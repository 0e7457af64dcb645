"""Credit of a few methods, measured once for all that look at it."""

import pytest

from agentrl.lab.papers.credit import study as study_credit
from agentrl.run.check import fields
from tests.lab.papers.credit.small_credit import NAMES, SIZE


@pytest.fixture(scope='package')
def measured(tmp_path_factory):
  """Of methods that need nothing, and of one that is not for this place."""
  folder = str(tmp_path_factory.mktemp('data'))
  original = study_credit.config

  def config(name, *args):
    if name == 'oprl':
      raise ValueError('there is no prm here')
    c = original(name, *args)
    changes = {'data': folder, 'rollout.max_turns': 3, 'micro_batch': 48}
    if c.env.name == 'bifurcation':
      changes |= {'env.train': 8, 'env.test': 2, 'env.length': 3}
    return fields.changed(c, changes)

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(study_credit, 'config', config)
    yield study_credit.measure(NAMES, 'bifurcation', SIZE)

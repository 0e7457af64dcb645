"""Groups of equal states, and of equal histories."""

import pytest

from agentrl import registry
from tests import errors

pytestmark = pytest.mark.usefixtures('float64')


def test_states_must_be_told(monkeypatch):
  blind = registry.get('rollout', 'jit')._replace(
    name='blind', gives=('column:group', 'output:logp')
  )
  monkeypatch.setitem(registry._PIECES, ('rollout', 'blind'), blind)
  w = registry.MethodSpec(
    rollout='blind',
    advantage=('step',),
    stream={'step': ('step_return', 'scale_history')},
  )
  with errors.raises(ValueError, 'scale_history column:state'):
    registry.check(w)

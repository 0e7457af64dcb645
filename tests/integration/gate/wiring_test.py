"""Twelve methods fit the loop on paper: the wiring check takes them, and says
in one sentence what is wrong with a broken one.
"""

import pytest

import agentrl.advantage
import agentrl.collect
import agentrl.curate
import agentrl.learner.minibatch
import agentrl.loss
import agentrl.reward
import agentrl.rollout.registered
import agentrl.signal
import agentrl.task  # noqa: F401  all of these register their pieces
from agentrl import registry
from tests.integration.gate import wirings

MISTAKES = [
  pytest.param(name, change, words, id=f'{name}-{i}')
  for name, case in wirings.CASES.items()
  for i, (change, words) in enumerate(case.mistakes)
]


@pytest.fixture
def pieces(monkeypatch):
  """The registry with the empty pieces; as it was afterwards."""
  monkeypatch.setattr(registry, '_PIECES', dict(registry._PIECES))
  wirings.register()


@pytest.mark.parametrize('name', wirings.CASES)
@pytest.mark.usefixtures('pieces')
def test_the_check_takes_it(name):
  registry.check(wirings.CASES[name].wiring)


@pytest.mark.parametrize(('name', 'change', 'words'), MISTAKES)
@pytest.mark.usefixtures('pieces')
def test_a_mistake_gets_one_sentence(name, change, words):
  broken = wirings.CASES[name].wiring._replace(**change)
  with pytest.raises(ValueError) as e:
    registry.check(broken)
  message = str(e.value)
  for word in words:
    assert word in message
  assert '\n' not in message
  assert '. ' not in message


@pytest.mark.parametrize('name', ['oprl', 'prime'])
def test_these_need_no_empty_piece(name):
  registry.check(wirings.CASES[name].wiring)


def test_every_hyper_parameter_has_a_place():
  found = registry.defaults(wirings.CASES['oprl'].wiring)
  assert found['step']['center']['unit'] == 'turn'
  assert found['episode']['center']['unit'] == 'trajectory'
  assert found['signal']['implicit_prm']['beta'] > 0
  assert found['minibatch']['minibatches'] == {
    'epochs': 1,
    'n': 1,
    'unit': 'trajectory',
  }


def test_empty_pieces_do_not_stay():
  assert 'checklist' not in registry.names('reward')

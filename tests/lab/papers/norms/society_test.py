"""Scripted societies: what agents do, and what each mechanism does to them."""

import dataclasses

import numpy as np
import pytest

from agentrl.env.worlds import norms
from agentrl.env.worlds.norms import Norms
from agentrl.lab.papers.norms import society, study
from agentrl.lab.papers.norms.society import Traits

RULES = Norms(players=3, rounds=40)
TASK = {'capacity': 30, 'pool': 24, 'growth': 100}
TASK |= {'watched': [1] * 40, 'model': [1] * 40}
MILD, GREEDY = Traits(1, 1, 1.0), Traits(4, 4, 0.0)


def live(agents, seed=0, **fields):
  rules = dataclasses.replace(RULES, **fields)
  return society.live(rules, TASK, agents, np.random.default_rng(seed))


def test_mild_agents_last_and_greedy_ones_do_not(monkeypatch):
  monkeypatch.setattr(society, 'ERR', 0.0)
  mild = live([MILD] * 3)
  assert mild.lasted == 40
  assert mild.owned == (40, 40, 40)
  assert mild.kept == 39 * 3  # nothing was voted in the first round
  greedy = live([GREEDY] * 3)
  assert greedy.took[0] == (4, 4, 4)
  assert greedy.lasted == len(greedy.took) - 1 < 5


def test_agents_fine_whom_they_saw_break_the_norm():
  state = norms.harvest(TASK, norms.begin(RULES, TASK), (4, 1, 3))
  state = state._replace(norm=2)
  agents = [Traits(4, 4, 0.5), Traits(1, 1, 0.5), Traits(3, 1, 0.5)]
  always, never = np.zeros(3), np.ones(3)

  def fined(u, **fields):
    rules = dataclasses.replace(RULES, **fields)
    return society.fined_by(rules, TASK, state, agents, u)

  # Ann sees bob, bob sees cat, cat sees ann.
  assert fined(always) == [None, 2, 0]
  assert fined(never) == [None, None, None]
  assert fined(always, punish=False) == [None, None, None]
  tolerant = [x._replace(norm=3) for x in agents]
  rules = dataclasses.replace(RULES, vote=False)
  own = society.fined_by(rules, TASK, state, tolerant, always)
  assert own == [None, None, 0]  # by what they believe in themselves


def test_who_is_fined_takes_less():
  state = norms.begin(RULES, TASK)._replace(
    norm=1, took=(4, 4, 4), fined=(1, 0, 0)
  )
  unvoted = dataclasses.replace(RULES, vote=False)
  assert society.learn(RULES, state, GREEDY, 0).take == 1
  assert society.learn(unvoted, state, GREEDY, 0).take == 3
  assert society.learn(RULES, state, GREEDY, 1) == GREEDY
  assert society.learn(RULES, state, Traits(0, 0, 0.0), 0).take == 0


def test_agents_imitate_who_owns_more():
  """With chance 1 / (1 + exp(-β Δ)), all traits together."""
  state = norms.begin(RULES, TASK)._replace(own=(0, 4, 4))
  agents = [MILD, GREEDY, GREEDY]
  chance = 1 / (1 + np.exp(-4 * society.BETA))
  for u, copies in ((chance - 1e-6, True), (chance + 1e-6, False)):
    luck = np.array([[0.0] * 3, [u] * 3])
    got = society.imitate(RULES, TASK, state, agents, luck)
    assert (got[0] == GREEDY) == copies
  alone = dataclasses.replace(RULES, social=False)
  assert society.imitate(alone, TASK, state, agents, np.zeros((2, 3))) == agents
  looks = np.array([[society.LOOK] * 3, [0.0] * 3])
  assert society.imitate(RULES, TASK, state, agents, looks) == agents


def test_errors_stay_in_bounds():
  rng = np.random.default_rng(0)
  agents = [Traits(4, 0, 0.5)] * 4
  for _ in range(2000):
    agents = [society.err(RULES, x, rng.random(5)) for x in agents]
    for x in agents:
      assert 0 <= x.take <= 4
      assert 0 <= x.norm <= 4
      assert 0 <= x.fine <= 1
  assert len({*agents}) > 1


def means(arm, name, where=('rich', 'altruistic'), seeds=20):
  return np.mean([study.run(*where, arm, i)[name] for i in range(seeds)])


def test_fines_let_the_pool_last():
  """With no fines in the rules both sides are equal."""
  assert means(study.BOTH, 'lasted') > means(study.SOCIAL, 'lasted') + 10
  selfish = ('rich', 'selfish')
  fines = means(study.PUNISH, 'lasted', selfish)
  assert fines > means(study.NONE, 'lasted', selfish) + 3


def test_imitation_spreads_harvesting_where_nobody_is_fined():
  alone, social = (means(x, 'rise') for x in (study.NONE, study.SOCIAL))
  assert social > alone + 0.4
  assert means(study.NONE, 'lasted') > means(study.SOCIAL, 'lasted') + 5


def test_agents_own_more_with_a_vote():
  with_vote, without = (means(x, 'owned') for x in (study.BOTH, study.UNVOTED))
  assert with_vote > without + 0.05


def test_scarcity_and_selfish_starts_shorten_it():
  for arm in (study.NONE, study.BOTH):
    rich, scarce, selfish = (
      means(arm, 'lasted', where)
      for where in (
        ('rich', 'altruistic'),
        ('scarce', 'altruistic'),
        ('rich', 'selfish'),
      )
    )
    assert rich > scarce + 10
    assert rich > selfish + 10


@pytest.mark.parametrize('arm', study.ARMS)
def test_arms_of_a_seed_begin_alike(arm):
  rules = study.rules('rich', arm)
  agents = [
    society.start(x, 0.5, np.random.default_rng(3))
    for x in (rules, study.rules('rich', study.BOTH))
  ]
  assert agents[0] == agents[1]
  one, two = (study.run('rich', 'selfish', arm, 5) for _ in 'ab')
  assert one == two

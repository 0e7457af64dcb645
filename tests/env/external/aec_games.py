"""Games of several agents with PettingZoo's interface, which they do without.

In `Count` agents add 1, 2 or 3 by turns; who comes to the end wins 1, and the
others lose 1. `Sum` is for all: every agent says a word, and is paid for it.
"""

import random
import types


class Game:
  """The bookkeeping of AEC: rewards add up until an agent's next action."""

  def __init__(self, players):
    self.possible_agents = [f'player_{i}' for i in range(players)]

  def reset(self, seed=None):
    self.random = random.Random(seed)
    self.agents = list(self.possible_agents)
    self.agent_selection = self.agents[0]
    self.owed = dict.fromkeys(self.agents, 0.0)
    self.over = False
    self.log = []

  def last(self):
    agent = self.agent_selection
    cut = self.over and self.cut
    over = self.over and not cut
    return self.seen(agent), self.owed[agent], over, cut, {}

  def step(self, action):
    agent = self.agent_selection
    self.owed[agent] = 0.0
    i = self.agents.index(agent)
    if self.over:
      assert action is None
      self.agents.remove(agent)
      if self.agents:
        self.agent_selection = self.agents[i % len(self.agents)]
      return
    self.log.append((agent, action))
    for other, reward in self.played(agent, action).items():
      self.owed[other] += reward
    self.agent_selection = self.agents[(i + 1) % len(self.agents)]


class Count(Game):
  cut = False

  def __init__(self, players=2, end=8, mask=True):
    super().__init__(players)
    self.end, self.mask = end, mask

  def reset(self, seed=None):
    super().reset(seed)
    self.total = self.random.randrange(3)

  def action_space(self, agent):
    rng = random.Random()
    return types.SimpleNamespace(
      n=4, seed=rng.seed, sample=lambda: 1 + rng.randrange(3)
    )

  def seen(self, agent):
    if not self.mask:
      return f'{self.total} of {self.end}'
    allowed = [0, *(int(self.total + k <= self.end) for k in (1, 2, 3))]
    return {'observation': self.total, 'action_mask': allowed}

  def played(self, agent, action):
    self.total += action
    self.over = self.total >= self.end
    if not self.over:
      return {}
    return {x: 1.0 if x == agent else -1.0 for x in self.agents}


class Sum(Game):
  """Two rounds; agent i is paid i + 1 for 'yes', and the rest is cut off."""

  cut = True

  def action_space(self, agent):
    return object()

  def seen(self, agent):
    return f'say {len(self.log)}'

  def played(self, agent, action):
    self.over = len(self.log) == 2 * len(self.agents)
    return {agent: (self.agents.index(agent) + 1.0) * (action == 'yes')}


def count(players=2, end=8, mask=True):
  return Count(players, end, mask)


def word_sum(players=2):
  return Sum(players)


def show(observation, agent):
  return f'{agent} sees {observation["observation"]}'


def read(message, space):
  if message not in ('one', 'two', 'three'):
    raise ValueError('say one, two or three')
  return ('', 'one', 'two', 'three').index(message)

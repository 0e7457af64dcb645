"""A whole update, from a config to numbers, against loops that share no code.

The method has something in every slot that an update reads, and a value of
its own for every number: two minibatches in two epochs, three reward pieces,
curation, a signal of each order, a memory, four streams, five loss terms. What
`reference` makes of {path: value} is what the config's learner has to make of
the same values; and with any one of them at its default, it is not.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ml_collections import ConfigDict

from agentrl import optimizer
from agentrl.configs import base
from agentrl.learner import update as update_lib
from agentrl.run import algorithm as algorithm_lib
from agentrl.run import pretrained
from agentrl.run.play import collect
from agentrl.types import TrainState
from tests.integration.joints import reference, toy
from tests.integration.joints.reference import Adam, State, Token, Trajectory

CELLS, CHOICES = 5, 3
# Rates of schedules and Adam's b ** count are float32 in any case.
NEAR = {'rtol': 1e-6, 'atol': 2e-7}
START = 7  # the step at which the stage begins

# path: (value, default). Those without a default are parts of the method.
NUMBERS: dict[str, tuple[Any, Any]] = {
  'hp.reward.turn_cost.cost': (0.35, 0.1),
  'hp.reward.invalid.penalty': (0.6, 0.1),
  'hp.curate.most_varied.share': (0.67, 0.25),
  'hp.signal.entropy_history.turns': (2, 3),
  'hp.signal.entropy_history.least': (4, 32),
  'hp.signal.implicit_prm.beta': (0.5, 0.05),
  'hp.signal.implicit_prm.order': ('update_then_score', 'score_then_update'),
  'hp.signal.implicit_prm.reference': ('ref_logp', 'old_logp'),
  'hp.signal.implicit_prm.steps': (2, 1),
  'hp.signal.implicit_prm.trajectory': ('mean', 'sum'),
  'hp.signal.value.clip': (0.02, 0.2),
  'hp.signal.value.steps': (3, 4),
  'hp.episode.scale.eps': (0.5, 1e-6),
  'hp.episode.scale.ddof': (0, 1),
  'hp.prm.add_signal.coef': (2.0, 1.0),
  'hp.prm.return_to_go.gamma': (0.6, 1.0),
  'hp.critic.gae_tokens.gamma': (0.9, 1.0),
  'hp.critic.gae_tokens.lam': (0.7, 0.95),
  'hp.again.add_signal.coef': (0.5, 1.0),
  'hp.post.whiten_tokens.ddof': (0, 1),
  'hp.post.whiten_tokens.unit': ('trajectory', 'token'),
  'hp.ppo.ppo.clip_low': (0.03, 0.2),
  'hp.ppo.ppo.clip_high': (0.05, 0.2),
  'hp.ppo.fixed.length': (5, 1024),
  'hp.entropy_hinge.entropy_hinge.low': (0.98, 0.5),
  'hp.entropy_hinge.entropy_hinge.high': (1.02, 1.5),
  'hp.memory.replay.history': (2, 10240),
  'hp.minibatch.minibatches.epochs': (2, 1),
  'hp.minibatch.minibatches.n': (2, 1),
  'coef.episode': (0.7, 1.0),
  'coef.prm': (1.3, 1.0),
  'coef.critic': (0.4, 1.0),
  'coef.again': (0.6, 1.0),
  'coef.ppo': (0.8, 1.0),
  'coef.entropy': (0.05, 1.0),
  'coef.entropy_hinge': (0.5, 1.0),
  'coef.nll': (0.2, 1.0),
  'schedule.coef.kl_k3': (('linear', 0.5, 0.1, 4), None),
  'select.entropy': ({'span': 'thought'}, {}),
  'select.nll': ({'source': 1}, {}),
  'loss_aggregation.ppo': ('fixed', 'token_mean'),
  'loss_aggregation.kl_k3': ('trajectory_mean', 'token_mean'),
  'loss_aggregation.nll': ('trajectory_turn_mean', 'token_mean'),
  'role.policy.lr': (0.2, 6e-4),
  'role.policy.final_lr_fraction': (0.5, 0.0),
  'role.policy.warmup': (2, 5),
  'role.policy.max_grad_norm': (0.1, 1.0),
  'role.policy.weight_decay': (0.02, 0.0),
  'role.policy.b1': (0.8, 0.9),
  'role.policy.b2': (0.95, 0.99),
  'role.policy.eps': (1e-2, 1e-5),
  'role.prm.lr': (0.3, 1e-4),
  'role.value.lr': (0.1, 1e-4),
  'reward': (('env', 'turn_cost', 'invalid'), ('env',)),
  'curate': (('most_varied',), ()),
  'post': (('whiten_tokens',), ()),
  'steps': (9, 300),
}
FIXED = {
  'start': START,
  'coef.kl_k3': 1.0,
  'hp.memory.replay.n': 3,
  'hp.memory.replay.capacity': 3,
  'hp.memory.replay.age': 4,
  'hp.minibatch.minibatches.unit': 'group',
}
OTHER = dict(
  final_lr_fraction=0.0,
  warmup=5,
  max_grad_norm=1.0,
  weight_decay=0.0,
  b1=0.9,
  b2=0.99,
  eps=1e-5,
)
SETTINGS = {path: value for path, (value, _) in NUMBERS.items()} | FIXED
SETTINGS |= {
  f'role.{role}.{name}': value
  for role in ('prm', 'value')
  for name, value in OTHER.items()
}


def config() -> ConfigDict:
  """The method, every number set by its path."""
  c = base.get_config()
  c.micro_batch = 1
  c.signal = ('reference', 'entropy_history', 'implicit_prm', 'value')
  c.advantage = ('episode', 'prm', 'critic', 'again')
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.stream.prm = ('add_signal', 'return_to_go')
  c.stream.critic = ('turn_reward', 'gae_tokens')
  c.stream.again = ('add_signal',)
  base.hp(c, 'prm', 'add_signal', name='implicit_prm.step')
  base.hp(c, 'again', 'add_signal', name='replay.advantage')
  c.loss = reference.LOSSES
  c.memory = ('replay',)
  base.role(c, 'reference', kind='frozen')
  base.role(c, 'prm')
  base.role(c, 'value', heads=1)
  for path, value in SETTINGS.items():
    kind, *rest = path.split('.')
    if kind == 'hp':
      base.hp(c, rest[0], rest[1], **{rest[2]: value})
    elif path != 'start':
      _set(c, path, value)
  return base.finish(c)


def _set(c: ConfigDict, path: str, value) -> None:
  *way, last = path.split('.')
  for part in way:
    if part not in c:
      c[part] = ConfigDict()
    c = c[part]
  c[last] = ConfigDict(value) if isinstance(value, dict) else value


def make_story(seed: int, table: np.ndarray) -> list[Trajectory]:
  """Three groups of two; the last varies least and is solved both times."""
  r = np.random.default_rng(seed)
  out = []
  for i, turns in enumerate((3, 1, 2, 3, 2, 2)):
    messages = [
      [
        Token(
          int(r.integers(CELLS)),
          int(r.integers(CHOICES)),
          int(r.integers(3)),
          0.0,
        )
        for _ in range(r.integers(1, 3))
      ]
      for _ in range(turns)
    ]
    messages = [
      [
        t._replace(logp=reference.log_prob(table, t) - 0.1 * r.random())
        for t in turn
      ]
      for turn in messages
    ]
    paid = [float(x) for x in r.normal(size=turns)]
    if i >= 4:
      paid = [0.3, 0.1 * i]
    out.append(
      Trajectory(
        group=i // 2,
        outcome=float(i in (0, 3, 4, 5)),
        earned=paid,
        invalid=[int(x) for x in r.integers(0, 2, turns)] if i < 4 else [0, 1],
        messages=messages,
      )
    )
  return out


def tables() -> dict[str, np.ndarray]:
  r = np.random.default_rng(1)
  policy = r.normal(size=(CELLS, CHOICES))
  return {
    'policy': policy,
    'prm': policy + 0.3 * r.normal(size=policy.shape),
    'reference': policy + 0.3 * r.normal(size=policy.shape),
    'value': 0.3 * r.normal(size=CELLS),
  }


STORIES = [make_story(seed, tables()['policy']) for seed in (3, 1)]


class Run:
  """A config's learner, and what it was after each of the updates."""

  def __init__(self, c: ConfigDict, stories):
    with jax.enable_x64(True):
      made = algorithm_lib.make_algorithm(c, pretrained.own(c, 8))
      modules = dict.fromkeys(c.role, toy.speaker(CELLS, CHOICES))
      if 'value' in modules:
        modules['value'] = toy.critic(CELLS, CHOICES)
      learner = made.rebind(
        context=made.context._replace(modules=modules), start=START
      )
      batches = [reward_batch(c, x) for x in stories]
      state = initial_state(learner, batches[0])
      update = jax.jit(functools.partial(update_lib.update, learner))
      self.after = []
      for batch in batches:
        state, metrics, _ = update(state, batch)
        self.after.append(jax.device_get((state, metrics)))


def reward_batch(c, story):
  """Laid in rows; its rewards are those of the config's pieces."""
  batch = jax.tree.map(jnp.asarray, toy.lay(story, CHOICES, t=9))
  return collect.score(base.wiring(c), batch)


def initial_state(learner, batch):
  """The state that everything begins with; nothing is compiled for it."""
  modules, rules = learner.context.modules, learner.context.rules
  params = {
    role: {name: jnp.asarray(tables()[role]) for name in module.specs}
    for role, module in modules.items()
  }
  signals = {name: s.init() for name, s in learner.signals.items()}
  state = TrainState(
    step=jnp.int32(START),
    params=params,
    opt={
      role: optimizer.init(rule, params[role]) for role, rule in rules.items()
    },
    signal={name: x for name, x in signals.items() if x is not None},
    memory=(),
    key=jax.random.key(0),
  )
  return update_lib.init_memory(learner, state, batch, 1)


@pytest.fixture(scope='module')
def run() -> Run:
  return Run(config(), STORIES)


def before() -> State:
  """What both begin with."""
  params = tables()
  return State(
    step=START,
    params=params,
    opt={
      role: Adam(np.zeros_like(params[role]), np.zeros_like(params[role]))
      for role in ('policy', 'prm', 'value')
    },
    history=np.zeros((3, SETTINGS['hp.signal.entropy_history.turns'])),
    pool=[None] * SETTINGS['hp.memory.replay.capacity'],
  )


def table_of(state, role: str) -> np.ndarray:
  return next(iter(state.params[role].values()))


def near(got, want) -> bool:
  return bool(np.allclose(got, want, **NEAR))


def nearest_deal(settings, state: State, story, after):
  """The reference dealt as the learner has dealt; of others it is far."""

  def distance(way):
    return np.max(np.abs(table_of(after, 'policy') - way[1].params['policy']))

  ways = sorted(reference.update(settings, state, story), key=distance)
  others = [way[1].params['policy'] for way in ways[1:]]
  assert not any(near(ways[0][1].params['policy'], x) for x in others)
  return ways[0]


@pytest.fixture(scope='module')
def expected(run):
  """[(deal, state, metrics)] of the reference, after each update."""
  state, out = before(), []
  for story, (after, _) in zip(STORIES, run.after, strict=True):
    out.append(nearest_deal(SETTINGS, state, story, after))
    state = out[-1][1]
  return out


@pytest.mark.parametrize('i', [0, 1])
def test_parameters_and_optimizers(run, expected, i):
  state, mine = run.after[i][0], expected[i][1]
  assert int(state.step) == mine.step == START + 1 + i
  for role, x in mine.params.items():
    np.testing.assert_allclose(table_of(state, role), x, **NEAR, err_msg=role)
  for role, opt in mine.opt.items():
    leaves = jax.tree.leaves(state.opt[role])
    assert [int(x) for x in leaves if not np.ndim(x)] == [opt.count]
    moments = [x for x in leaves if np.ndim(x)]
    for got, want in zip(moments, (opt.m, opt.v), strict=True):
      np.testing.assert_allclose(got, want, **NEAR)


@pytest.mark.parametrize('i', [0, 1])
def test_metrics(run, expected, i):
  metrics, mine = run.after[i][1], expected[i][2]
  for name, pair in mine.items():
    got = [float(x) for x in metrics[name]]
    np.testing.assert_allclose(got, pair, **NEAR, err_msg=name)


@pytest.mark.parametrize('i', [0, 1])
def test_what_signals_and_memories_hold(run, expected, i):
  state, mine = run.after[i][0], expected[i][1]
  history = state.signal['entropy_history']
  for x, name in zip(
    mine.history, ('total', 'iterations', 'turns'), strict=True
  ):
    np.testing.assert_allclose(history[name], x, **NEAR, err_msg=name)
  pool = state.memory['replay']
  assert int(pool.next) == mine.next
  born = [-1 if x is None else x[2] for x in mine.pool]
  assert pool.born.tolist() == born
  for slot, x in enumerate(mine.pool):
    if x is None:
      continue
    it, reward, _ = x
    got = jax.tree.map(lambda a, slot=slot: a[slot], pool.trajectories)
    assert got.turns.valid.sum() == len(it.messages)
    np.testing.assert_allclose(got.turns.reward[: len(reward)], reward)
    assert float(got.outcome) == it.outcome
    tokens = [
      t.cell * CHOICES + t.choice for message in it.messages for t in message
    ]
    assert got.rows.tokens[got.rows.sampled].tolist() == tokens
  np.testing.assert_allclose(np.sort(pool.means), np.sort(mine.means))


def test_the_story_makes_every_part_do_something(run, expected):
  """Else the numbers would agree about nothing."""
  first, second = (metrics for _, _, metrics in expected)
  assert first['prm/pairs'][0] == 2
  assert first['loss/nll'][0] == first['loss/entropy_hinge'][0] == 0
  assert second['loss/nll'][0] > 0
  assert second['loss/entropy_hinge'][0] > 0
  for metrics in (first, second):
    assert (
      metrics['ppo/clip_frac_low'][0] + metrics['ppo/clip_frac_high'][0] > 0
    )
    assert abs(metrics['ppo/ratio'][0] / metrics['ppo/ratio'][1] - 1) > 1e-3
    assert (
      metrics['policy/grad_norm'][0] > 4 * SETTINGS['role.policy.max_grad_norm']
    )
  assert sum(x is not None for x in expected[0][1].pool) >= 2


@pytest.mark.parametrize('path', NUMBERS)
def test_every_number_of_the_config_is_the_one_that_counts(run, expected, path):
  """With its default in the reference, no deal gives what the learner did."""
  settings = SETTINGS | {path: NUMBERS[path][1]}
  state = before()
  state.history = np.zeros((3, settings['hp.signal.entropy_history.turns']))
  dealt = path.startswith('hp.minibatch') or path.endswith('share')
  for i, story in enumerate(STORIES):
    way = None if dealt else expected[i][0]
    ways = [
      (mine, metrics)
      for _, mine, metrics in reference.update(settings, state, story, way)
      if agrees(run.after[i][0], mine)
    ]
    if not ways:
      return
    state = ways[0][0]
  pytest.fail(f'{path} changes nothing here')


def agrees(state, mine: State) -> bool:
  """Parameters of all roles, and what the memory knows."""
  means = np.sort(state.memory['replay'].means)
  return len(means) == len(mine.means) and all(
    near(table_of(state, role), x) for role, x in mine.params.items()
  )


def grpo() -> ConfigDict:
  """What most configs are: one epoch of two minibatches, as by default."""
  c = base.get_config()
  c.micro_batch, c.steps = 1, SETTINGS['steps']
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.role.policy.update(dict(lr=0.5, warmup=1))
  return base.finish(c)


def test_the_second_minibatch_is_held_against_the_first_policy():
  """Nobody asks for old log-probs but the loss, and it does from n = 2 on."""
  coefs = {x for x in SETTINGS if x.startswith('coef.')}
  alone = dict.fromkeys(coefs - {'coef.episode', 'coef.ppo'}, 0.0)
  default = {path: value for path, (_, value) in NUMBERS.items()}
  settings = SETTINGS | default | alone
  settings |= {
    'hp.minibatch.minibatches.n': 2,
    'hp.minibatch.minibatches.unit': 'trajectory',
    'steps': SETTINGS['steps'],
    'role.policy.lr': 0.5,
    'role.policy.warmup': 1,
  }
  after, metrics = Run(grpo(), STORIES[:1]).after[0]
  start = before()
  start.history = np.zeros((3, settings['hp.signal.entropy_history.turns']))
  _, mine, want = nearest_deal(settings, start, STORIES[0], after)
  np.testing.assert_allclose(
    table_of(after, 'policy'), mine.params['policy'], **NEAR
  )
  for name in ('ratio', 'approx_kl', 'clip_frac_low', 'clip_frac_high'):
    name = f'ppo/{name}'
    np.testing.assert_allclose(metrics[name], want[name], **NEAR)
  assert metrics['ppo/approx_kl'][0] > 1e-3
  assert metrics['ppo/clip_frac_low'][0] + metrics['ppo/clip_frac_high'][0] > 0

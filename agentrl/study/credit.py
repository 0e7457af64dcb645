"""What methods credit the same turns with, where the truth is known.

A policy plays; each method's signals start fresh, learn from `warm` earlier
batches, and its advantage of one more batch is held against the truth. The
policy never changes, seeds differ in what it sampled, tasks are the same.
"""

import functools
import json
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging
from ml_collections import ConfigDict

from agentrl import domain, segment
from agentrl.advantage import chain
from agentrl.learner import algorithm, update
from agentrl.nn import lora
from agentrl.run import algorithm as algorithm_lib
from agentrl.run import build, collect, config_file, jit_env, stages, validate
from agentrl.run import workdir as workdir_lib
from agentrl.stats import credit_accuracy
from agentrl.task import fixed
from agentrl.types import Batch

# The column that is the truth: the exact advantage, or the solver's progress.
TRUTH = {'bifurcation': 'truth', 'sokoban': 'progress'}
# What the sampling of a batch depends on.
_SAMPLING = ('env', 'model', 'rollout', 'task', 'rollout_kind', 'collect',
             'reward', 'memory', 'seed')  # fmt: skip


class Size(NamedTuple):
  """How much is sampled."""

  seeds: domain.Count = 8
  tasks: domain.Count = 4  # of a batch
  group: domain.Count = 8
  warm: domain.Count0 = 60  # batches that signals learn from
  rate: domain.Rate = 3e-3  # of signals' networks; the policy stands still
  fit: domain.Count0 = 120  # supervised steps to random play


class Played(NamedTuple):
  """Batches of one policy, and what is known of the last one of each seed."""

  setup: build.Setup
  policy: Any
  batches: Batch  # [seeds, warm + 1, ...]
  truth: np.ndarray  # [S, B, K]
  valid: np.ndarray  # [S, B, K]
  group: np.ndarray  # [B]
  solved: np.ndarray  # [S, B]


def config(
  method: str, env: str, size: Size, run: ConfigDict | None = None
) -> ConfigDict:
  """The method's config at a size that takes seconds, all checks passed.

  Args:
    run: a run's config, whose environment, model and rollout are taken

  Raises:
    ValueError: the method cannot be measured there, and why.
  """
  c = config_file.load(f'{method}:tiny,env={env}')
  if c.memory:
    raise ValueError('it replays trajectories of other batches than these')
  if run is None:
    small = dict(layers=1, width=16, heads=2, kv_heads=2, head_dim=8, mlp=32)
    c.model.update(small)
  else:
    for part in ('env', 'model', 'rollout'):
      c[part] = ConfigDict(run[part].to_dict())
  c.steps = size.warm + 1
  for name, role in c.role.items():
    if role.kind == 'train' and name != 'policy':
      role.update(dict(lr=size.rate, final=1.0))
  batch = size.tasks * size.group
  c.rollout.update(dict(batch=batch, group=size.group, slots=batch))
  rows = batch * (c.rollout.turns if c.rollout.history == 'turn' else 1)
  c.micro, c.sft.batch = rows, batch
  validate.config(c)
  if not c.advantage and not c.finish:
    raise ValueError('it has no advantage: its loss reads the batch itself')
  return c


def uniform(s: build.Setup, steps: int):
  """A policy that says every action about equally often.

  A network fitted to random play, so that what it says has log-probs.
  """
  state = update.init(s.learner, jax.random.key(s.config.seed))
  said = jit_env.spoken(s.config, s.tokenizer, s.world.env.actions)
  width = max(map(len, said))
  table = jnp.array([x + [0] * (width - len(x)) for x in said])
  length = jnp.array([len(x) for x in said])
  n, turns = min(16, s.config.rollout.batch), s.plan.turns
  rows = n * (turns if s.plan.history == 'turn' else 1)
  warm = s.warm._replace(context=s.warm.context._replace(micro=rows))
  tasks = np.arange(n) % len(s.train)
  attempts = fixed.attempts(tasks, 1, turns, 1.0)

  def step(state, key):
    pick, play = jax.random.split(key)
    action = jax.random.randint(pick, (n, turns), 0, len(said))
    batch = collect.demonstrate(
      s, attempts, table[action], length[action], play
    )
    return update.update(warm, state, batch)[0], None

  @jax.jit
  def fit(state):
    return jax.lax.scan(step, state, jax.random.split(state.key, steps))[0]

  return lora.merge(algorithm.whole(s.learner.context, fit(state).params))


def play(c: ConfigDict, size: Size, workdir: str = '') -> Played:
  """Batches of every seed; the policy of a run, or one that knows nothing."""
  s = build.setup(c)
  policy = (
    workdir_lib.policy(s.shape, workdir) if workdir else uniform(s, size.fit)
  )
  state = update.init(s.learner, jax.random.key(c.seed))
  state = workdir_lib.adopt(s.learner, policy, state)
  stage = stages.rl_stage(s, 0, size.warm + 1)
  batches = [
    [
      stage.collect(state.replace(key=jax.random.key(seed)), step)
      for step in range(size.warm + 1)
    ]
    for seed in range(size.seeds)
  ]
  stack = functools.partial(jax.tree.map, lambda *x: jnp.stack(x))
  last = jax.device_get(stack(*[b[-1] for b in batches]))
  return Played(
    setup=s,
    policy=policy,
    batches=stack(*[stack(*b) for b in batches]),
    truth=last.turns.terms[TRUTH[c.env.name]],
    valid=last.turns.valid,
    group=last.ids['group'][0],
    solved=last.outcome > 0.5,
  )


def credit(c: ConfigDict, played: Played) -> np.ndarray:
  """The method's advantage of every turn, mean over its tokens: [S, B, K]."""
  learner = algorithm_lib.make_learner(c, played.setup.shape)
  batches = played.batches
  if not c.signal:  # nothing learns
    batches = jax.tree.map(lambda x: x[:, -1:], batches)

  def step(state, batch):
    state, credit, _ = update.credit(learner, state, batch)
    return state, per_turn(credit, batch)

  @jax.jit
  def run(policy, batches):
    state = update.init(learner, jax.random.key(c.seed))
    state = workdir_lib.adopt(learner, policy, state)
    state = update.start_roles(learner, state)

    def one(seed_batches):
      seed, batches = seed_batches
      start = state.replace(key=jax.random.key(seed))
      return jax.lax.scan(step, start, batches)[1][-1]

    # One after the other: networks that differ by seed are slow side by side.
    return jax.lax.map(one, (jnp.arange(len(played.solved)), batches))

  return np.asarray(run(played.policy, batches))


def per_turn(credit, batch: Batch):
  """Mean over the sampled tokens of each turn: [B, K]."""
  rows, (b, k) = batch.rows, batch.turns.valid.shape
  token = chain.token_advantage(credit, rows)
  ids = rows.traj, rows.turn, b, k
  total = segment.to_turns(token, *ids)
  return total / jnp.maximum(
    segment.to_turns(rows.sampled.astype(token.dtype), *ids), 1
  )


def measure(
  names: list[str], env: str, size: Size, workdir: str = ''
) -> tuple[dict, dict, Played | None]:
  """Every method's agreement with the truth.

  Returns: {'size', 'env', 'methods': {name: measures}, 'skipped': {name:
    why}}, {name: credit [S, B, K]}, and what was played at the first one.
  """
  run = workdir_lib.read_config(workdir) if workdir else None
  env = run.env.name if run else env
  if env not in TRUTH:
    raise ValueError(
      f'the truth of {env!r} is not known; choose from {tuple(TRUTH)}'
    )
  games: dict[str, Played] = {}
  found, credits, skipped = {}, {}, {}
  for name in names:
    try:
      c = config(name, env, size, run)
      game = _game(games, c, size, workdir)
      start = time.monotonic()
      credits[name] = credit(c, game)
      seconds = time.monotonic() - start
    except ValueError as error:
      skipped[name] = str(error)
      continue
    logging.info('%s: %.1f s', name, seconds)
    if not np.any(credits[name]):
      skipped[name] = 'it credits nothing here'
      del credits[name]
      continue
    told = compare(credits[name], game)
    found[name] = told._asdict() | {'seconds': round(seconds, 1)}
  report = {
    'env': env,
    'policy': 'of a run' if workdir else 'uniform',
    'size': size._asdict(),
    'methods': found,
    'skipped': skipped,
  }
  return report, credits, next(iter(games.values()), None)


def _game(games: dict[str, Played], c, size: Size, workdir: str) -> Played:
  """What was played under the same sampling settings, played once."""
  whole = c.to_dict()
  key = json.dumps([whole[name] for name in _SAMPLING], default=str)
  if key not in games:
    games[key] = play(c, size, workdir)
  return games[key]


def compare(credit: np.ndarray, game: Played) -> credit_accuracy.Agreement:
  """All seeds together; a group of another seed is another group."""
  seeds, b, k = credit.shape
  group = game.group + (np.max(game.group) + 1) * np.arange(seeds)[:, None]
  flat = (x.reshape(seeds * b, k)
          for x in (credit, game.truth, game.valid))  # fmt: skip
  return credit_accuracy.agree(*flat, group.reshape(-1))

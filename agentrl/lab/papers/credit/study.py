"""Credit study: what methods credit the same turns with, against the truth.

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

from agentrl.advantage import chain
from agentrl.configs.config import Config, to_dict
from agentrl.lab.papers.credit.size import TRUTH, CreditSize
from agentrl.learner import algorithm, update
from agentrl.nn import lora
from agentrl.ops import counting
from agentrl.run import algorithm as algorithm_lib
from agentrl.run import build, config_file, weights
from agentrl.run import workdir as workdir_lib
from agentrl.run.check import validate
from agentrl.run.play import collect, jit_env, sampler
from agentrl.run.stage import stages
from agentrl.stats import credit_accuracy
from agentrl.task.base import make_attempts
from agentrl.types import Batch

# What the sampling of a batch depends on.
_SAMPLING = (
  'env',
  'model',
  'rollout',
  'task',
  'prefix',
  'collect',
  'reward',
  'memory',
  'seed',
)


class RolloutData(NamedTuple):
  """Batches of one policy, and what is known of the last one of each seed."""

  setup: build.Experiment
  policy: Any
  batches: Batch  # [seeds, warm + 1, ...]
  truth: np.ndarray  # [S, B, K]
  valid: np.ndarray  # [S, B, K]
  group: np.ndarray  # [B]
  solved: np.ndarray  # [S, B]


def config(
  method: str,
  env: str,
  size: CreditSize,
  run: Any = None,
  arg: str = '',
) -> Config:
  """Returns the method's config at a size of seconds, all checks passed.

  Args:
    run: the ConfigDict of a run, whose environment, model and rollout are taken
    arg: more of the config's argument, each with a comma before it

  Raises:
    ValueError: the method cannot be measured there, and why.
  """
  c = config_file.load(f'{method}:tiny,env={env}{arg}')
  if c.memory:
    raise ValueError('its memory is of other batches than these')
  if run is None:
    small = dict(layers=1, width=16, heads=2, kv_heads=2, head_dim=8, mlp=32)
    c.model.update(small)
    c.env.update(dict(train=400, test=100))
  else:
    for part in ('env', 'model', 'rollout'):
      c[part] = run[part].copy_and_resolve_references()
  c.steps = size.warm + 1
  c.role.policy.lr = 2e-3
  c.sft.update(dict(steps=160, lr=5e-3))  # of the fit to uniform play
  for name, role in c.role.items():
    if role.kind == 'train' and name != 'policy':
      role.update(dict(lr=size.rate, final_lr_fraction=1.0))
  batch = size.tasks * size.group
  c.rollout.update(dict(batch=batch, group_size=size.group, slots=batch))
  rows = batch * (c.rollout.max_turns if c.rollout.history == 'turn' else 1)
  c.micro_batch, c.sft.batch = rows, batch
  checked = validate.config(c)
  if not c.advantage and not c.post:
    raise ValueError('it has no advantage: its loss reads the batch itself')
  return checked


def uniform(s: build.Experiment, steps: int):
  """Returns a policy that samples every action about equally often.

  A network fitted to random play, so that what it says has log-probs.
  """
  state = update.init(s.algorithm, jax.random.key(s.config.seed))
  messages = jit_env.spoken(s.config, s.tokenizer, s.world.env.actions)
  width = max(map(len, messages))
  table = jnp.array([x + [0] * (width - len(x)) for x in messages])
  length = jnp.array([len(x) for x in messages])
  n, turns = min(16, s.config.rollout.batch), s.plan.turns
  rows = n * (turns if s.plan.history == 'turn' else 1)
  warm = s.warm._replace(context=s.warm.context._replace(micro=rows))
  tasks = np.arange(n) % len(s.train)
  attempts = make_attempts(tasks, 1, turns, 1.0)

  def step(state, key):
    pick, play = jax.random.split(key)
    action = jax.random.randint(pick, (n, turns), 0, len(messages))
    batch = collect.demonstrate(
      s, attempts, table[action], length[action], play
    )
    return update.update(warm, state, batch)[0], None

  @jax.jit
  def fit(state):
    return jax.lax.scan(step, state, jax.random.split(state.key, steps))[0]

  return lora.merge(
    algorithm.full_params(s.algorithm.context, fit(state).params)
  )


def play(c: Config, size: CreditSize, workdir: str = '') -> RolloutData:
  """Plays batches of every seed, by a run's policy or one knowing nothing."""
  s = build.experiment(c)
  policy = weights.policy(s.shape, workdir) if workdir else uniform(s, size.fit)
  state = update.init(s.algorithm, jax.random.key(c.seed))
  state = weights.load_policy_params(s.algorithm, policy, state)
  starts = [state.replace(key=jax.random.key(i)) for i in range(size.seeds)]
  steps = range(size.warm + 1)
  with sampler.open_sampler(s) as playing:
    stage = stages.rl_stage(s, 0, size.warm + 1, playing)
    batches = [
      [stage.collect(x, stage.task(x, i), i)[0] for i in steps] for x in starts
    ]
  stack = functools.partial(jax.tree.map, lambda *x: jnp.stack(x))
  last = jax.device_get(stack(*[b[-1] for b in batches]))
  return RolloutData(
    setup=s,
    policy=policy,
    batches=stack(*[stack(*b) for b in batches]),
    truth=last.turns.terms[TRUTH[c.env.name]],
    valid=counting.counted(last, 'turn'),
    group=last.ids['group'][0],
    solved=last.outcome > 0.5,
  )


def credit(c: Config, played: RolloutData) -> np.ndarray:
  """Averages the method's advantage of each turn over tokens: [S, B, K]."""
  learner = algorithm_lib.make_algorithm(c, played.setup.shape)
  learner = learner.without_policy()
  batches = played.batches
  if not c.signal:  # nothing learns
    batches = jax.tree.map(lambda x: x[:, -1:], batches)

  def step(state, batch):
    state, _, aux = update.update(learner, state, batch)
    return state, chain.per_turn(aux.credit, batch)

  @jax.jit
  def run(policy, batches):
    state = update.init(learner, jax.random.key(c.seed))
    state = weights.load_policy_params(learner, policy, state)
    state = update.init_roles_from_policy(learner, state)

    def one(seed_batches):
      seed, batches = seed_batches
      start = state.replace(key=jax.random.key(seed))
      return jax.lax.scan(step, start, batches)[1][-1]

    # One after the other: networks that differ by seed are slow side by side.
    return jax.lax.map(one, (jnp.arange(len(played.solved)), batches))

  return np.asarray(run(played.policy, batches))


def measure(
  names: list[str], env: str, size: CreditSize, workdir: str = ''
) -> tuple[dict, dict, RolloutData | None]:
  """Returns every method's agreement with the truth.

  Returns: {'size', 'env', 'methods': {name: measures}, 'skipped': {name:
    why}}, {name: credit [S, B, K]} of what was played for the first one, and
    this; methods that sample otherwise are measured on batches of their own.
  """
  run = workdir_lib.read_config(workdir) if workdir else None
  env = run.env.name if run else env
  if env not in TRUTH:
    raise ValueError(
      f'the truth of {env!r} is not known; choose from {tuple(TRUTH)}'
    )
  games: dict[str, RolloutData] = {}
  methods, credits, skipped = {}, {}, {}
  for name in names:
    try:
      c = config(name, env, size, run)
      key = json.dumps([to_dict(c)[x] for x in _SAMPLING], default=str)
      if key not in games:  # the same sampling settings, sampled once
        games[key] = play(c, size, workdir)
      game = games[key]
      start = time.monotonic()
      values = credit(c, game)
      seconds = time.monotonic() - start
    except ValueError as error:
      skipped[name] = str(error)
      continue
    logging.info('%s: %.1f s', name, seconds)
    if not np.any(values):
      skipped[name] = 'it credits nothing here'
      continue
    if game is next(iter(games.values())):
      credits[name] = values
    agreement = compare(values, game)
    methods[name] = agreement._asdict() | {'seconds': round(seconds, 1)}
  report = {
    'env': env,
    'policy': 'of a run' if workdir else 'uniform',
    'size': size._asdict(),
    'methods': methods,
    'skipped': skipped,
  }
  return report, credits, next(iter(games.values()), None)


def compare(credit: np.ndarray, game: RolloutData) -> credit_accuracy.Agreement:
  """Returns all seeds together; a group of another seed is another group."""
  seeds, b, k = credit.shape
  group = game.group + (np.max(game.group) + 1) * np.arange(seeds)[:, None]
  flat = (x.reshape(seeds * b, k) for x in (credit, game.truth, game.valid))
  return credit_accuracy.agree(*flat, group.reshape(-1))

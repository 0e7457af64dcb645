"""Planted-pairs study: which scorers rank trajectories, by their length.

Protocol; seeds from 100 on chose sizes, SEEDS were measured. A pair is the
shortest solution of a Sokoban level and a twin with one planted fault (twins);
both are replayed in the world, and the twin must have earned less. Levels come
in BUCKETS by the length of their solution, TRAIN of each to learn from and TEST
others to be ranked, of which each has one twin of every kind.

  length          the shorter one is chosen
  likelihood      the summed log-prob of a policy fitted to the solver
  judge of turns  the share of turns that were progress, by a judge who knows
                  and who says the opposite with probability FLIP
  reward model    Bradley-Terry, a head on the policy, one score at the end
  implicit PRM    OPRL's: the summed log-ratio of a second policy to the first

The last two learn from the same pairs, in equally many steps: `short` from
those of the shortest bucket, `all` from every bucket in turn. Accuracy is the
share of twins that score lower, ties one half, over kinds of equal length alone
except where kinds are told apart. Its slope is that of the least squares line
over the mean lengths of buckets, per TURNS turns. A claim holds if the 95%
Student interval over seeds of its difference lies above 0.
"""

import functools
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.configs import base
from agentrl.configs.config import Config
from agentrl.judge.planted import PlantedError, distort
from agentrl.lab.papers.planted_pairs import pairs, twins
from agentrl.lab.papers.planted_pairs.pairs import Bucket
from agentrl.lab.papers.planted_pairs.twins import EQUAL, KINDS
from agentrl.lab.study import bounds
from agentrl.lab.study.bounds import Bound
from agentrl.learner import algorithm, update
from agentrl.run import build
from agentrl.run.check import validate
from agentrl.run.experiment import Experiment
from agentrl.signal import implicit_prm
from agentrl.types import Batch, Pairs, TrainState

SEEDS = (1, 2, 3, 4, 5)
BUCKETS = ((4, 6), (7, 9), (10, 12), (13, 15))  # turns of a solution
TRAIN, TEST = 256, 48  # levels of a bucket
WARM, STEPS, PAIRS = 200, 160, 16  # steps, and pairs of a step
FLIP, TURNS = 0.2, 10

LENGTH, LIKELIHOOD, JUDGE = 'length', 'likelihood', 'judge of turns'
MODEL, PRM = 'reward model', 'implicit PRM'
SIGNALS = {MODEL: 'reward_model', PRM: 'implicit_prm'}
MODEL_SHORT, MODEL_ALL = f'{MODEL}, short', f'{MODEL}, all'
PRM_SHORT, PRM_ALL = f'{PRM}, short', f'{PRM}, all'
LEARNED = (MODEL_SHORT, MODEL_ALL, PRM_SHORT, PRM_ALL)
SCORERS = (LENGTH, LIKELIHOOD, JUDGE, *LEARNED)
SHARP, SHARPLY = 'a sharp fall', 0.1  # of accuracy, to the longest bucket

# The accuracy of `length` is 0.5 at every length, with a slope of 0.
CLAIMS: Mapping[str, Bound] = {
  **{
    f'The accuracy of {x} falls with length': Bound('slope', LENGTH, x)
    for x in SCORERS[1:]
  },
  **{
    f'That of {x} falls by more than {SHARPLY}': Bound('drop', x, SHARP)
    for x in LEARNED
  },
  'Pairs of all lengths take some of the fall from the reward model': Bound(
    'slope', MODEL_ALL, MODEL_SHORT
  ),
  'Taught by short pairs, the implicit PRM ranks the longest better than the'
  ' reward model': Bound('longest', PRM_SHORT, MODEL_SHORT),
  'Taught by all, it does': Bound('longest', PRM_ALL, MODEL_ALL),
}


def config(seed: int, folder: str = 'data') -> Config:
  """Sets networks and sizes; plays are replayed, and no policy learns."""
  c = base.get_config('tiny,env=sokoban', method='planted_pairs')
  base.role(c, 'reward', lr=2e-3, heads=1)
  base.role(c, 'prm', lr=1e-3)
  c.curate, c.signal = ('opposite_ranks',), ('reward_model', 'implicit_prm')
  base.hp(c, 'signal', 'reward_model', trajectory='last')
  base.hp(c, 'signal', 'implicit_prm', pairing='by_time')
  c.advantage, c.loss = ('episode',), ('reinforce',)
  c.stream.episode = ('episode_return',)
  c.minibatch, c.hp.minibatch = 'none', {}
  c.model.update(dict(width=32, heads=2, kv_heads=2, mlp=96))
  c.model.update(dict(positions=0, theta=100.0))
  size = 2 * PAIRS
  c.rollout.update(dict(history='full', batch=size, group_size=2, slots=size))
  c.rollout.max_turns = BUCKETS[-1][1] + twins.DETOUR
  c.micro_batch = c.sft.batch = size
  c.sft.lr = 3e-3
  c.env.update(dict(coordinates=False, train=8, test=4))
  c.seed, c.data = seed, folder
  return validate.config(base.finish(c))


def learn(
  of: Sequence[Bucket],
  state: TrainState,
  step: Callable[[TrainState, Batch], TrainState],
  steps: int,
) -> TrainState:
  """Takes steps on pairs of one bucket after the other, of one length each."""
  step = jax.jit(step)
  rng = np.random.default_rng(of[0].setup.config.seed)
  for i in range(steps):
    b, given = of[i % len(of)], []
    for task in rng.choice(len(b.solved), PAIRS, replace=False):
      twin = b.twins[task][int(rng.integers(len(KINDS)))]
      given += [(task, b.solved[task]), (task, twin.actions)]
    state = step(state, b.replay(given))
  return state


def warm(of: Sequence[Bucket], state: TrainState) -> TrainState:
  """Fits the policy to the solver, from which all networks then start."""
  s = of[0].setup

  def step(state, batch):
    solver = jnp.arange(2 * PAIRS)[:, None] % 2 == 0  # rows of the chosen
    rows = batch.rows.replace(weight=batch.rows.weight * solver)
    return update.update(s.warm, state, batch.replace(rows=rows))[0]

  state = learn(of, state, step, WARM)
  return update.init_roles_from_policy(s.algorithm, state)


def policy_logp(s: Experiment, state: TrainState, batch: Batch) -> jax.Array:
  """Computes log-probs of tokens under the policy: [N, T]."""
  params, context = state.params[algorithm.POLICY], s.algorithm.context
  return context.outputs(algorithm.POLICY, params, batch.rows, 'logp').logp


def taught(of: Sequence[Bucket], state: TrainState, name: str) -> TrainState:
  """Teaches a signal the pairs of these buckets."""
  s = of[0].setup
  signal = s.algorithm.signals[name]

  def step(state, batch):
    first = 2 * jnp.arange(PAIRS, dtype=jnp.int32)[:, None]
    whole = jnp.full_like(first, -1)
    chosen = Pairs(
      win=jnp.concatenate([first, whole], 1),
      lose=jnp.concatenate([first + 1, whole], 1),
      weight=jnp.ones(PAIRS),
    )
    signals = {'old_logp': policy_logp(s, state, batch)}
    return signal.update(state, batch.replace(pairs=chosen), signals, None)[0]

  return learn(of, state, step, STEPS)


def judged(batch: Batch, seed: int) -> np.ndarray:
  """Returns an erring judge's word: the share of turns it calls progress.

  It knows of each turn whether that came nearer to the end, and says the
  opposite with probability FLIP. Of equal beginnings it says the same.
  """
  x = jax.device_get(batch)
  valid, rows = x.turns.valid, x.rows
  says = np.zeros(valid.shape)
  for i, k in np.argwhere(valid):
    seen = rows.tokens[i][(rows.traj[i] == i) & (rows.turn[i] <= k)]
    digest = hashlib.sha256(seen.tobytes()).digest()
    key = np.array([int.from_bytes(digest[:7], 'big')])
    truth = np.array([float(x.turns.terms['progress'][i, k] > 0)])
    error = PlantedError(flip=FLIP, seed=seed)
    says[i, k] = distort(truth, key, truth, truth, error)[0]
  return np.sum(says, axis=1) / np.sum(valid, axis=1)


def scores(
  of: Sequence[Bucket], state: TrainState, taught: Mapping[str, TrainState]
) -> dict[str, list[np.ndarray]]:
  """Scores held-out trajectories: of each scorer and bucket [T, 1 + KINDS]."""
  out: dict[str, list[np.ndarray]] = {x: [] for x in SCORERS}
  s = of[0].setup

  @jax.jit
  def likelihood(state, batch):
    logp = policy_logp(s, state, batch)
    return logp, whole(implicit_prm.turn_log_ratio(logp, 0.0, batch), batch)

  @functools.partial(jax.jit, static_argnums=0)
  def reward(signal, state, batch, logp):
    score = s.algorithm.signals[signal].score
    fields, _ = score(state, batch, {'old_logp': logp})
    return whole(fields[f'{signal}.step'], batch)

  def whole(step, batch):
    return jnp.sum(jnp.where(batch.turns.valid, step, 0), axis=1)

  for b in of:
    batch = pairs.replayed(b)
    logp, summed = likelihood(state, batch)
    got = {
      LENGTH: -np.sum(batch.turns.valid, axis=1),
      LIKELIHOOD: summed,
      JUDGE: judged(batch, s.config.seed),
    }
    for name, learned in taught.items():
      signal = SIGNALS[name.partition(',')[0]]
      got[name] = reward(signal, learned, batch, logp)
    for name, x in got.items():
      out[name].append(pairs.by_task(b, x))
  return out


def measure(scored: Mapping[str, Sequence[np.ndarray]]) -> dict[str, Any]:
  """Measures every scorer: {scorer: {measure: number or list}}."""
  at = [np.mean(x) / TURNS for x in BUCKETS]
  out = {}
  for name, of in scored.items():
    right = np.array([pairs.accuracy(x) for x in of])  # [buckets, KINDS]
    each = right[:, : len(EQUAL)].mean(axis=1)
    out[name] = {
      'each': each.tolist(),
      'kinds': right.mean(axis=0).tolist(),
      'slope': float(np.polyfit(at, each, 1)[0]),
      'drop': float(each[0] - each[-1]),
      'longest': float(each[-1]),
    }
  return out


def run(seed: int, folder: str) -> dict[str, Any]:
  """Draws pairs, teaches what learns from them, and ranks those held out."""
  s = build.experiment(config(seed, folder))
  train = pairs.buckets(s, 'train', TRAIN, BUCKETS)
  test = pairs.buckets(s, 'test', TEST, BUCKETS)
  state = warm(train, update.init(s.algorithm, jax.random.key(seed)))
  learned = {}
  for name in LEARNED:
    kind, _, lengths = name.partition(', ')
    of = train if lengths == 'all' else train[:1]
    learned[name] = taught(of, state, SIGNALS[kind])
  return measure(scores(test, state, learned))


def report(workdir: str, seeds: int = len(SEEDS)) -> dict[str, Any]:
  """Measures the first seeds, and keeps them: as `bounds` reads it."""
  folder = os.path.join(workdir, 'data')
  of_seed = lambda seed: run(seed, folder)  # noqa: E731
  each = bounds.of_seeds(of_seed, SEEDS[:seeds], workdir).values()
  cells = {x: bounds.rounded([one[x] for one in each]) for x in SCORERS}
  cells[SHARP] = {'drop': [SHARPLY] * seeds}
  return {'seeds': seeds, 'cells': cells}


def table(x: Mapping[str, Any]) -> str:
  """Writes Markdown: claims, then accuracy by length and by kind of fault."""

  def rows(measure: str, *more: str) -> dict[str, list[str]]:
    cells = {name: x['cells'][name] for name in SCORERS}
    return {
      name: [
        *(bounds.mean(v) for v in np.transpose(of[measure])),
        *(bounds.mean(of[m]) for m in more),
      ]
      for name, of in cells.items()
    }

  spans = [f'{least} to {most}' for least, most in BUCKETS]
  slope = f'slope, per {TURNS} turns'
  lines = bounds.claims(x, CLAIMS)
  lines += bounds.table(
    ('accuracy by turns', *spans, slope), rows('each', 'slope')
  )
  lines += bounds.table(('by fault', *KINDS), rows('kinds'))
  return '\n'.join(lines)

"""Methods that learn a reward, each by what it is named for, in their world.

Attempts take any of the baskets that are offered; rewards, labels, fits and
advantages are those of the config's own stages.
"""

import importlib
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.configs import salmon
from agentrl.configs import stages as stage_list
from agentrl.learner import update as update_lib
from agentrl.rollout import actor, seats
from agentrl.run import build
from agentrl.run.experiment import Experiment
from agentrl.run.play import collect, demonstrations, jit_sampler
from agentrl.run.stage import stages
from agentrl.run.stage.base import Stage
from agentrl.types import Batch, TrainState

GROUP, BATCH = 8, 128


class Begun(NamedTuple):
  """A stage, the state as it begins, and what it has collected."""

  s: Experiment
  stage: Stage
  state: TrainState
  batch: Batch


def wander(s, params, attempts, key, group=1):
  """Takes any basket, whoever plays."""
  del params, group
  world = s.world.replace(mover=s.world.env.demonstrate)
  speaker = actor.MoveActor(*map(jnp.asarray, demonstrations.moves(s)))
  return seats.rollout(world, s.plan, speaker, attempts, key)


def config(method, folder, **changes):
  c = importlib.import_module(f'agentrl.configs.{method}').get_config('tiny')
  c.data = str(folder)
  c.model.update(
    dict(width=16, layers=1, heads=2, kv_heads=2, head_dim=8, mlp=32)
  )
  c.rollout.update(dict(batch=BATCH, group_size=GROUP, slots=BATCH))
  c.micro_batch = c.sft.batch = BATCH
  c.env.update(dict(train=64, test=4))
  c.role.reward.lr = 1e-2
  c.update_from_flattened_dict(changes)
  return c


def opened(c, name) -> tuple[Experiment, Stage]:
  """An experiment and its RL stage of this name."""
  plans = {x.name: x.config for x in stage_list.plans(c)}
  s = build.experiment(plans[name])
  return s, stages.rl_stage(s, 0, 2, jit_sampler.JitSampler(s))


def begun(c, name) -> Begun:
  """A stage as it begins, and what it collects."""
  s, stage = opened(c, name)
  state = stage.begin(update_lib.init(s.algorithm, jax.random.key(0)))
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(collect, 'play', wander)
    batch, _ = stage.collect(state, stage.task(state, 0), 0)
  return Begun(s, stage, state, batch)


def fitted(x: Begun, steps: int) -> TrainState:
  """The state after so many iterations of the stage on its first batch."""
  alg = x.stage.algorithm

  @jax.jit
  def step(state, batch):
    _, batch, _ = update_lib.curated(alg, state, batch)
    state, *_ = update_lib.run_signals(alg, state, batch, {})
    return state.replace(step=state.step + 1)

  state = x.state
  for _ in range(steps):
    state = step(state, x.batch)
  return state


def judged(stage: Stage, state: TrainState, batch: Batch) -> np.ndarray:
  """Advantages that a stage gives a batch: [groups, G]."""
  alg = stage.algorithm

  @jax.jit
  def score(state, batch):
    _, batch, _ = update_lib.curated(alg, state, batch)
    _, signals, _ = update_lib.run_signals(alg, state, batch, {})
    credit, _ = update_lib.compute_advantage(alg, batch, signals)
    return credit.turn[:, 0]

  return np.asarray(score(state, batch)).reshape(-1, GROUP)


def total(batch, name):
  """What trajectories have of a term, or of the environment: [groups, G]."""
  turns = batch.turns
  each = turns.reward if name == 'env' else turns.terms[name]
  return np.asarray(jnp.where(turns.valid, each, 0).sum(1)).reshape(-1, GROUP)


def agreement(got, want):
  """Share of pairs of a group in the order of `want`; ties count half."""
  d, e = (x[:, :, None] - x[:, None] for x in (got, want))
  right = (d > 0) + 0.5 * (d == 0)
  return float(np.mean(right[e > 1e-6]))


PRINCIPLES = ('apples', 'berries', 'fresh_apples')


@pytest.mark.nightly
def test_salmon_is_steered_by_the_principles_that_its_model_reads(tmp_path):
  """One model, fitted once: without texts it would have one opinion."""
  name = 'hp.signal.principled_reward'
  judged_by = tuple(salmon.BASKETS[x][1] for x in PRINCIPLES)
  few = {f'{name}.readings': PRINCIPLES, f'{name}.judged': judged_by}
  x = begun(config('salmon', tmp_path, **few), 'judge')
  state = fitted(x, 120)
  credit = {}
  for use in PRINCIPLES:
    c = config('salmon', tmp_path, **few, **{f'{name}.use': use})
    credit[use] = judged(opened(c, 'rl')[1], state, x.batch)
  liked = {n: total(x.batch, n) for n in ('apples', 'berries', 'spoilt')}
  for use, want in (('apples', 'apples'), ('berries', 'berries')):
    assert agreement(credit[use], liked[want]) > 0.8
  # The hack that the world plants, and the principle that stops it.
  assert agreement(credit['apples'], liked['spoilt']) > 0.6
  assert agreement(credit['fresh_apples'], liked['spoilt']) < 0.4
  assert agreement(credit['apples'], credit['berries']) < 0.7


def first_factor(values, i, j):
  """By hand: 1 if i is preferred, -1 if j is, 0 for neither."""
  factors = ('spoilt', -1), ('apples', 1), ('berries', -1)
  for m, (name, side) in enumerate(factors):
    gap = side * (values[name][i] - values[name][j])
    if abs(gap) > (values[name].std() if m else 0):
      return int(np.sign(gap))
  return 0


@pytest.mark.slow
def test_heron_lets_the_next_factor_decide_where_those_before_tie(tmp_path):
  """Less that is spoilt, then more apples, then fewer berries."""
  x = begun(config('heron', tmp_path), 'rl')
  _, batch, _ = update_lib.curated(x.stage.algorithm, x.state, x.batch)
  pairs = jax.device_get(batch.pairs)
  on = pairs.weight > 0
  got = {
    *zip(pairs.win[on, 0].tolist(), pairs.lose[on, 0].tolist(), strict=True)
  }
  values = {
    n: total(x.batch, n).reshape(-1) for n in ('apples', 'berries', 'spoilt')
  }
  group, deciders = np.asarray(x.batch.ids['group']), set()
  for i in range(BATCH):
    for j in np.flatnonzero(group == group[i]):
      assert ((i, int(j)) in got) == (first_factor(values, i, j) > 0)
      if first_factor(values, i, j) > 0:
        tied = values['spoilt'][i] == values['spoilt'][j]
        more = values['apples'][i] - values['apples'][j]
        deciders.add((bool(tied), bool(more > values['apples'].std())))
  # The first decides against the second, the second where the first ties, and
  # the third where both do.
  assert deciders >= {(False, False), (True, True), (True, False)}

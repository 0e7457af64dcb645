"""How fast two policies learn together, against one at a time; prints figures.

  python -m pytest -n 0 -s -m nightly tests/integration/policies_pace_test.py

Both arms begin with one warm start, without which few messages name a move.
Both sample by the same program, and each trains by one program of its own
for all seeds. Arms and seeds take turns, so that what else runs on the machine
slows both alike; CPU seconds are of this process.
"""

import math
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.configs import astraflow
from agentrl.learner import sizes
from agentrl.learner import update as update_lib
from agentrl.rollout import stale
from agentrl.run import algorithm, build, runner, weights
from agentrl.run.play import jit_sampler
from agentrl.run.stage import stages
from agentrl.stats import intervals

pytestmark = [pytest.mark.slow, pytest.mark.nightly]
ARMS = {'together': 0, 'one at a time': 8}  # rollout.learn_in_turn
REWARD, WINDOW = 0.65, 10  # mean return of both policies, over so many steps
STEPS, SEEDS = 600, 10


def config(folder):
  c = astraflow.get_config()
  c.data, c.steps = str(folder), STEPS
  c.model.update(
    dict(width=32, layers=1, heads=2, kv_heads=2, head_dim=16, mlp=64)
  )
  c.rollout.update(dict(batch=128, slots=128))
  c.env.update(dict(train=150, test=4, largest=2))
  for role in ('policy', 'verifier'):
    c.role[role].update(dict(lr=3e-3, final_lr_fraction=1.0))
  c.micro_batch, c.sft.steps, c.log.groups = 64, 0, 0
  return c


def warm(folder):
  """The parameters of a policy that plays legal moves alike."""
  c, workdir = config(folder), str(folder / 'warm')
  c.stages, c.sft.steps, c.eval.episodes = ('sft',), 60, 8
  runner.run(c, workdir)
  return weights.policy(build.experiment(c).shape, workdir)


def arms(folder):
  """A sampling stage, and each arm's update."""
  s = build.experiment(config(folder))
  stage = stages.rl_stage(s, 0, STEPS, jit_sampler.JitSampler(s))
  return stage, {
    arm: sizes.jit_update(stage.algorithm._replace(learn_in_turn=n))
    for arm, n in ARMS.items()
  }


def begin(stage, params, seed):
  s = stage.experiment
  state = update_lib.init(s.algorithm, jax.random.key(seed))
  own = jax.tree.map(jnp.array, params)  # the state is donated
  state = weights.load_policy_params(s.algorithm, own, state)
  state = stage.begin(state.replace(key=jax.random.key(seed)))
  return stale.begin(state, algorithm.reads(s.config, s.algorithm), 1)


def run(stage, update, params, seed, steps=STEPS):
  """(updates, seconds, CPU seconds, mean return) to the reward, or steps."""
  state, returns = begin(stage, params, seed), []
  wall, cpu = time.perf_counter(), time.process_time()
  for step in range(steps):
    batch, seen = stage.collect(state, stage.task(state, step), step)
    state, *_ = update(state, batch)
    sums = [seen[f'rollout/{x}/return'] for x in ('policy', 'verifier')]
    returns.append(np.mean([float(a) / float(n) for a, n in sums]))
    if step >= WINDOW and np.mean(returns[-WINDOW:]) >= REWARD:
      break
  spent = time.perf_counter() - wall, time.process_time() - cpu
  return step + 1, *spent, float(np.mean(returns[-WINDOW:]))


def interval(ratios):
  """Geometric mean of ratios, and its 95% interval by Student's t."""
  logs = [math.log(x) for x in ratios]
  low, high = intervals.mean_interval(logs)
  return math.exp(statistics.mean(logs)), math.exp(low), math.exp(high)


def compare(folder, seeds=SEEDS):
  """Prints each run and the ratios; returns those of updates."""
  params, (stage, updates) = warm(folder), arms(folder)
  for update in updates.values():
    run(stage, update, params, 0, steps=2)  # compiles
  found = {arm: [] for arm in ARMS}
  for seed in range(seeds):
    for arm, update in updates.items():
      made = run(stage, update, params, seed)
      found[arm].append(made)
      n, wall, cpu, mean = made
      text = f'{n} updates, {wall:.1f} s, {cpu:.1f} CPU s, return {mean:.3f}'
      print(f'seed {seed}, {arm}: {text}', flush=True)
  both, one = found.values()
  out = []
  for i, what in enumerate(('updates', 'seconds', 'CPU seconds')):
    ratios = [b[i] / a[i] for a, b in zip(both, one, strict=True)]
    mean, low, high = interval(ratios)
    print(
      f'{what}: one at a time / together {mean:.2f} [{low:.2f}, {high:.2f}]'
    )
    out.append(ratios)
  return found, out[0]


def test_both_arms_can_reach_the_reward(tmp_path):
  """Prints how fast; docs/POLICIES.md says what came of it."""
  found, _ = compare(tmp_path)
  assert all(any(x[-1] >= REWARD for x in runs) for runs in found.values())

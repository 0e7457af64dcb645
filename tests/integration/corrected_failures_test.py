"""Corrections of Agent-R in the worlds that they are made for."""

import jax
import numpy as np
import pytest

from agentrl.dataset import task_edits, trajectory
from agentrl.log import encode, sample
from agentrl.run import build
from agentrl.run.play import demonstrations, jit_sampler
from agentrl.run.stage import stored_sft
from tests.run.stage.prefixes_test import config


def played(s, playing, scripts):
  """A group of these messages at task 0, as the run logs its trajectories."""
  index = np.zeros(len(scripts), np.int64)
  batch = playing.replay(playing.demos(index, scripts), jax.random.key(0))
  picked = sample.sample(
    batch, {}, None, jax.random.key(0), groups=-1, size=len(scripts)
  )
  lines = encode.trajectories(
    jax.device_get(picked), s.tokenizer, step=1, phase='rl'
  )
  return [trajectory.from_log(line)._replace(group=0) for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize('env', ['frozen_lake', 'sokoban'])
def test_a_correction_moves_nothing_and_is_trained_on(tmp_path, env):
  c = config(tmp_path, env, 'agent_r', max_turns=12, batch=8, group_size=8)
  c.mix.revised.edits, c.stages, c.stage = (), ('rl',), {}
  s = build.experiment(c)
  playing = jit_sampler.JitSampler(s)
  solution = demonstrations.scripts(s)[0]
  wait = [*s.tokenizer.encode('wait'), s.tokenizer.eot]
  tries = [
    demonstrations.with_errors([solution * 2], 0.4, seed)[0][:9]
    for seed in range(6)
  ]
  xs = played(s, playing, [solution, [wait, wait, *solution], *tries])
  assert xs[0].solved
  assert xs[1].solved
  one, two, three = xs[1].turns[:3]
  assert one.state == two.state == three.state
  assert one.terms['invalid'] == 1

  made = task_edits.splice_correction(xs, words=s.tokenizer)
  assert made
  for x in made:
    at = next(k for k, t in enumerate(x.turns) if t.message.tolist() == wait)
    assert x.turns[at - 1].terms['progress'] < 0
    assert not any(t.weight.any() for t in x.turns[:at])
    assert all(np.all(t.weight == 1) for t in x.turns[at:])
  fits = [x for x in made if len(x.turns) <= s.plan.turns]
  batch = stored_sft.batch(s, *stored_sft.arrays(s, fits))
  rows = jax.device_get(batch.rows)
  for i, x in enumerate(fits):
    want = np.concatenate([np.r_[t.context, t.message] for t in x.turns])
    here = rows.seg[i] >= 0
    np.testing.assert_array_equal(rows.tokens[i][here], want)
    trained = sum(len(t.message) for t in x.turns if t.weight.any())
    assert np.sum(rows.weight[i]) == trained

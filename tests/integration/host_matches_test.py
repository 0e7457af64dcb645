"""Runs of host games: demonstrations, batches by seat, kills."""

import jax
import numpy as np
import pytest

from agentrl.configs import base, envs, spiral
from agentrl.learner import algorithm, update
from agentrl.run import build, runner
from agentrl.run.play import sampler
from agentrl.task.base import make_attempts
from agentrl.types import Status
from tests.env.jit.games import plain
from tests.integration import cut, same

BUT = (*same.SLOTS, 'eval/engine/')
ENV = 'tests.rollout.tables:Kuhn'


def config(folder, **changes):
  c = spiral.get_config(f'tiny,env={ENV}')
  c.data = str(folder / 'data')
  c.model.update(
    dict(width=16, layers=1, heads=2, kv_heads=2, head_dim=8, mlp=32)
  )
  c.rollout.update(dict(batch=8, slots=4, max_turns=2, max_message_tokens=2))
  c.env.update(dict(train=6, test=4))
  c.micro_batch = c.sft.batch = 8
  c.host.update(dict(max_observation_tokens=8))
  c.host.update(dict(prefill_chunk=8, decode_steps_per_sync=2))
  for path, value in changes.items():
    section, _, name = path.partition('__')
    c[section][name] = value
  return c


@pytest.mark.slow
def test_a_batch_is_matches_and_so_are_demonstrations(tmp_path):
  s = build.experiment(config(tmp_path))
  assert s.seats == 2
  state = update.init(s.algorithm, jax.random.key(0))
  policy = algorithm.full_params(s.algorithm.context, state.params)
  with sampler.open_sampler(s) as playing:
    demos = playing.demos(np.array([1, 2, 3, 3, 1, 0, 4, 4]))
    shown = playing.replay(demos, jax.random.key(0))
    attempts = make_attempts(np.arange(8) // 2 % 6, 2, 2, 1.0)
    batch, _ = playing.collect(policy, attempts, jax.random.key(1), 0)
  assert [int(x) for x in batch.turns.agent[:, 0]] == [0, 1] * 4
  assert [int(x) for x in batch.ids['match']] == [0, 0, 1, 1, 2, 2, 3, 3]
  for match, task in enumerate([1, 3, 1, 4]):  # of the first of each pair
    deal = s.train.tasks[task]['deal']
    want = plain.kuhn(deal, (0, 1, 1))
    turns = np.asarray(shown.turns.valid[2 * match : 2 * match + 2])
    assert turns.sum(axis=1).tolist() == [2, 1]
    got = np.asarray(shown.turns.terms['env'])[2 * match : 2 * match + 2]
    np.testing.assert_allclose(got.sum(axis=1), want)
  assert {int(x) for x in shown.status} == {Status.SOLVED, Status.FAILED}


def test_methods_by_seat_find_the_columns_of_a_host_game(tmp_path):
  c = config(tmp_path)
  assert envs.columns(c) == ('agent', 'seat', 'match')
  assert 'column:agent' in base.wiring(c).gives


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize('staleness', [0, 1])
def test_a_killed_run_goes_on_bit_for_bit(tmp_path, staleness):
  def run(name):
    c = config(tmp_path, staleness__bound=staleness, eval__episodes=8)
    c.staleness.anchor = 'behaviour' if staleness else c.staleness.anchor
    c.steps, c.sft.steps = 3, 1
    c.checkpoint.every = 1
    runner.run(c, str(tmp_path / name))

  run('whole')
  with cut.after_row(3):
    run('killed')
  run('killed')
  whole, killed = tmp_path / 'whole', tmp_path / 'killed'
  same.assert_same_run(whole, killed, steps=4, but=BUT, atol=1e-5)

"""Methods of preferences: their wiring, and what is left without the idea."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import registry
from agentrl.configs import base, dpo, stages, tool_star
from agentrl.lab.tabular import train
from agentrl.run.check import validate
from agentrl.types import RewardInputs
from tests import batches, errors
from tests.lab.tabular import table_runs


def config(**changes):
  c = dpo.get_config('tiny')
  c.update_from_flattened_dict(changes)
  return c


@pytest.mark.parametrize(
  ('changes', 'names'),
  [
    ({'curate': ()}, 'c.loss dpo pairs opposite_ranks'),
    (
      {'hp.minibatch.minibatches.unit': 'trajectory'},
      'hp.minibatch.minibatches.unit group dpo trajectory',
    ),
    ({'minibatch': 'reverse_turns'}, 'reverse_turns.unit group dpo'),
    ({'signal': ()}, 'signal:ref_logp reference'),
    ({'select': {'dpo': {'span': 'other'}}}, 'select.dpo without_span'),
  ],
)
def test_wiring_that_splits_pairs_is_refused(changes, names):
  with errors.raises(ValueError, names):
    validate.config(config(**changes))


def test_one_minibatch_may_have_any_unit():
  validate.config(
    config(
      **{
        'hp.minibatch.minibatches.unit': 'trajectory',
        'hp.minibatch.minibatches.n': 1,
      }
    )
  )


def test_pairs_with_replayed_memories_are_refused():
  c = config()
  base.replay(c, 'experience_replay', n=c.rollout.batch)
  base.fill(c)
  with errors.raises(ValueError, 'c.memory c.curate experience_replay'):
    validate.config(c)


def success(**changes):
  """Mean success of eight tables, before and after twelve iterations."""
  c = dpo.get_config()
  c.update_from_flattened_dict(changes)
  got = train.curves(
    validate.config(c),
    'bifurcation',
    (0.3,),
    range(8),
    12,
    size=table_runs.SMALL,
    settings={'length': 3},
  )
  return np.mean(got['success'][0], axis=0)[[0, -1]]


@pytest.mark.slow
@pytest.mark.nightly
def test_dpo_learns_from_its_pairs_and_from_nothing_else():
  before, after = success()
  assert after > before + 0.1
  before, after = success(**{'hp.curate.opposite_ranks.margin': 1e6})
  assert after == before


def test_the_self_critic_prefers_right_answers_with_both_tools():
  """To right ones with one tool, and to what was not understood."""
  c = tool_star.get_config('tiny')
  plans = {x.name: x.config for x in stages.plans(c)}
  assert [*plans] == ['sft', 'rl', 'self_critic']
  spec = base.wiring(plans['self_critic'])
  assert spec.loss == ('dpo',)
  laid = batches.lay(batches.story(groups=1, members=4, turns=1))
  b, k = laid.batch.turns.valid.shape
  right = np.array([1.0, 1, 0, 0, 1])[:b]
  terms = {
    'calls_bm25': [1, 1, 1, 0, 1],
    'calls_graph': [0, 1, 1, 0, 0],
    'invalid': [0, 0, 0, 1, 0],
  }

  def first(x):
    out = np.zeros((b, k))
    out[:, 0] = x
    return jnp.asarray(out)

  turns = laid.batch.turns.replace(
    terms={n: first(x) for n, x in terms.items()}
  )
  x = RewardInputs(
    turns=turns, outcome=jnp.asarray(right), status=laid.batch.status
  )
  made = [
    registry.bind('reward', name, spec.values('reward', name))(x)
    for name in spec.reward
  ]
  batch = laid.batch.replace(turns=turns.replace(reward=sum(made)))
  batch = jax.tree.map(jnp.asarray, batch.replace(outcome=right))
  (name,) = spec.curate
  select = registry.bind('curate', name, spec.values('curate', name))
  pairs = jax.jit(select)(batch).pairs
  assert kept(pairs) == [(1, 3)]
  # Without the hierarchy one right answer is as good as another.
  plain = batch.replace(turns=turns.replace(reward=first(right)))
  ((win, _),) = kept(jax.jit(select)(plain).pairs)
  assert win == 0


def kept(pairs):
  """(winner, loser) of pairs with weight, as trajectories."""
  on = np.asarray(pairs.weight) > 0
  halves = (np.asarray(x)[on, 0].tolist() for x in (pairs.win, pairs.lose))
  return [*zip(*halves, strict=True)]

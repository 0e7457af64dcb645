"""Methods of preferences: their wiring, and what is left without the idea."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import registry
from agentrl.configs import base, dpo, preflexor, stages, tool_star
from agentrl.lab.tabular import train
from agentrl.learner import update
from agentrl.learner.algorithm import Algorithm
from agentrl.loss import ppo
from agentrl.run.check import validate
from agentrl.signal.base import Context
from agentrl.types import LossInputs, Outputs, RewardInputs, Span
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


def test_preflexor_compares_answers_alone_in_its_second_stage():
  """Odds of all that was said first, then no thought of either half."""
  plans = stages.plans(preflexor.get_config())
  assert [x.name for x in plans] == ['sft', 'integrate', 'reason']
  moved = {x.name: moved_by_thoughts(x.config) for x in plans[1:]}
  assert moved == {'integrate': ('orpo', True), 'reason': ('dpo', False)}


def moved_by_thoughts(c):
  """The loss of a stage, and whether it moves thoughts beside the rest."""
  alg = Algorithm.from_spec(base.wiring(c), Context({}, {}, 2))
  (name,) = alg.losses
  laid = batches.lay(batches.story(seed=2, groups=2))
  rows = laid.batch.rows
  thought = rows.sampled & (rows.tokens % 2 == 0)
  span = np.where(thought, Span.THOUGHT, Span.ANSWER).astype(np.int8)
  batch = laid.batch.replace(rows=rows.replace(span=span))
  batch, signals = jax.tree.map(jnp.asarray, (batch, laid.signals))

  @jax.jit
  def pull(logp):
    paired = alg.curate[0](batch)
    credit, _ = update.compute_advantage(alg, paired, signals)
    x = LossInputs(
      outputs=Outputs(),
      batch=paired,
      credit=credit,
      signals=signals,
      key=jax.random.key(0),
    )
    weight = ppo.weights(name, x)

    def loss(logp):
      value, _ = alg.losses[name](x.replace(outputs=Outputs(logp=logp)))
      return jnp.sum(weight * value)

    return jax.grad(loss)(logp)

  grad = np.asarray(pull(-jnp.abs(laid.tokens['logp'])))
  assert np.any(grad[rows.sampled & ~thought])
  return name, bool(np.any(grad[thought]))

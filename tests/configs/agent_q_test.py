"""Agent Q: what its search and its pairs do to a batch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import registry, segment
from agentrl.configs import agent_q, base
from agentrl.learner import update
from agentrl.learner.algorithm import Algorithm
from agentrl.log import metrics
from agentrl.loss import ppo
from agentrl.run import runner
from agentrl.run.check import validate
from agentrl.signal.base import Context
from agentrl.types import LossInputs, Outputs
from tests import errors
from tests.advantage import search_values_test as trees
from tests.run import small_configs

SEED = 2


def spec_of(**changes):
  c = agent_q.get_config('tiny')
  c.update_from_flattened_dict(changes)
  return base.wiring(validate.config(c))


def grown(spec):
  """Trees whose shared turns weigh once, with a critique of every turn."""
  made = trees.grown(SEED)
  term = registry.settings_of(spec, 'curate', 'node_pairs')[0][1]['critique']
  terms = {**made.turns.terms, term[0]: jnp.asarray(trees.scores(SEED))}
  seen, own = set(), np.zeros(made.turns.valid.shape, bool)
  node = np.asarray(made.turns.node)
  for i, k in zip(*np.nonzero(made.turns.valid), strict=True):
    own[i, k] = int(node[i, k]) not in seen
    seen.add(int(node[i, k]))
  weight = segment.index(made).to_tokens(jnp.asarray(own, jnp.float32))
  rows = made.rows.replace(weight=made.rows.sampled * weight)
  turns = made.turns.replace(terms=terms)
  return made.replace(rows=rows, turns=turns)


def pulled(spec, batch):
  """How the loss of a method moves the log-prob of each turn, [B, K]."""
  alg = Algorithm.from_spec(spec, Context({}, {}, 2))
  (name,) = alg.losses
  paired = alg.curate[0](batch)
  signals = {'old_logp': batch.rows.logp}
  credit, _ = update.compute_advantage(alg, paired, signals)

  @jax.grad
  def pull(logp):
    x = LossInputs(
      outputs=Outputs(logp=logp),
      batch=paired,
      credit=credit,
      signals=signals,
      key=jax.random.key(0),
    )
    value, _ = alg.losses[name](x)
    return jnp.sum(ppo.weights(name, x) * value)

  moved = segment.index(batch).to_turns(-pull(batch.rows.logp))
  return np.asarray(moved), paired.pairs


@pytest.mark.slow
def test_turns_move_by_what_they_are_worth_among_their_siblings():
  spec = spec_of()
  batch = grown(spec)
  moved, pairs = pulled(spec, batch)
  hp = registry.settings_of(spec, 'curate', 'node_pairs')[0][1]
  critique = np.asarray(batch.turns.terms[hp['critique'][0]])
  q = hp['alpha'] * trees.walked(batch)
  q += (1 - hp['alpha']) * trees.walked(batch, critique)
  node = np.asarray(batch.turns.node)
  live = np.asarray(pairs.weight) > 0
  halves = [np.asarray(x)[live] for x in (pairs.win, pairs.lose)]
  assert len(halves[0]) > 2
  want = np.zeros(node.shape)
  for (a, k), (b, j) in zip(*halves, strict=True):
    assert k == j >= 0  # turns, and children of one node
    assert k == 0 or node[a, k - 1] == node[b, k - 1]
    assert q[a, k] - q[b, k] > hp['margin']
    want[a, k] += 1
    want[b, k] -= 1
  # β σ(0) / 2 of every pair: the policy is its reference.
  np.testing.assert_allclose(moved, 0.05 * want, atol=1e-6)


def test_a_shared_turn_is_trained_once():
  spec = spec_of()
  batch = grown(spec)
  moved, _ = pulled(spec, batch)
  node = np.asarray(batch.turns.node)
  shared = [x for x in np.unique(node[node >= 0]) if np.sum(node == x) > 1]
  trained = [np.count_nonzero(moved[node == x]) for x in shared]
  assert max(trained) == 1


def test_without_the_critique_other_turns_move():
  spec = spec_of()
  batch = grown(spec)
  with_it, _ = pulled(spec, batch)
  alone, _ = pulled(spec_of(**{'hp.curate.node_pairs.alpha': 1.0}), batch)
  assert np.any(np.sign(with_it) != np.sign(alone))
  nothing, _ = pulled(spec_of(**{'hp.curate.node_pairs.margin': 1e6}), batch)
  assert not np.any(nothing)


def test_its_batches_are_trees():
  spec = spec_of()
  assert spec.collect == 'tree_search'
  search = registry.settings_of(spec, 'collect', 'tree_search')[0][1]
  pairs = registry.settings_of(spec, 'curate', 'node_pairs')[0][1]
  assert search['critique'] == pairs['critique'] == ('progress',)
  assert search['alpha'] == pairs['alpha'] == 0.5
  with errors.raises(ValueError, 'hp.collect.tree_search.rounds 3 8'):
    spec_of(**{'hp.collect.tree_search.rounds': 3})


@pytest.mark.parametrize('arg', ['tiny,env=countdown,judged=number'])
def test_a_judge_may_be_the_critic(arg):
  c = agent_q.get_config(arg)
  spec = base.wiring(c)
  registry.check(spec, c)
  assert registry.settings_of(spec, 'collect', 'tree_search')[0][1][
    'critique'
  ] == ('judged',)


@pytest.mark.slow
@pytest.mark.nightly
def test_two_real_steps_on_a_mesh(tmp_path):
  """Searches, pairs and updates, on four devices."""
  c = agent_q.get_config('tiny')
  small = small_configs.SMALL | {'rollout.batch': 16, 'rollout.slots': 16}
  c.update_from_flattened_dict({**small, 'steps': 2, 'sft.steps': 8})
  c.data = str(tmp_path / 'data')
  c.mesh.fsdp, c.mesh.tensor = 2, 2
  runner.run(c, str(tmp_path / 'run'))
  rows = [
    x
    for x in metrics.read(tmp_path / 'run' / metrics.FILE)
    if 'rl' in x['phase']
  ]
  assert len(rows) >= 2
  assert all(np.isfinite(x['loss/total']) for x in rows if 'loss/total' in x)

"""TeaRAG: pairs by what paths cover, and rounds of DPO on them."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import registry
from agentrl.configs import base, stages, tearag_ipdpo
from agentrl.dataset.trajectory import make_turn
from agentrl.env.worlds.fact_corpus.env import FactCorpus
from agentrl.judge.item import Exchange, Item
from agentrl.learner import update
from agentrl.learner.algorithm import Algorithm
from agentrl.loss import ppo
from agentrl.run import config_file
from agentrl.run.check import validate
from agentrl.runtime import install
from agentrl.signal.base import Context
from agentrl.types import Batch, LossInputs, Outputs
from tests import errors
from tests.configs import pair_rounds
from tests.dataset import stored_cases
from tests.judge import made_up_items


def config(**changes):
  c = tearag_ipdpo.get_config('tiny')
  config_file.change(c, changes)
  return c


def test_three_rounds_of_samples_and_fits_to_the_pairs_of_the_last():
  pair_rounds.check(config(), ('dpo', 'winner_nll'))


@pytest.mark.parametrize(
  ('changes', 'names'),
  [
    ({'stage.fit_2.sft.pairs': False}, 'sft.pairs True as_listed False'),
    ({'judge': ()}, 'process_pairs term:evidence_coverage'),
    ({'hp.paired.process_pairs.answer': 'f2'}, 'process_pairs term:f2'),
    ({'hp.paired.process_pairs.least': -1.0}, 'process_pairs.least 0 -1'),
    (
      {'hp.judge.evidence_coverage.parts': ('note',)},
      'evidence_coverage.parts query note',
    ),
  ],
)
def test_what_does_not_fit_is_refused(changes, names):
  with errors.raises(ValueError, names):
    validate.config(config(**changes))


@pytest.fixture(scope='module')
def world():
  """A family with few people, and a question of two hops."""
  pytest.importorskip('bm25s', reason=install.command('host'))
  importlib.import_module('agentrl.judge')
  family = FactCorpus(people=100, min_hops=2, max_hops=2, retrievers='graph')
  return family, next(iter(family.tasks('train', 1, seed=0)))


def played(family, task, messages, number):
  """Plays messages: the trajectory as it is logged, with the judge's score."""
  env, c = family.env(), config()
  seen, turns = env.reset(task, 0), []
  for message in messages:
    step = env.step(message)
    info = {**step.info, 'invalid': float(step.invalid)}
    turns.append(Exchange(seen, message, info))
    seen, score = step.text, step.score
  env.close()
  (judge,) = c.judge
  process = made_up_items.score(
    judge, Item(task, tuple(turns), -1, score), **c.hp.judge[judge].to_dict()
  )
  terms = [x.terms for x in turns]
  terms[-1] = {**terms[-1], 'evidence_coverage': process}
  return stored_cases.story(
    turns=0, step=number, task=3, outcome=score, encoded=False
  )._replace(turns=tuple(make_turn([1], [2], terms=x) for x in terms))


def paths(world):
  """By name, what the policy might do."""
  one, two, end = world[1].demonstration
  return {
    'long': [one, one, two, two, end],
    'short': [one, two, end],
    'memory': [end],
    'wrong': [one, two, '<answer>Nobody</answer>'],
    'malformed': ['hm', one, two, end],
  }


def preferred(world, edit, names):
  """(winner, loser) by name of the pairs that an edit of the config makes."""
  family, host_task = world
  made = paths(world)
  xs = [
    played(family, host_task.task, made[name], i)
    for i, name in enumerate(names)
  ]
  c = config(**{'mix.paired.edits': (edit,)})
  values = base.wiring(base.fill(c)).values('paired', edit)
  out = registry.bind('edit', edit, values)(xs)
  return [
    (names[x.step], names[y.step])
    for x, y in zip(out[::2], out[1::2], strict=True)
  ]


def test_of_two_right_answers_the_path_that_covers_more_by_step_is_chosen(
  world,
):
  """The idea: outcomes alone prefer the first right one, and no right one."""
  names = ['long', 'short', 'wrong']
  by_process = preferred(world, 'process_pairs', names)
  assert by_process == [('short', 'long'), ('short', 'wrong')]
  by_outcome = preferred(world, 'in_pairs', names)
  assert by_outcome == [('long', 'wrong')]
  assert preferred(world, 'in_pairs', names[:2]) == []


def test_answers_from_memory_are_weaker_and_all_kinds_are_rejected(world):
  names = ['memory', 'malformed', 'long', 'wrong', 'short']
  got = preferred(world, 'process_pairs', names)
  kinds = [('short', x) for x in ('memory', 'wrong', 'malformed')]
  assert got == kinds
  for alone in (
    ['memory', 'wrong'],
    ['short', 'short'],
    ['wrong', 'malformed'],
  ):
    assert preferred(world, 'process_pairs', alone) == []


def test_what_was_retrieved_moves_no_parameter():
  """Its log-probs are in neither loss, nor have they a gradient."""
  (plan,) = (x for x in stages.plans(config()) if x.name == 'fit_2')
  alg = Algorithm.from_spec(base.wiring(plan.config), Context({}, {}, 2))
  r = np.random.default_rng(0)
  batch = Batch.from_turns(
    [[[1, 2], [3]], [[4], [5, 6, 7]]],
    [[[-1.0] * 2, [-1.0]], [[-1.0], [-1.0] * 3]],
    reward=[[0.0, 0.0], [0.0, 0.0]],
    group=[0, 0],
    context=[[[9, 9], [8, 8, 8]], [[9, 9], [8]]],
  )
  wrote = np.asarray(batch.rows.sampled)
  assert (~wrote & (np.asarray(batch.rows.traj) >= 0)).sum() == 8
  reference = jnp.asarray(r.normal(size=wrote.shape), jnp.float32)
  signals = {'ref_logp': reference}

  @jax.jit
  def loss(logp, reference):
    paired = alg.curate[0](batch)
    read = signals | {'ref_logp': reference}
    credit, _ = update.compute_advantage(alg, paired, read)
    x = LossInputs(
      outputs=Outputs(logp=logp),
      batch=paired,
      credit=credit,
      signals=read,
      key=jax.random.key(0),
    )
    each = {
      name: jnp.sum(ppo.weights(name, x) * f(x)[0])
      for name, f in alg.losses.items()
    }
    return sum(each.values()), each

  def moved(where):
    return jnp.where(where, jnp.asarray(r.normal(size=wrote.shape)), 0)

  logp = -jnp.abs(jnp.asarray(r.normal(size=wrote.shape), jnp.float32))
  grad, each = jax.grad(loss, has_aux=True)(logp, reference)
  assert sorted(each) == ['dpo', 'winner_nll']
  assert all(x > 0 for x in each.values())
  assert np.all(np.asarray(grad)[wrote])
  assert not np.any(np.asarray(grad)[~wrote])
  others = loss(logp + moved(~wrote), reference + moved(~wrote))[1]
  assert {k: float(x) for k, x in others.items()} == {
    k: float(x) for k, x in each.items()
  }
  for name, x in loss(logp + moved(wrote), reference)[1].items():
    assert x != each[name]

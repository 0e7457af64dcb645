"""Credit of configs whose rewards are judged, against NumPy in float64."""

import ast
import importlib
import itertools
import re

import jax
import numpy as np
import pytest

from agentrl import optimizer, registry
from agentrl.configs import base
from agentrl.dataset.trajectory import make_turn
from agentrl.env.worlds.fact_corpus.env import FactCorpus
from agentrl.learner import update
from agentrl.run.play import collect
from agentrl.schedule import Schedule
from agentrl.service import base as base_service
from agentrl.signal.base import Context
from agentrl.text.message import Message
from tests.advantage import one_token_turns
from tests.dataset import stored_cases
from tests.judge import made_up_items

B, K = 24, 4


@pytest.fixture(autouse=True)
def _float64():
  with jax.enable_x64(True):
    yield


def config_of(method, arg=''):
  return importlib.import_module(f'agentrl.configs.{method}').get_config(arg)


def drawn(seed, **terms):
  """Ragged trajectories, six a group, and one that is alone."""
  r = np.random.default_rng(seed)
  valid = np.arange(K)[None] < r.integers(1, K + 1, (B, 1))
  group = np.arange(B) // 6
  group[-1] = 9
  batch = one_token_turns.make_batch(
    np.zeros((B, K)), group=list(group), valid=valid
  )
  made = {n: np.where(valid, x(r), 0.0) for n, x in terms.items()}
  turns = batch.turns.replace(terms=made)
  outcome = (r.random(B) < 0.5).astype(float)
  return batch.replace(turns=turns, outcome=outcome), valid, group


def credit(c, batch, step=0):
  """Advantages of the turns that a config makes at that step."""
  context = Context({}, {'policy': optimizer.OptimizerConfig()}, 1)
  alg = update.Algorithm.from_spec(
    base.wiring(c),
    context,
    coef=dict(c.coef),
    schedules={
      f'coef.{name}': Schedule(*x)._replace(steps=c.steps)
      for name, x in c.schedule.get('coef', {}).items()
    },
  )
  return one_token_turns.algorithm_credit(
    alg, collect.score(alg.spec, batch), step
  )


def z(x):
  """(x - mean) / (std + 1e-6); 0 for who is alone."""
  if len(x) < 2:
    return np.zeros(len(x))
  return (x - x.mean()) / (x.std(ddof=1) + 1e-6)


def z_group(reward, group, valid):
  """Of numbers of trajectories, on all of their turns: [B, K]."""
  out = np.zeros(len(group))
  for g in set(group.tolist()):
    out[group == g] = z(reward[group == g])
  return np.where(valid, out[:, None], 0)


def test_smartsnap_is_the_verdict_less_what_was_too_much():
  batch, valid, group = drawn(
    0,
    judged=lambda r: _last(r.choice([0, 0.5, 1], (B, K))),
    evidence_excess=lambda r: _last(r.integers(0, 3, (B, K))),
  )
  terms = {n: x.sum(1) for n, x in batch.turns.terms.items()}
  reward = 2 * terms['judged'] - 1 - 0.1 * terms['evidence_excess']
  want = z_group(reward, group, valid)
  got = credit(config_of('smartsnap'), batch)
  np.testing.assert_allclose(got, want, atol=1e-5)
  assert np.abs(got).max() > 0.5


def scored(method, *texts, **task):
  """What the first judge of a config says of a trajectory of these texts."""
  c = config_of(method)
  name = c.judge[0]
  hp, ask = c.hp.judge[name].to_dict(), None
  if 'service' in hp:
    answer = base_service.load_function(c.service.judge.function, '')
    ask = made_up_items.Service(
      lambda prompt: answer([Message('user', prompt)], seed=0)
    )
  what = made_up_items.item(*texts, task=task)
  if registry.get('judge', name).takes == 'turn':
    what = what._replace(turn=len(what.turns) - 1)
  return made_up_items.score(name, what, ask, **hp)


@pytest.mark.parametrize(
  ('evidence', 'want'), [('1 2', 1), ('1', 0.5), ('', 0)]
)
def test_smartsnap_is_paid_for_its_choice_of_evidence(evidence, want):
  end = f'<answer>Nalo</answer><evidence>{evidence}</evidence>'
  seen = "Bako's home's mayor?", "Bako's home is Tebu.", "Tebu's mayor is Nalo."
  talk = zip(seen, ('a', 'b', end), strict=True)
  assert scored('smartsnap', *(x for pair in talk for x in pair)) == want


def test_statefactory_factors_what_it_has_seen():
  """Of an earlier turn, too; with values swapped the same words are wrong."""
  goal = [['lamp', 'state', 'on'], ['fan', 'state', 'off']]
  for seen, want in (('fan state off', 1), ('fan state on', 0.5)):
    talk = 'lamp state on', 'x', seen, 'done'
    assert scored('statefactory', *talk, goal=goal) == want


def _last(x):
  """What a trajectory has in its first turn alone; where does not matter."""
  return np.where(np.arange(K) == 0, x, 0)


def test_statefactory_credits_how_much_nearer_the_goal_comes():
  batch, valid, group = drawn(0, judged=lambda r: r.random((B, K)))
  phi = batch.turns.terms['judged']
  last = valid & ~np.pad(valid, ((0, 0), (0, 1)))[:, 1:]
  gain = np.diff(phi, axis=1, prepend=0) + last * batch.outcome[:, None]
  gain = np.where(valid, gain, 0)
  want = z_group(gain.sum(1), group, valid)
  for g, k in itertools.product(set(group.tolist()), range(K)):
    mine = (group == g) & valid[:, k]
    if mine.sum() > 1:
      want[mine, k] += gain[mine, k] - gain[mine, k].mean()
  got = credit(config_of('statefactory'), batch)
  np.testing.assert_allclose(got, want, atol=1e-5)
  # Of turns, not of trajectories: the outcome alone says less.
  sparse = config_of('statefactory')
  sparse.reward, sparse.judge = ('outcome',), ()
  flat = credit(sparse, batch)
  assert (np.abs(got - flat) > 0.1).any()


def test_arms_of_behavior_priming_differ_in_what_they_keep_not_in_size():
  c = config_of('behavior_priming', 'tiny')
  c.hp.primed.subset.n = 8
  rng, xs = np.random.default_rng(0), []
  for i in range(120):
    marks = {'judged': float(rng.choice([0, 0.25, 0.5, 1]))}
    turns = [make_turn([1], [2], terms=t) for t in ({}, marks)]
    outcome = float(rng.random() < 0.5)
    x = stored_cases.story(i)._replace(turns=tuple(turns), outcome=outcome)
    xs.append(x)
  arms = {
    'primed': tuple(c.mix.primed.edits),
    **{f'arm {i}': ast.literal_eval(x) for i, x in enumerate(_arms())},
  }
  assert len(arms) == 5
  for edits in arms.values():
    out = xs
    for edit in edits:
      values = c.hp.primed.to_dict().get(edit, {})
      out = registry.bind('edit', edit, values)(out)
    marked = {x.turns[1].terms['judged'] >= 0.5 for x in out}
    solved = {x.solved for x in out}
    assert len(out) == 8
    assert marked == ({True} if 'keep_with_term' in edits else {True, False})
    want = {True} if 'keep_solved' in edits else {False}
    plain = not {'keep_solved', 'keep_unsolved'} & {*edits}
    assert solved == ({True, False} if plain else want)
  assert 'keep_with_term' in arms['primed']


def _arms():
  """The edits of the other arms, as the config's docstring sets them."""
  doc = importlib.import_module('agentrl.configs.behavior_priming').__doc__
  return re.findall(r'primed\.edits="(.*)"', doc)


def searches(seed):
  terms = {
    'judged': lambda r: _last(r.random((B, K))),
    'f1': lambda r: _last(r.random((B, K))),
    'invalid': lambda r: r.random((B, K)) < 0.1,
  }
  return drawn(seed, **terms)


def test_atom_searcher_mixes_rewards_and_then_normalises():
  batch, valid, group = searches(0)
  c = config_of('atom_searcher')
  c.steps = 8
  terms = {n: x.sum(1) for n, x in batch.turns.terms.items()}
  assert 0 < (terms['invalid'] > 0).sum() < B
  for k in (0, 3, 8):
    alpha = 0.5 * (1 - k / 8)
    reward = alpha * terms['judged'] + (1 - alpha) * terms['f1']
    reward[terms['invalid'] > 0] = -1
    want = z_group(reward, group, valid)
    np.testing.assert_allclose(credit(c, batch, k), want, atol=1e-5)


def test_without_tags_atom_searcher_credits_otherwise():
  """The units of a thought are what is scored, not its words: until α is 0."""
  batch, valid, _ = searches(3)
  c = config_of('atom_searcher')
  c.steps = 8
  plans = ('home', 'mayor', 'home, mayor', 'age')

  def judged(thought):
    out = np.zeros((B, K))
    for b in range(B):
      message = f'<think>{thought.format(plans[b % 4])}</think>go'
      out[b, 0] = scored('atom_searcher', "Bako's home's mayor?", message)
    terms = batch.turns.terms | {'judged': np.where(valid, out, 0)}
    return batch.replace(turns=batch.turns.replace(terms=terms))

  tagged, bare = judged('<PLAN>{}</PLAN>'), judged('{}')
  assert not bare.turns.terms['judged'].any()
  first = [credit(c, x, 0) for x in (tagged, bare)]
  assert np.abs(first[0] - first[1]).max() > 0.1
  np.testing.assert_allclose(*(credit(c, x, 8) for x in (tagged, bare)))


def test_deep_dxsearch_is_mostly_paid_for_what_it_refers_to():
  terms = {
    n: lambda r: _last(r.random((B, K))) for n in ('refer', 'searched', 'named')
  }
  terms['invalid'] = lambda r: r.random((B, K)) < 0.05
  terms['excess'] = lambda r: _last(r.random((B, K)) < 0.15)
  batch, valid, group = drawn(0, **terms)
  x = {n: y.sum(1) for n, y in batch.turns.terms.items()}
  reward = 0.8 * x['refer'] + 0.05 * x['searched'] + 0.15 * x['named']
  stopped = (x['invalid'] > 0) | (x['excess'] > 0)
  assert 0 < stopped.sum() < B
  want = z_group(np.where(stopped, 0, reward), group, valid)
  got = credit(config_of('deep_dxsearch'), batch)
  np.testing.assert_allclose(got, want, atol=1e-5)


def test_notes_of_evinote_rag_say_what_was_read_and_prove_the_answer():
  """Of chains and not of tasks of one hop alone."""
  c = config_of('evinote_rag')
  family = FactCorpus(people=100, notes=c.env.notes, unanswerable=0.0)
  hops = set()
  for task, messages, _ in family.tasks('train', 12, 0):
    env = family.env()
    talk = [env.reset(task, 0)]
    for message in messages:
      talk += [message, env.step(message).text]
    env.close()
    shown = made_up_items.item(*talk[:-1], task=task)
    said = {
      x: made_up_items.score(x, shown, **c.hp.judge[x].to_dict())
      for x in c.judge
    }
    assert said == dict.fromkeys(c.judge, 1.0)
    hops.add(task['hops'])
  assert len(hops) > 1

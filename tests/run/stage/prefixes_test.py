"""Prefixes of a run: the demonstration's own tokens, at a step's own length."""

import importlib

import jax
import numpy as np
import pytest

from agentrl.collect import branch  # noqa: F401  registers its pieces
from agentrl.configs import base
from agentrl.configs import stages as stage_list
from agentrl.dataset import mixture, trajectory_store
from agentrl.run import build
from agentrl.run.check import validate
from agentrl.run.stage import prefixes, stages
from agentrl.task import base as task_base
from tests import errors, states
from tests.dataset import stored_cases


def config(folder, env, method='step_grpo', **rollout):
  module = importlib.import_module(f'agentrl.configs.{method}')
  c = module.get_config(f'tiny,env={env}')
  c.data = str(folder / 'data')
  c.env.update(dict(train=6, test=2))
  c.model.update(
    dict(width=16, layers=1, heads=1, kv_heads=1, head_dim=16, mlp=16)
  )
  c.rollout.update(dict(batch=16, group_size=4, slots=8) | rollout)
  c.micro_batch = c.sft.batch = 8
  return c


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  return tmp_path_factory.mktemp('prefixes')


def prefixed(s, step):
  """The attempts of a step, at tasks 0 to 3."""
  attempts = task_base.make_attempts(np.repeat(np.arange(4), 4), 4, 6, 1.0)
  return prefixes.of_demonstrations(s).prefixed(attempts, step)


def solution(s, task):
  """Messages that solve a task, as tokens."""
  if s.on_host:
    texts = s.train.demonstration[task]
  else:
    actions = s.train.actions[task]
    texts = [s.world.env.actions[a] for a in actions[actions >= 0]]
  return [[*s.tokenizer.encode(x), s.tokenizer.eot] for x in texts]


@pytest.mark.parametrize('env', ['frozen_lake', 'countdown'])
def test_attempts_begin_as_the_demonstration_of_their_task(folder, env):
  s = build.experiment(config(folder, env))
  several = [prefixed(s, step) for step in range(8)]
  for made in several:
    p = made.prefix
    assert p.forced
    assert (p.messages.state == -1).all()
    for b in range(16):
      want = solution(s, b // 4)
      assert 0 <= p.turns[b] < len(want)
      if len(want) > 6:
        assert p.turns[b] == 0
        continue
      for k, ids in enumerate(want):
        assert p.messages.length[b, k] == len(ids)
        assert p.messages.tokens[b, k, : len(ids)].tolist() == ids
        assert not p.messages.tokens[b, k, len(ids) :].any()
    assert (p.turns.reshape(4, 4) == p.turns[::4, None]).all()
  if env == 'frozen_lake':
    assert len({x for made in several for x in made.prefix.turns}) > 2
  again = prefixed(build.experiment(config(folder, env)), 5)
  for x, y in zip(
    jax.tree.leaves(again), jax.tree.leaves(several[5]), strict=True
  ):
    np.testing.assert_array_equal(x, y)  # of seed and step alone


def test_an_attempt_of_fewer_turns_has_one_of_its_own(folder):
  s = build.experiment(config(folder, 'frozen_lake'))
  attempts = task_base.make_attempts(np.repeat(np.arange(4), 4), 4, 2, 1.0)
  found = [
    prefixes.of_demonstrations(s).prefixed(attempts, step).prefix.turns
    for step in range(8)
  ]
  assert set(np.ravel(found)) == {0, 1}


@pytest.mark.parametrize('own', [0, 2])
def test_attempts_end_after_their_own_turns(folder, own):
  c = config(folder, 'frozen_lake')
  c.prefix = 'spaced_prefix'
  base.hp(c, 'prefix', 'spaced_prefix', states=4, own=own)
  made = prefixed(build.experiment(base.fill(c)), 0)
  assert made.prefix.turns.any()
  want = np.minimum(6, made.prefix.turns + own) if own else np.full(16, 6)
  assert made.limit.tolist() == want.tolist()


def listed(*xs):
  """A source of trajectories, given as (task, turns); others tell no task."""
  made = [
    stored_cases.story(i, turns=turns, task=task, encoded=i == 2)
    for i, (task, turns) in enumerate(xs)
  ]
  return made, mixture.Listed(made)


def test_attempts_begin_as_a_trajectory_of_the_source_at_their_task(folder):
  s = build.experiment(config(folder, 'frozen_lake', max_message_tokens=5))
  # Tasks 0 to 3 are attempted: two at 1, one too long at 2, none at 0.
  xs, source = listed((1, 3), ('a text', 4), (3, 5), (2, 7), (1, 4), (9, 2))
  of = prefixes.of_source(s, 'own', source)
  attempts = task_base.make_attempts(np.repeat(np.arange(4), 4), 4, 6, 1.0)
  chosen = set()
  for step in range(12):
    p = of.prefixed(attempts, step).prefix
    assert not p.turns[:4].any()
    assert not p.turns[8:12].any()
    assert (p.messages.length[:4] == 0).all()
    assert (p.messages.state[8:12] == -1).all()
    one = 0 if (p.messages.length[4, 3:] == 0).all() else 4
    chosen.add(one)
    for b, x in [*((b, xs[one]) for b in range(4, 8)), (12, xs[2])]:
      assert p.turns[b] < len(x.turns)
      for k, turn in enumerate(x.turns):
        n = p.messages.length[b, k]
        assert p.messages.tokens[b, k, :n].tolist() == turn.message.tolist()
        state = -1 if x.encoded else turn.state
        assert p.messages.state[b, k] == state
    again = of.prefixed(attempts, step).prefix
    np.testing.assert_array_equal(again.messages.tokens, p.messages.tokens)
  assert chosen == {0, 4}


def test_every_trajectory_of_a_task_is_as_likely(folder):
  s = build.experiment(config(folder, 'frozen_lake'))
  _, source = listed((1, 3), (0, 2), (1, 4), (1, 5))
  of = prefixes.of_source(s, 'own', source)
  attempts = task_base.make_attempts(np.repeat([1, 0, 2], 2), 2, 6, 1.0)
  want = {0.01: 0, 0.33: 0, 0.34: 2, 0.66: 2, 0.67: 3, 0.99: 3}
  for u, place in want.items():
    places = of.places(attempts, np.array([u, u, u]))
    assert places.tolist() == [place, place, 1, 1, -1, -1]


def test_a_source_without_a_beginning_is_refused(folder):
  s = build.experiment(config(folder, 'frozen_lake', max_message_tokens=5))
  for xs in [((0, 1), (1, 1)), (('a text', 4), (6, 3))]:
    with errors.raises(ValueError, 'mix.own 2'):
      prefixes.of_source(s, 'own', listed(*xs)[1])
  with errors.raises(ValueError, 'max_turns 6 8'):
    prefixes.of_source(s, 'own', listed((0, 1), (1, 8))[1])
  heads = listed((0, 3))[1].heads
  heads['word'] = s.shape.vocab
  with pytest.raises(ValueError):
    prefixes.check_fit(s, heads, 'the source mix.own')
  heads['word'], heads['message'] = 0, 6
  with errors.raises(ValueError, '6 5'):
    prefixes.check_fit(s, heads, 'the source mix.own')


def test_a_store_is_read_before_anything_compiles(folder):
  c = config(folder, 'frozen_lake', max_message_tokens=5)
  base.source(c, 'own', kind='store', store='own', edits=('keep_solved',))
  c.prefix_source = 'own'
  xs = [
    stored_cases.story(i, turns=3, task=i % 2, outcome=float(i < 2))
    for i in range(4)
  ]
  xs = [
    x._replace(turns=tuple(t._replace(scored=True) for t in x.turns))
    for x in xs
  ]
  trajectory_store.build(xs, c.data, 'own')
  s = build.experiment(c)
  (stage,) = stages.make_stages(s, ('rl',), {'rl': (s, object())})
  stage.open(0)
  attempts = stage.task(states.state(), 0)
  assert attempts.prefix.turns.any()
  for b, task in enumerate(attempts.task):
    length = attempts.prefix.messages.length[b]
    want = [len(turn.message) for turn in xs[task].turns] if task < 2 else [0]
    assert length[: len(want)].tolist() == want
  c.rollout.max_turns = 2
  s = build.experiment(c)
  with pytest.raises(ValueError, match=r'max_turns=2 allows none .* to 3'):
    stages.make_stages(s, ('rl',), {'rl': (s, object())})


def test_what_cannot_be_given_is_refused_before_anything_compiles(folder):
  c = config(folder, 'frozen_lake', max_turns=1)
  s = build.experiment(c)
  with errors.raises(ValueError, 'rollout.max_turns 1'):
    stages.check_demos(stage_list.plans(c, ('rl',)), {'rl': [s]})
  stages.check_demos(stage_list.plans(c, ('sft',)), {'sft': [s]})
  whole = build.experiment(config(folder, 'frozen_lake'))
  actions = np.full_like(whole.train.actions, -1)
  train = whole.train.__class__(whole.train.tasks, actions, whole.train.keys)
  with pytest.raises(ValueError):
    prefixes.check(whole._replace(train=train))


def test_branches_and_prefixes_do_not_go_together(folder):
  c = config(folder, 'frozen_lake')
  c.collect, c.hp.collect = 'branch', {}
  with errors.raises(ValueError, 'c.prefix none'):
    validate.config(c)


@pytest.mark.parametrize(
  ('field', 'value', 'need'),
  [('prefix', 'none', 'column:prefix'), ('curate', (), 'weight:prefix')],
)
def test_pieces_that_read_prefixes_need_somebody_to_give_them(
  folder, field, value, need
):
  method = 'guided_retry' if field == 'prefix' else 'prefix_rft'
  c = config(folder, 'frozen_lake', method)
  c[field] = value
  c.hp.prefix = {}
  with errors.raises(ValueError, need):
    validate.config(c)

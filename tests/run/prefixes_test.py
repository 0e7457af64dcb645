"""Prefixes of a run: the demonstration's own tokens, at a step's own length."""

import importlib

import jax
import numpy as np
import pytest

from agentrl.collect import branch  # noqa: F401  registers its pieces
from agentrl.configs import stages as stage_list
from agentrl.run import build, prefixes, stages, validate
from agentrl.task import base as task_base


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
  return prefixes.Demonstrations(s).prefixed(attempts, step)


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
    assert p.messages.state is None
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
    prefixes.Demonstrations(s).prefixed(attempts, step).prefix.turns
    for step in range(8)
  ]
  assert set(np.ravel(found)) == {0, 1}


def test_what_cannot_be_given_is_refused_before_anything_compiles(folder):
  c = config(folder, 'frozen_lake', max_turns=1)
  s = build.experiment(c)
  with pytest.raises(ValueError, match=r'rollout\.max_turns=1 allows none'):
    stages.check_demos(stage_list.plans(c, ('rl',)), {'rl': [s]})
  stages.check_demos(stage_list.plans(c, ('sft',)), {'sft': [s]})
  whole = build.experiment(config(folder, 'frozen_lake'))
  actions = np.full_like(whole.train.actions, -1)
  train = whole.train.__class__(whole.train.tasks, actions, whole.train.keys)
  with pytest.raises(ValueError, match=r'no task of .* of two turns; set c'):
    prefixes.check(whole._replace(train=train))


def test_branches_and_prefixes_do_not_go_together(folder):
  c = config(folder, 'frozen_lake')
  c.collect, c.hp.collect = 'branch', {}
  with pytest.raises(ValueError, match=r"set c\.prefix to 'none'"):
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
  with pytest.raises(ValueError, match=need):
    validate.config(c)

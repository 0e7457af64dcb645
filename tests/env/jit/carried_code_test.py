"""Carried code: rules by hand, splits, and what alone tells the answer."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.env.jit import base
from agentrl.env.jit.carried_code import CODE, WAIT, CarriedCode
from agentrl.rollout import registered
from tests import errors
from tests.env.jit import tasks as jit_tasks

ENV = CarriedCode(letters=3, size=2, fillers=2, length=3)
TASK = {
  'code': np.array([1, 0], np.int32),
  'filler': np.array([[0, 1, 2], [13, 13, 0]], np.int32),
}


def begun():
  return ENV.reset(jit_tasks.KEY, TASK)


def walk(*said):
  state, obs = begun()
  moves = [ENV.actions.index(x) if x else -1 for x in said]
  return base.render_text(ENV, obs), jit_tasks.walk(ENV, state, moves)


def test_the_code_is_told_early_and_asked_for_late():
  first, (state, texts, rewards, dones, facts) = walk(*[WAIT] * 4, 'ba')
  assert first == 'go\n'
  assert texts[:-1] == ('key ba\n', 'mno\n', 'zzm\n', 'key?\n')
  assert rewards == (0, 0, 0, 0, 1)
  assert dones == (False, False, False, False, True)
  assert facts == ((0.0,),) * 4 + ((1.0,),)
  assert ENV.score(state) == 1


@pytest.mark.parametrize('answer', ['ab', 'bc', WAIT, ''])
def test_another_answer_earns_nothing(answer):
  """Neither does the code when nobody asks, nor a word after the end."""
  _, (state, _, rewards, dones, _) = walk('ba', 'ba', '', WAIT, answer, 'ba')
  assert rewards == (0,) * 6
  assert dones[-2:] == (True, True)
  assert ENV.score(state) == 0
  assert int(state.turn) == ENV.turns


def test_the_last_observation_and_fillers_do_not_tell_the_code():
  """Two tasks that differ in their code differ in one observation."""
  other = {**TASK, 'code': np.array([2, 1], np.int32)}
  said = [WAIT] * 5
  _, (_, mine, *_) = walk(*said)
  moves = [ENV.actions.index(x) for x in said]
  state, _ = ENV.reset(jit_tasks.KEY, other)
  theirs = jit_tasks.walk(ENV, state, moves)[1]
  assert [a == b for a, b in zip(mine, theirs, strict=True)] == [
    False, True, True, True, True,
  ]  # fmt: skip


def test_summaries_know_what_was_read():
  """At the turn whose observation tells the code, it has not been read."""
  state, _ = begun()
  texts = []
  for _ in range(4):
    text = ''.join(ENV.pieces[i] for i in ENV.summary(state) if i >= 0)
    texts.append(text)
    state = ENV.step(state, jnp.int32(0), jit_tasks.KEY)[0]
  assert texts == ['-', '-', 'ba', 'ba']


def test_codes_are_all_orders_of_different_letters():
  env = CarriedCode(letters=4, size=3)
  assert len(env.codes) == 24
  assert set(env.codes) == {
    ''.join(x) for x in itertools.permutations(CODE[:4], 3)
  }
  assert env.actions == (WAIT, *env.codes)


def test_splits_are_disjoint_solved_and_hold_every_code():
  env = CarriedCode(letters=3, size=2)
  sets = [list(env.tasks(x, 60, 0)) for x in ('train', 'test')]
  keys = [{x.key for x in tasks} for tasks in sets]
  assert not keys[0] & keys[1]
  assert [len(x) for x in keys] == [60, 60]
  for tasks in sets:
    assert {x.actions[-1] for x in tasks} == set(range(1, 7))
  solved = sets[1]
  state = jax.vmap(env.reset, (None, 0))(
    jit_tasks.KEY, jit_tasks.stack(solved)
  )[0]
  step = jax.jit(jax.vmap(env.step, (0, 0, None)))
  for actions in np.array([x.actions for x in solved]).T:
    state = step(state, actions, jit_tasks.KEY)[0]
  np.testing.assert_array_equal(jax.vmap(env.score)(state), 1)


def test_it_is_what_the_protocols_say():
  base.check(ENV, TASK, np.arange(-1, len(ENV.actions)))
  assert isinstance(ENV, base.SummarizedEnv)
  assert ENV.summary(begun()[0]).shape == (ENV.summary_len,)
  assert not {*ENV.columns} & {*registered.TERMS}
  assert CarriedCode().name() != CarriedCode(size=2).name()


@pytest.mark.parametrize(
  ('field', 'value'),
  [('letters', 7), ('letters', 1), ('size', 5), ('fillers', 0), ('length', 0)],
)
def test_settings_that_cannot_be(field, value):
  with errors.raises(ValueError, f'{field} {value}'):
    CarriedCode(**{field: value})

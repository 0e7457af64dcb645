"""Baskets: rules by hand, users who disagree, and what taste alone decides."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.env.jit import base, baskets
from agentrl.env.jit.baskets import Baskets
from agentrl.rollout import registered
from tests import errors
from tests.env.jit import tasks as jit_tasks

ENV = Baskets(turns=2)
GOODS = np.array(
  [
    [[1, 0, 0], [0, 2, 0], [2, 2, 1]],
    [[2, 2, 1], [0, 1, 0], [2, 0, 0]],
  ],
  np.int32,
)


def walk(user, *said, env=ENV):
  task = {'goods': GOODS, 'user': np.int32(user)}
  state, obs = env.reset(jit_tasks.KEY, task)
  moves = [env.actions.index(x) if x else -1 for x in said]
  return base.render_text(env, obs), jit_tasks.walk(env, state, moves)


def test_a_basket_is_taken_by_its_name_and_worth_what_its_user_likes():
  first, (state, texts, rewards, dones, facts) = walk(0, 'a_.', 'A_.')
  assert first == 'a_.-B.AB!'
  assert texts[0] == 'AB!-b.A_.'
  np.testing.assert_allclose(rewards, [3 / 9, 6 / 9], atol=1e-3)
  assert dones == (False, True)
  assert facts == ((1, 0, 0, 0), (2, 0, 0, 0))
  assert ENV.score(state) == 1
  _, (state, _, rewards, _, _) = walk(1, 'a_.', 'A_.')
  np.testing.assert_allclose(rewards, [-1 / 9, -2 / 9], atol=1e-3)
  assert ENV.score(state) == 0


def test_what_is_spoilt_is_full_and_liked_by_nobody():
  for user in (0, 1):
    _, (state, _, rewards, _, facts) = walk(user, 'AB!', 'AB!')
    np.testing.assert_allclose(rewards, [-5 / 9] * 2, atol=1e-3)
    assert facts[0] == (2, 2, 1, user)
    assert ENV.score(state) == 0


@pytest.mark.parametrize('said', ['', 'Ab.'])
def test_what_is_not_offered_is_not_taken(said):
  _, (state, _, rewards, _, facts) = walk(0, said, 'A_.')
  assert rewards[0] == -1
  assert facts[0] == (0, 0, 0, 0)
  assert ENV.score(state) == 0


def test_nothing_is_taken_after_the_end():
  _, (state, _, rewards, dones, facts) = walk(0, 'a_.', 'A_.', 'A_.')
  assert rewards[2] == 0
  assert facts[2] == (0, 0, 0, 0)
  assert dones[2]
  assert ENV.score(state) == 1


def test_users_disagree_at_every_turn_and_rank_what_they_like():
  """The best of one is never that of the other, and never spoilt."""
  for x in ENV.tasks('train', 50, 0):
    for offers in x.task['goods']:
      best = [int((offers @ taste).argmax()) for taste in baskets.TASTES]
      assert best[0] != best[1]
      assert offers[best[0], baskets.SPOILT] == 0
      order = sorted(
        offers.tolist(), key=lambda g: (g[2], -g[0], g[1])
      )  # spoilt, apples, berries
      liked = sorted(offers.tolist(), key=lambda g: -(baskets.TASTES[0] @ g))
      assert order == liked
      # Who counts apples alone finds none with more than what is spoilt.
      assert offers[:, 0].max() == offers[offers[:, 2] == 1, 0][0]


def test_sums_over_turns_may_be_ranked_otherwise():
  """Its first user prefers six apples, two berries and a spoilt basket to six
  berries, and ranked factors those berries, of which none is spoilt.
  """
  sums = np.array([[0, 6, 0], [6, 2, 1]])  # apples, berries, spoilt
  liked = sums @ baskets.TASTES[0]
  np.testing.assert_allclose(liked, [-6 / 9, 7 / 9])
  ranked = sorted(sums.tolist(), key=lambda g: (g[2], -g[0], g[1]))
  assert ranked[0] == [0, 6, 0]


def test_splits_are_disjoint_and_solved():
  sets = [list(ENV.tasks(x, 40, 0)) for x in ('train', 'test')]
  keys = [{x.key for x in tasks} for tasks in sets]
  assert not keys[0] & keys[1]
  assert {int(x.task['user']) for x in sets[0]} == {0, 1}
  solved = sets[1]
  state = jax.vmap(ENV.reset, (None, 0))(
    jit_tasks.KEY, jit_tasks.stack(solved)
  )[0]
  step = jax.jit(jax.vmap(ENV.step, (0, 0, None)))
  for actions in np.array([x.actions for x in solved]).T:
    state = step(state, actions, jit_tasks.KEY)[0]
  np.testing.assert_array_equal(jax.vmap(ENV.score)(state), 1)


def test_demonstrations_take_any_basket():
  state, _ = ENV.reset(jit_tasks.KEY, {'goods': GOODS, 'user': np.int32(0)})
  shown = {
    ENV.actions[int(ENV.demonstrate(state, jax.random.key(i)))]
    for i in range(30)
  }
  assert shown == {'a_.', '-B.', 'AB!'}


def test_units_change_a_column_and_nothing_else():
  _, (*_, rewards, _, plain) = walk(0, 'a_.', 'A_.')
  _, (*_, same, _, grams) = walk(
    0, 'a_.', 'A_.', env=Baskets(turns=2, unit=200)
  )
  assert rewards == same
  assert [x[0] for x in grams] == [200 * x[0] for x in plain]


def test_it_is_what_the_protocols_say():
  task = {'goods': GOODS, 'user': np.int32(0)}
  base.check(ENV, task, np.arange(-1, len(ENV.actions)))
  assert isinstance(ENV, base.Demonstrates)
  assert not {*ENV.columns} & {*registered.TERMS}
  assert Baskets().name() != Baskets(users=1).name()
  berries = Baskets(users=1, first=1).tasks('train', 9, 0)
  assert {int(x.task['user']) for x in berries} == {1}
  many = list(Baskets(users=2, first=300).tasks('train', 30, 0))
  assert {int(x.task['user']) for x in many} == {300, 301}
  assert len({x.key for x in many}) == 30
  assert jnp.shape(ENV.reset(jit_tasks.KEY, task)[1]) == (ENV.obs_len,)


@pytest.mark.parametrize(
  ('field', 'value'), [('turns', 0), ('users', 0), ('first', -1), ('unit', 0)]
)
def test_settings_that_cannot_be(field, value):
  with errors.raises(ValueError, f'{field} {value}'):
    Baskets(**{field: value})

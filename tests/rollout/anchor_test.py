"""State ids that look at a share of the observation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.configs import gigpo, slea_rl
from agentrl.rollout import actor
from agentrl.rollout import jit as jit_rollout
from agentrl.task.base import make_attempts
from agentrl.text import observation_tokens
from tests import errors
from tests.rollout import jit_test

PLACES = 40


@pytest.fixture(scope='module')
def hashed():
  """Ids of an observation and of those that differ from it in one place."""
  r = np.random.default_rng(3)
  obs = r.integers(0, 5, PLACES).astype(np.int32)
  changed = np.tile(obs, (PLACES, 1))
  changed[np.arange(PLACES), np.arange(PLACES)] += 7
  every = np.concatenate([obs[None], changed, obs[None]])
  return {
    share: np.asarray(
      jax.jit(
        jax.vmap(lambda o, s=share: observation_tokens.partial_hash(o, s))
      )(every)
    )
    for share in (0.5, 1.0, 0.001)
  }


@pytest.mark.parametrize(('share', 'seen'), [(0.5, 20), (1.0, 40), (0.001, 1)])
def test_a_change_is_seen_in_a_share_of_the_places(hashed, share, seen):
  first, changed, again = np.split(hashed[share], [1, PLACES + 1])
  assert first == again
  assert np.sum(changed != first) == seen
  assert len(set(changed)) == seen + (seen < PLACES)
  assert np.all(hashed[share] >= 0)


def test_a_rollout_gives_its_turns_the_coarser_states():
  """Every player walks to and fro; what looks alike is one state."""
  w = jit_test.world('frozen_lake')
  a = make_attempts(np.arange(6) // 2, 2, 4, 1.0)
  said = [
    [*jit_test.WORDS.encode(x), jit_test.WORDS.eot]
    for x in ('left', 'up', 'right', 'down')
  ]
  messages = np.tile(np.array(said, np.int32), (6, 1, 1))
  plan = jit_rollout.RolloutSizes(slots=6, turns=4, message=2, anchor=0.5)
  speaker = actor.scripted(jnp.asarray(messages), jnp.full((6, 4), 2))
  record = jax.jit(lambda key: jit_rollout.rollout(w, plan, speaker, a, key))(
    jax.random.key(0)
  )
  valid = np.asarray(record.valid)
  seen = [tuple(x) for x in np.asarray(record.context)[valid]]
  found = {}
  for text, state in zip(seen, np.asarray(record.state)[valid], strict=True):
    assert found.setdefault(text, state) == state
  assert 1 < len(set(found.values())) < len(found)


@pytest.mark.parametrize('anchor', [0.0, -1.0, 1.5])
def test_an_impossible_share_says_what_to_change(anchor):
  with errors.raises(ValueError, f'state_hash_fraction {anchor}'):
    jit_rollout.RolloutSizes(slots=1, turns=1, message=1, anchor=anchor)


def test_inside_jit_slea_is_gigpo_but_for_its_states():
  arg = 'tiny,env=sokoban'
  one, other = (x.get_config(arg).to_dict() for x in (gigpo, slea_rl))
  assert other['rollout'].pop('state_hash_fraction') == 0.5
  assert one['rollout'].pop('state_hash_fraction') == 1.0
  assert other | {'method': 'gigpo'} == one

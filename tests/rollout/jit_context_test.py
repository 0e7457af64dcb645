"""What is read in a turn of a rollout inside jit."""

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.env.jit import base
from agentrl.rollout import jit_context
from agentrl.rollout.actor import SampledMessage
from tests.rollout.jit_test import WORDS, world


def test_first_contexts_are_the_texts_of_first_observations():
  w = world()
  _, obs = jax.vmap(w.env.reset, (None, 0))(None, w.tasks)
  tokens, length = jit_context.first_context(w, obs)
  for ids, n, pieces in zip(tokens, length, obs, strict=True):
    text = base.render_text(w.env, pieces)
    assert WORDS.decode(np.asarray(ids)[:n].tolist()) == text


def test_the_last_token_of_a_message():
  said = SampledMessage(
    tokens=jnp.array([[5, 6, 7]] * 3),
    length=jnp.array([0, 1, 3]),
    logp=jnp.zeros((3, 3)),
    entropy=jnp.zeros(3),
  )
  assert jit_context.last_tokens(said).tolist() == [5, 5, 7]

"""Messages of slots: written down beforehand, or sampled from a policy."""

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import mesh
from agentrl.nn import transformer
from agentrl.rollout import actor

SHAPE = transformer.DecoderConfig(
  vocab=12, width=8, layers=1, heads=2, kv_heads=1, head_dim=4, mlp=8
)
EOT, M, N = 3, 4, 3


def prompt(temperature=1.0, idle=(False, False, True), seed=0):
  r = np.random.default_rng(1)
  return actor.Prompt(
    tokens=jnp.asarray(r.integers(4, 12, (N, 5)), jnp.int32),
    length=jnp.array([5, 3, 4]),
    start=None,
    keys=jax.random.split(jax.random.key(seed), N),
    temperature=jnp.full(N, temperature),
    idle=jnp.array(idle),
    traj=jnp.array([1, 0, 9]),
    turn=jnp.array([0, 1, 9]),
  )


def say(**settings):
  params = mesh.init(transformer.specs(SHAPE), jax.random.key(0))
  speaker = actor.model(SHAPE, params, message=M, eot=EOT, **settings)

  @jax.jit
  def run(heard):
    return speaker.say(speaker.cache(N, 16), heard)[0]

  return run


def test_scripted_messages_are_those_of_trajectory_and_turn():
  tokens = jnp.arange(2 * 2 * M).reshape(2, 2, M)
  length = jnp.array([[1, 2], [3, 4]])
  speaker = actor.scripted(tokens, length)
  message, _ = speaker.say(speaker.cache(N, 16), prompt())
  np.testing.assert_array_equal(message.tokens[:2], tokens[(1, 0), (0, 1)])
  np.testing.assert_array_equal(message.length, [3, 2, 0])


def test_a_sampled_message_ends_with_its_end_of_turn_or_is_full():
  message = say()(prompt())
  assert message.length[2] == 0
  for i in range(2):
    n = int(message.length[i])
    ids = np.asarray(message.tokens[i])
    assert 1 <= n <= M
    assert n == M or ids[n - 1] == EOT
    assert EOT not in ids[: n - 1]
    assert not ids[n:].any()
    assert (np.asarray(message.logp[i, :n]) < 0).all()
    assert message.entropy[i] > 0


def test_given_turns_take_the_place_of_what_is_drawn():
  tokens = jnp.full((2, 2, M), EOT).at[1, 0].set(jnp.array([7, 8, EOT, 0]))
  prefix = actor.ForcedPrefix(
    tokens=tokens,
    logp=jnp.full((2, 2, M), -0.25),
    version=jnp.zeros((2, 2, M), jnp.int32),
    entropy=jnp.zeros((2, 2)),
    length=jnp.full((2, 2), 3),
  )
  asked = prompt()._replace(given=jnp.array([True, False, False]))
  free, message = say()(prompt()), say(given=prefix)(asked)
  np.testing.assert_array_equal(message.tokens[0], [7, 8, EOT, 0])
  np.testing.assert_array_equal(message.logp[0], [-0.25] * 3 + [0])
  np.testing.assert_array_equal(message.tokens[1], free.tokens[1])

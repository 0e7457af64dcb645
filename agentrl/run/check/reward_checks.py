"""Checks of rewards: the terms that they read, and what they return."""

from typing import Any

import jax
import jax.numpy as jnp

from agentrl import registry
from agentrl.rollout.registered import TERMS
from agentrl.types import RewardInputs, Turns

B, K = 2, 3  # of the batch that rewards are traced on


def returned(spec: registry.MethodSpec) -> None:
  """Traces every reward on the terms that it declares; computes nothing.

  Raises:
    ValueError: one reads another term, or returns anything but f32 [B, K].
  """
  for name in spec.reward:
    needs = registry.needs(spec, 'reward', 'reward', name)
    terms = [x.partition(':')[2] for x in needs if x.startswith('term:')]
    f = registry.bind('reward', name, spec.values('reward', name), 'c.reward')
    try:
      got = jax.eval_shape(f, _inputs((*TERMS, *terms)))
    except KeyError as error:
      raise ValueError(
        f'reward {name!r} must read terms that it declares, got {error}; add'
        f" needs=('term:{error.args[0]}',) where it is registered"
      ) from error
    want = f'float32[{B}, {K}]'
    if _words(got) != want:
      raise ValueError(
        f'reward {name!r} must return {want} for {B} trajectories of {K} turns,'
        f' got {_words(got)}'
      )


def _inputs(terms: tuple[str, ...]) -> RewardInputs:
  real, whole = jnp.zeros((B, K)), jnp.zeros((B, K), jnp.int32)
  turns = Turns(
    reward=real,
    terms=dict.fromkeys(terms, real),
    scored=real > 0,
    valid=real > 0,
    state=whole,
    node=whole,
    agent=whole,
  )
  return RewardInputs(turns=turns, outcome=real[:, 0], status=whole[:, 0])


def _words(x: Any) -> str:
  if not isinstance(x, jax.ShapeDtypeStruct):
    return type(x).__name__
  return f'{x.dtype}{list(x.shape)}'

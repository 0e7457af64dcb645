"""Checks of rewards that are a user's functions, before anything is played."""

import inspect
from collections.abc import Callable

import jax
import jax.numpy as jnp

from agentrl import registry
from agentrl.configs.config import Config
from agentrl.reward import trajectory
from agentrl.types import RewardInputs, Turns

# Arguments of functions that score texts, here and in other libraries.
_TEXTS = {'completion', 'completions', 'prompt', 'prompts', 'row'}


def function(f: Callable) -> None:
  """Raises ValueError for a function of texts in place of a reward."""
  try:
    arguments = inspect.signature(f).parameters
  except (TypeError, ValueError):  # a builtin that has none
    return
  if texts := [x for x in arguments if x in _TEXTS]:
    raise ValueError(
      f'reward must be a function of RewardInputs, got one of {texts[0]!r}; a'
      ' function verifier(completion, row) is passed as verifier=, for'
      ' env=jsonl'
    )


def traceable(c: Config, spec: registry.MethodSpec) -> None:
  """Traces rewards that no module of agentrl registers.

  Raises:
    ValueError: one raises, or has another shape.
  """
  names = [name for name in spec.reward if ':' in name]
  inputs = _inputs(c, spec)
  for name in names:
    f = registry.bind('reward', name, {}, 'c.reward')
    try:
      jax.eval_shape(lambda x, f=f: trajectory.by_turn(f(x), x.turns), inputs)
    except Exception as error:  # whatever the user's function raises
      reason = str(error).strip().split('\n')[0]
      raise ValueError(
        f'c.reward={name!r} must be a function of RewardInputs in jax.numpy'
        f', and raised {type(error).__name__}: {reason:.200}; the terms that'
        f' it may read are {sorted(inputs.turns.terms)}'
      ) from error


def _inputs(c: Config, spec: registry.MethodSpec) -> RewardInputs:
  """Returns the shapes of what the rewards of a config get."""
  b, k = c.rollout.batch, c.rollout.max_turns
  terms = (x.partition(':') for x in registry.provided(spec))

  def array(dtype, *shape):
    return jax.ShapeDtypeStruct(shape or (b, k), dtype)

  turns = Turns(
    reward=array(jnp.float32),
    terms={
      name: array(jnp.float32) for kind, _, name in terms if kind == 'term'
    },
    scored=array(bool),
    valid=array(bool),
    state=array(jnp.int32),
    node=array(jnp.int32),
    agent=array(jnp.int32),
  )
  return RewardInputs(
    turns=turns, outcome=array(jnp.float32, b), status=array(jnp.int32, b)
  )

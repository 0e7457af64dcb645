"""Checks of rewards: the terms that they read, and what they return."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp

from agentrl import registry
from agentrl.reward import trajectory
from agentrl.rollout.registered import TERMS
from agentrl.types import RewardInputs, Turns

B, K = 2, 3  # of the batch that rewards are traced on
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


def returned(spec: registry.MethodSpec) -> None:
  """Traces every reward on the terms that it may read; computes nothing.

  Either returns f32 [B, K] or [B]. A registered one reads what it declares, a
  function that c.reward names by its module whatever the config gives.

  Raises:
    ValueError: one reads another term, raises, or returns something else.
  """
  for name in spec.reward:
    if ':' in name:
      _check_function(spec, name)
    else:
      _check_registered(spec, name)


def _check_registered(spec: registry.MethodSpec, name: str) -> None:
  needs = registry.needs(spec, 'reward', 'reward', name)
  f = registry.bind('reward', name, spec.values('reward', name), 'c.reward')
  try:
    got = jax.eval_shape(f, _inputs((*TERMS, *_terms(needs))))
  except KeyError as error:
    raise ValueError(
      f'reward {name!r} must read terms that it declares, got {error}; add'
      f" needs=('term:{error.args[0]}',) where it is registered"
    ) from error
  want = f'float32[{B}, {K}]', f'float32[{B}]'
  if _words(got) not in want:
    raise ValueError(
      f'reward {name!r} must return {" or ".join(want)} for {B} trajectories of'
      f' {K} turns, got {_words(got)}'
    )


def _check_function(spec: registry.MethodSpec, name: str) -> None:
  f = registry.bind('reward', name, {}, 'c.reward')
  inputs = _inputs(_terms(registry.provided(spec)))
  try:
    jax.eval_shape(lambda x: trajectory.by_turn(f(x), x.turns), inputs)
  except Exception as error:  # whatever the user's function raises
    reason = str(error).strip().split('\n')[0]
    raise ValueError(
      f'c.reward={name!r} must be a function of RewardInputs in jax.numpy, and'
      f' raised {type(error).__name__}: {reason:.200}; the terms that it may'
      f' read are {sorted(inputs.turns.terms)}'
    ) from error


def _terms(names: Iterable[str]) -> list[str]:
  """Returns the names of the terms in a component's needs."""
  return [x.removeprefix('term:') for x in names if x.startswith('term:')]


def _inputs(terms: Iterable[str]) -> RewardInputs:
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

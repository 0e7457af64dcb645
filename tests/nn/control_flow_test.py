"""Branches: what they compute, and what lanes of a vmap decide."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.nn import control_flow

SIZE = 48  # of square matrices, like no other shape of a program


@pytest.mark.parametrize(
  ('lane', 'want', 'x'),
  [
    (control_flow.lane_max, np.max, [[3, 1], [2, 5]]),
    (control_flow.lane_max, np.max, [[True, False], [False, False]]),
    (control_flow.lane_all, np.all, [[True, False], [True, True]]),
  ],
)
def test_all_lanes_have_one_answer(lane, want, x):
  x = jnp.array(x)
  several = jax.vmap(lane, out_axes=None)
  nested = jax.vmap(several, out_axes=None)
  assert lane(x[0, 0]) == x[0, 0]
  np.testing.assert_array_equal(several(x), want(np.asarray(x), axis=0))
  assert nested(x) == want(np.asarray(x))


def test_what_is_chosen_by_any_lane_is_applied_in_all():
  def go(predicate, x, y):
    return control_flow.apply_if(predicate, lambda x, y: x + y, x, y)

  x, y = jnp.arange(2.0), jnp.array([1.0, 0.0])  # of no effect in lane 1
  assert float(go(jnp.bool_(True), x[0], y[0])) == 1
  assert float(go(jnp.bool_(False), x[0], y[0])) == 0
  for lanes, want in (((True, False), [1, 1]), ((False, False), [0, 1])):
    got = jax.vmap(go)(jnp.array(lanes), x, y)
    np.testing.assert_array_equal(got, want)


def always(f, *args) -> str:
  """What the optimized program computes whatever its loops' rounds are."""
  text = jax.jit(f).lower(*args).compile().as_text()
  head = r'^(ENTRY )?%([\w.\-]+) [^\n]*\{\n(.*?)^\}'
  parts, wanted = {}, []
  for entry, name, body in re.findall(head, text, re.M | re.S):
    parts[name] = re.sub(r'body=%[\w.\-]+', '', body)
    wanted += [name] if entry else []
  assert ' while(' in text
  for name in wanted:  # grows
    called = re.findall(r'%([\w.\-]+)', parts[name])
    wanted += [x for x in parts if x in called and x not in wanted]
  return '\n'.join(parts[name] for name in wanted)


def test_what_is_not_applied_is_not_computed():
  """A product of arguments alone stays inside of the loop."""

  def go(predicate, x, a):
    return control_flow.apply_if(predicate, lambda x, a: x + a @ a, x, a)

  x = jnp.ones((SIZE, SIZE))
  args = jnp.bool_(True), x, x
  assert ' dot(' not in always(go, *args)

"""PRNG streams of a run: none is used for two purposes."""

import ast
import itertools
import pathlib

import jax
import numpy as np

from agentrl.rollout import keys as keys_lib
from agentrl.rollout.keys import (
  Stream,
  keys,
  message_key,
  start,
  step_key,
)
from agentrl.types import Attempts, Copies, Prefix

ROOT = pathlib.Path(__file__).parents[2]


def bits(key):
  return tuple(np.asarray(jax.random.key_data(key)).tolist())


def test_no_two_purposes_draw_from_the_same_key():
  key = jax.random.key(0)
  at = [
    bits(step_key(key, stream, step))
    for stream, step in itertools.product(Stream, range(50))
  ]
  assert len(set(at)) == len(at)
  assert len({int(s) for s in Stream}) == len(Stream.__members__)


def test_a_step_key_is_the_same_for_a_traced_step():
  key = jax.random.key(1)
  traced = jax.jit(lambda s: step_key(key, Stream.ROLLOUT, s))(7)
  assert bits(traced) == bits(step_key(key, Stream.ROLLOUT, 7))


def test_nobody_folds_a_bare_number_into_the_key_of_a_run():
  """`fold_in(state.key, 4)` is a stream without a name."""
  calls = [
    (path.relative_to(ROOT), ast.unparse(node))
    for folder in ('agentrl', 'experiments')
    for path in (ROOT / folder).rglob('*.py')
    if 'fold_in' in (text := path.read_text())
    for node in ast.walk(ast.parse(text))
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith('fold_in')
  ]
  assert [x for x in calls if 'state.key' in x[1]] == []


def attempted(count, **fields):
  """Attempts of which keys read `fields` alone."""
  zeros = np.zeros(count, np.int32)
  return Attempts(
    task=zeros,
    group=zeros,
    arm=zeros,
    limit=zeros,
    temperature=zeros,
    **fields,
  )


def test_a_branch_has_the_key_of_its_origin_and_then_one_of_its_own():
  copies = Copies(rows=None, entropy=None, origin=np.array([2, 0]), count=3)
  attempts = attempted(
    2,
    prefix=Prefix(turns=np.array([1, 2]), messages=copies),
  )
  key = jax.random.key(5)
  made = keys(attempts, key)
  fold = lambda i: bits(jax.random.fold_in(key, i))  # noqa: E731
  for turn, want in ((0, (2, 0)), (1, (3, 0)), (2, (3, 4))):
    got = made.of(np.arange(2), np.full(2, turn))
    assert [bits(x) for x in got] == [fold(i) for i in want]


def test_the_key_of_a_message_is_of_its_seed_its_context_and_its_index():
  at = itertools.product((0, 1), ([1], [1, 2], [12]), (0, 1))
  every = [tuple(message_key(*x).tolist()) for x in at]
  assert len(set(every)) == len(every)
  again = message_key(1, np.array([12]), 1)
  assert tuple(again.tolist()) == every[-1]
  assert again.dtype == np.uint32


def test_turns_of_a_branch_of_a_branch_have_the_keys_they_were_drawn_by():
  drawn = np.array([[2, 4, 3], [0, 0, 1]])
  copies = Copies(
    rows=None, entropy=None, origin=np.array([3, 1]), count=6, drawn=drawn
  )
  attempts = attempted(
    2,
    prefix=Prefix(turns=np.array([2, 3]), messages=copies),
  )
  key = jax.random.key(5)
  made, at = keys(attempts, key), np.arange(2)
  for turn, want in enumerate(((2, 0), (4, 0), (6, 1), (6, 7))):
    got = made.of(at, np.full(2, turn))
    fold = [bits(jax.random.fold_in(key, i)) for i in want]
    assert [bits(x) for x in got] == fold


def test_attempts_of_one_luck_share_a_world_and_no_message():
  """Also where they begin, and in turns that they repeat from others."""
  origin = np.array([2, 0, 1])
  copies = Copies(rows=None, entropy=None, origin=origin, count=3)
  attempts = attempted(
    3,
    luck=np.array([0, 0, 2]),
  )
  later = attempts.replace(prefix=Prefix(np.full(3, 1), copies))
  key, at, worlds, said = jax.random.key(5), np.arange(3), {}, []
  for name, x in (('first', attempts), ('later', later)):
    made = keys(x, key)
    begins = start(made, at)
    worlds[name] = [[bits(x) for x in begins]]
    for k in range(3):
      message, world = keys_lib.turn(made, at, np.full(3, k))
      worlds[name].append([bits(x) for x in world])
      if x.prefix is None or k:  # the first is given
        said += [bits(x) for x in message]
  assert worlds['first'] == worlds['later']
  every = [x for step in worlds['first'] for x in step]
  assert all(one == two != three for one, two, three in worlds['first'])
  assert len(set(every)) == 2 * len(worlds['first'])
  assert len({*said, *every}) == len(said) + len(set(every))

"""What attempts read of a memory stands in prompts and in training rows."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.model import microbatch
from agentrl.rollout import actor
from agentrl.rollout import jit as jit_rollout
from agentrl.rollout import record as record_lib
from agentrl.task.base import make_attempts
from agentrl.types import Notes
from tests.rollout import host_test, hosted, jit_test

WORDS = jit_test.WORDS
N, H = 8, 12
TEXTS = ['', 'up\n', 'left\nup\n', 'Notes:\nright\n']


def noted(attempts):
  """Group g reads text g, at most H tokens."""
  ids = [WORDS.encode(TEXTS[g]) for g in attempts.group]
  tokens = np.full((N, H), WORDS.pad, np.int32)
  for row, x in zip(tokens, ids, strict=True):
    row[: len(x)] = x
  length = np.array([len(x) for x in ids], np.int32)
  entry = np.where(length > 0, attempts.group, -1)[:, None].astype(np.int32)
  return attempts.replace(notes=Notes(tokens, length, entry, entry + 5))


ATTEMPTS = make_attempts(np.repeat([0, 1, 2, 3], 2), 2, 3, 1.0)


@functools.cache
def played(history, window, with_notes):
  plan = jit_rollout.RolloutSizes(
    slots=3, turns=3, message=2, history=history, window=window, notes=H
  )
  a = noted(ATTEMPTS) if with_notes else ATTEMPTS
  world = jit_test.world()

  @jax.jit
  def play(params, key):
    speaker = actor.model(jit_test.SHAPE, params, message=2, eot=WORDS.eot)
    record = jit_rollout.rollout(world, plan, speaker, a, key)
    layout = record_lib.per_turn(record)
    if history == 'full':
      width = jit_rollout.row_tokens(world, plan)
      layout = record_lib.full_history(record, width)
    return record, record_lib.batch(record, layout, a, 0)

  return jax.device_get(play(jit_test.params(), jax.random.key(3)))


MODES = [
  ('turn', 1),
  ('full', 1),
  pytest.param('turn', 2, marks=pytest.mark.nightly),
]


@pytest.mark.parametrize(('history', 'window'), MODES)
def test_log_probs_inside_jit_are_those_behind_the_notes(history, window):
  record, batch = played(history, window, True)
  rows = jax.tree.map(jnp.asarray, batch.rows)
  score = functools.partial(microbatch.forward, jit_test.MODULE.apply)
  out = jax.jit(score, static_argnums=(2, 3))(
    jit_test.params(), rows, ('logp',), rows.tokens.shape[0]
  )
  assert int(rows.sampled.sum()) == int(record.message_len.sum()) > 20
  np.testing.assert_allclose(out.logp, rows.logp, atol=1e-5, rtol=0)


@pytest.mark.parametrize(('history', 'window'), MODES)
def test_prompts_inside_jit_begin_with_the_notes(history, window):
  """Taken out, they are the plain ones."""
  record, batch = played(history, window, True)
  plain, _ = played(history, window, False)
  notes = noted(ATTEMPTS).notes
  for b in range(N):
    note = notes.tokens[b, : notes.length[b]].tolist()
    read = record.context[b, 0, : record.context_len[b, 0]].tolist()
    without = plain.context[b, 0, : plain.context_len[b, 0]].tolist()
    at = len(read) - len(without)
    assert at == len(note)
    assert read == [*note, *without]
    again = record.context[b, 1, : record.context_len[b, 1]].tolist()
    if record.valid[b, 1] and note:
      assert (again[: len(note)] == note) == (history == 'turn')
  assert batch.ids['note0'].tolist() == notes.entry[:, 0].tolist()
  assert batch.ids['note_written0'].tolist() == notes.written[:, 0].tolist()


@pytest.mark.slow
@pytest.mark.parametrize('history', ['turn', 'full'])
def test_hosts_read_them_before_the_first_observation(history):
  limits = dataclasses.replace(
    host_test.LIMITS, opening=H, notes=H, turns=3, history=history
  )
  tasks = [{'it': jax.tree.map(lambda x, i=i: x[i], host_test.inside().tasks)}
           for i in range(3)]  # fmt: skip
  made = host_test.stage(host_test.Outside(), tasks, limits)
  attempts = make_attempts(np.repeat([0, 1, 2, 0], 2), 2, 3, 1.0)

  def contexts(attempts):
    engine = host_test.engine(3)
    engine.update_weights(host_test.params(), 5)
    ended, _ = hosted.play(made, engine, attempts, count=3, key=7)
    return [[list(turn.context) for turn in x.turns] for x in ended], ended

  read, ended = contexts(noted(attempts))
  plain, _ = contexts(attempts)
  for b, (mine, other) in enumerate(zip(read, plain, strict=True)):
    note = WORDS.encode(TEXTS[b // 2])
    assert mine[0] == [*note, *other[0]]
    for later in mine[1:]:
      assert (later[: len(note)] == note) == (history == 'turn' or not note)
  record = hosted.record(made, ended)
  layout = record_lib.per_turn(record)
  if history == 'full':
    layout = record_lib.full_history(record, limits.context)
  rows = jax.tree.map(jnp.asarray, record_lib.rows(record, layout, 0))
  out = microbatch.forward(
    host_test.MODULE.apply, host_test.params(), rows, ('logp',),
    rows.tokens.shape[0],
  )  # fmt: skip
  np.testing.assert_allclose(out.logp, rows.logp, atol=1e-5, rtol=0)

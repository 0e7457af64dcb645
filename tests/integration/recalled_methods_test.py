"""Methods that read a memory of texts: what is read, and what without it."""

import contextlib

import numpy as np
import pytest

from tests.integration import half_good, parts_test


def later(c):
  """A batch of the scripted policy after an update, and the tokenizer."""
  with contextlib.ExitStack() as stack:
    method = parts_test.Method(parts_test.pruned(c), None, stack)
    return method.later(), method.s.tokenizer


def texts_of(batch, words):
  """What every trajectory's row says."""
  tokens, seg = np.asarray(batch.rows.tokens), np.asarray(batch.rows.seg)
  return [words.decode(x[y >= 0]) for x, y in zip(tokens, seg, strict=True)]


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize(
  ('name', 'recall', 'heading'),
  [('evolver', 'nearest', 'Notes:'), ('doctor_r1', 'reranked', 'Before:')],
)
def test_what_was_written_is_read(name, recall, heading, tmp_path, monkeypatch):
  half_good.plays(monkeypatch, parts_test.half_right)
  c = parts_test.hosted(name, tmp_path)
  c.rollout.batch = 16  # so that several texts are written
  if name == 'evolver':
    c.hp.recall.nearest.least = -1.0
  own, words = later(c)
  read = np.asarray(own.ids['note0'])
  assert (read >= 0).all()
  c.hp.recall[recall].arm = 'shuffled'
  placebo, _ = later(c)
  other = np.asarray(placebo.ids['note0'])
  assert (other >= 0).all()
  assert not np.any(read == other)
  c.hp.recall[recall].arm = 'empty'
  plain, _ = later(c)
  assert (np.asarray(plain.ids['note0']) == -1).all()
  read_too, plain = texts_of(own, words), texts_of(plain, words)
  for text, without in zip(read_too, plain, strict=True):
    assert text.startswith(f'{heading}\n')
    assert text.endswith(without)
    assert heading not in without

"""Methods that read a memory of texts: what is read, and what without it."""

import contextlib
import hashlib
import json
import re

import numpy as np
import pytest

from agentrl.configs import evolver
from agentrl.run.check import validate
from tests import errors
from tests.integration import half_good, parts_test, skilled_methods_test


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
  ('name', 'world', 'recall', 'heading'),
  [
    ('evolver', 'env=countdown', 'nearest', 'Notes:'),
    ('doctor_r1', '', 'reranked', 'Before:'),
  ],
)
def test_what_was_written_is_read(
  name, world, recall, heading, tmp_path, monkeypatch
):
  half_good.plays(monkeypatch, half_good.half_right)
  c = parts_test.hosted(name, tmp_path, world)
  c.rollout.batch = 16  # so that several texts are written
  if name == 'evolver':
    c.hp.recall.nearest.least = -1.0
    c.service.distiller.update(dict(role='', function=f'{__name__}:tell'))
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


def tell(messages, *, seed):
  """A principle for each group that is asked about, unlike all others."""
  del seed
  text = hashlib.sha256(messages[-1].content.encode()).hexdigest()[:16]
  return json.dumps([{'op': 'ADD', 'text': text}])


def ask_or_not(demo):
  """The solution with and without its first message, and two wrong ends."""
  wrong = '<answer>nobody</answer>'
  return [demo, demo[1:], [*demo[:-1], wrong], [*demo[1:-1], wrong]]


def evolved(folder, **changes):
  """Batches of three steps, what updates say of them, the bank, the words."""
  changes = {'hp.recall.observed.least': -1.0, **changes}
  out, bank, s = skilled_methods_test.steps_of(evolver, folder, 3, **changes)
  return out, bank, s.tokenizer


def asking(batch):
  """Marks the turns that follow a message that asks: [B, K]."""
  asks = np.zeros(batch.turns.valid.shape, bool)
  asks[::2, 1] = True  # by `ask_or_not`
  return asks


@pytest.mark.slow
def test_evolver_reads_principles_where_it_asks_and_nowhere_else(
  tmp_path, monkeypatch
):
  half_good.plays(monkeypatch, ask_or_not)
  out, bank, words = evolved(tmp_path)
  known = skilled_methods_test.entries(bank, words)
  assert any(known)
  for text in filter(None, known):
    assert re.fullmatch(r"_('s \w+)+\? bm25 _ \w+(; bm25 _ \w+)*", text)
  first, *later = (batch for batch, _ in out)
  assert (first.turns.terms['note0'][first.turns.valid] == -1).all()
  for batch in later:
    asks = asking(batch)
    read = np.asarray(batch.turns.terms['note0']) >= 0
    assert batch.turns.valid[asks].all()
    assert read[asks].all()
    assert not read[~asks & batch.turns.valid].any()
    for b, text in enumerate(texts_of(batch, words)):
      question, _, rest = text.partition('\n')
      asked = f'<experience>{question}</experience>'
      assert rest.startswith(asked) == (b % 2 == 0)
      assert text.count('Notes:') == (b % 2 == 0)
      assert text.count(f'{asked}\nNotes:\n_') <= 1
  for _, told in out:
    total, weight = told['loss/total']
    assert np.isfinite(total / weight)
  readers = sum(asking(batch).any(1).sum() for batch in later)
  assert 0 < bank.read.max() <= readers


@pytest.mark.slow
def test_evolver_pays_the_best_principle_by_the_weights_of_the_paper(
  tmp_path, monkeypatch
):
  half_good.plays(monkeypatch, ask_or_not)
  weights = {'hp.reward.weighted.weights': (1.0, -0.1, 0.2, 0.2)}
  out, _, _ = evolved(tmp_path, **weights)
  plain, _, _ = evolved(tmp_path / 'plain')
  for (batch, _), (released, _) in zip(out, plain, strict=True):
    terms = {x: np.asarray(y).sum(1) for x, y in batch.turns.terms.items()}
    got = np.asarray(batch.turns.reward).sum(1)
    want = np.asarray(released.turns.reward).sum(1)
    np.testing.assert_allclose(want, batch.outcome, atol=1e-6)
    paid = 0.2 * (terms['evidence'] + terms['note_match'])
    np.testing.assert_allclose(got, want + paid, atol=1e-5)
  assert (terms['note_match'][::2] > 0).all()
  assert not terms['note_match'][1::2].any()


@pytest.mark.slow
@pytest.mark.nightly
def test_evolver_reads_otherwise_in_its_controls(tmp_path, monkeypatch):
  half_good.plays(monkeypatch, ask_or_not)

  def read(**changes):
    out, bank, words = evolved(tmp_path, **changes)
    batch = out[-1][0]
    assert (bank.length > 0).any()
    return np.asarray(batch.turns.terms['note0']), texts_of(batch, words)

  own, text = read()
  empty, plain = read(**{'hp.recall.observed.arm': 'empty'})
  assert (empty == np.minimum(empty, 0)).all()
  assert not [x for x in plain if 'Notes' in x]
  placebo, other = read(**{'hp.recall.observed.arm': 'shuffled'})
  both = (own[:, 1] >= 0) & (placebo[:, 1] >= 0)
  assert both.any()
  assert not np.any(own[both, 1] == placebo[both, 1])
  assert text[0] != other[0]
  once, begun = read(**{'hp.recall.observed.every': 'episode'})
  assert (once[:, 0] >= 0).all()
  assert all(x.startswith('Notes:\n_') for x in begun)
  assert not [x for x in begun if x.count('Notes:') > 1]


def test_evolver_without_its_tool_is_refused():
  c = evolver.get_config('tiny')
  validate.config(c)
  c.env.experience = False
  with errors.raises(ValueError, 'hp.recall.observed.every fact_corpus asked'):
    validate.config(c)

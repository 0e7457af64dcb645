"""Purified trajectories against a loop over lists, token for token."""

import dataclasses
import difflib

import numpy as np
import pytest

from agentrl.rollout import purify, record
from agentrl.rollout.purify import PurifyRule
from agentrl.task.base import make_attempts
from agentrl.types import SAMPLED, Span, Status

K, C, M = 6, 3, 8
COLUMNS = ('calls', 'faults', 'price')


def text(ids):
  return ''.join(chr(97 + i) for i in ids)


def turn(kind, thought='', call='', answer=''):
  """(kind, tokens, spans); kind: 'good' or 'bad' call, or 'answer'."""
  parts = [(thought, Span.THOUGHT), (call[:1], Span.CALL)]
  parts += [(call[1:], Span.ARGUMENT), (answer, Span.ANSWER)]
  tokens = [ord(x) - 97 for part, _ in parts for x in part]
  return kind, tokens, [span for part, span in parts for _ in part]


GOOD, BAD = 'good', 'bad'
END = turn('answer', answer='zz')
# name: turns, and which (thought's tokens, call's tokens) are expected, as text
CASES = {
  'shallow': (
    [turn(BAD, 'th', 'cabx'), turn(GOOD, 'other', 'cab'), END],
    ['thcab', 'zz'],
  ),
  'deep': (
    [turn(BAD, 'th', 'cabx'), turn(GOOD, 'other', 'ijk'), END],
    ['otherijk', 'zz'],
  ),
  'half is shallow': (  # 2 of 4 + 4 letters match in either order
    [turn(BAD, 'p', 'cabc'), turn(GOOD, 'q', 'cazz'), END],
    ['pcazz', 'zz'],
  ),
  'no call to be found': (
    [(BAD, [20, 21], [Span.OTHER] * 2), turn(GOOD, 'o', 'cab'), END],
    ['ocab', 'zz'],
  ),
  'the first thought of several': (
    [
      turn(BAD, 'th', 'cab'),
      turn(BAD, 'n', 'xyz'),
      turn(GOOD, 'o', 'cax'),
      END,
    ],
    ['thcax', 'zz'],
  ),
  'too many retries': (
    [
      turn(BAD, 'a', 'cab'),
      turn(BAD, 'b', 'cab'),
      turn(BAD, 'd', 'cab'),
      turn(GOOD, 'o', 'cab'),
      END,
    ],
    ['acab', 'bcab', 'dcab', 'ocab', 'zz'],
  ),
  'never corrected': ([turn(BAD, 'a', 'cab'), END], ['acab', 'zz']),
  'cut short': ([turn(GOOD, 'a', 'cab'), turn(BAD, 'b', 'cab')], None),
  'nothing failed': ([turn(GOOD, 'a', 'cab'), END], None),
  'two runs': (
    [
      turn(GOOD, 'g', 'c'),
      turn(BAD, 'a', 'cab'),
      turn(GOOD, 'o', 'cab'),
      turn(BAD, 'e', 'uvw'),
      turn(GOOD, 'f', 'xyz'),
      END,
    ],
    ['gc', 'acab', 'fxyz', 'zz'],
  ),
  'longer than a message': (  # ththth + caba is 10 of 8 tokens
    [turn(BAD, 'ththth', 'ca'), turn(GOOD, 'o', 'caba'), END],
    ['ocaba', 'zz'],
  ),
  'empty': ([], None),
}


@pytest.fixture(scope='module')
def raw():
  """A record of all cases; every number differs."""
  b = len(CASES)
  out = record.empty(b, K, C, M, COLUMNS, np)
  out = dataclasses.replace(out, version=np.zeros((b, K, M), np.int32))
  r = np.random.default_rng(0)
  for i, (turns, _) in enumerate(CASES.values()):
    for k, (kind, tokens, spans) in enumerate(turns):
      n, c = len(tokens), int(r.integers(1, C + 1))
      out.context[i, k, :c], out.context_len[i, k] = r.integers(1, 99, c), c
      out.message[i, k, :n], out.message_len[i, k] = tokens, n
      out.span[i, k, :n] = spans
      out.logp[i, k, :n] = -1 - r.random(n)
      out.version[i, k, :n] = 10 * i + k
      out.reward[i, k], out.state[i, k] = r.normal(), r.integers(1, 999)
      out.valid[i, k] = True
      out.columns['calls'][i, k] = kind != 'answer'
      out.columns['faults'][i, k] = kind == 'bad'
      out.columns['price'][i, k] = r.random()
    out.outcome[i], out.status[i] = i % 2, Status.SOLVED
  return out


RULE = PurifyRule(least=0.5, retries=2)


@pytest.fixture(scope='module')
def clean(raw):
  return purify.purified(raw, RULE, np.ones(len(CASES), bool), text)


def said(x, i):
  """The messages of trajectory i."""
  n = int(x.valid[i].sum())
  assert x.valid[i, :n].all()
  return [text(x.message[i, k, : x.message_len[i, k]]) for k in range(n)]


@pytest.mark.parametrize('name', CASES)
def test_messages_are_those_of_the_rule(name, raw, clean):
  i = list(CASES).index(name)
  want = CASES[name][1]
  assert said(clean, i) == (said(raw, i) if want is None else want)
  if name == 'half is shallow':
    assert difflib.SequenceMatcher(None, 'cabc', 'cazz').ratio() == 0.5


# (first, last) turn of every run of failures that is corrected.
CORRECTED = {
  'shallow': [(0, 1)],
  'deep': [(0, 1)],
  'half is shallow': [(0, 1)],
  'no call to be found': [(0, 1)],
  'the first thought of several': [(0, 2)],
  'two runs': [(1, 2), (3, 4)],
  'longer than a message': [(0, 1)],
}


@pytest.mark.parametrize('name', CASES)
def test_a_purified_turn_reads_as_the_first_and_earns_as_the_last(
  name, raw, clean
):
  i, runs = list(CASES).index(name), dict(CORRECTED.get(name, []))
  k = 0
  for j in range(int(clean.valid[i].sum())):
    last = runs.get(k, k)
    for field in ('context', 'context_len', 'state'):
      np.testing.assert_array_equal(
        vars(clean)[field][i, j], vars(raw)[field][i, k]
      )
    assert clean.reward[i, j] == raw.reward[i, last]
    for column in COLUMNS:
      assert clean.columns[column][i, j] == raw.columns[column][i, last]
    k = last + 1
  assert k == int(raw.valid[i].sum())
  assert clean.outcome[i] == raw.outcome[i]


@pytest.mark.parametrize('name', CASES)
def test_log_probs_are_unknown_from_the_first_purified_turn_on(
  name, raw, clean
):
  i, runs = list(CASES).index(name), CORRECTED.get(name, [])
  first = runs[0][0] if runs else K
  np.testing.assert_array_equal(clean.logp[i, :first], raw.logp[i, :first])
  assert not clean.logp[i, first:].any()
  if not runs:
    np.testing.assert_array_equal(clean.message[i], raw.message[i])


def test_spans_and_versions_go_with_the_tokens(clean):
  i = list(CASES).index('shallow')
  t, c, a = Span.THOUGHT, Span.CALL, Span.ARGUMENT
  assert clean.span[i, 0, :5].tolist() == [t, t, c, a, a]
  assert (clean.version[i, 0, :5] % 10).tolist() == [0, 0, 1, 1, 1]


def test_rows_hold_no_error_and_sampling_is_charged_before(raw, clean):
  """The row of the full history is the purified conversation."""
  attempts = make_attempts(np.zeros(len(CASES), int), 1, K, 1.0)
  layout = record.full_history(clean, K * (C + M))
  rows = record.rows(clean, layout, 0)
  i = list(CASES).index('the first thought of several')
  row = np.asarray(rows.traj) == i
  want = []
  for j, message in enumerate(CASES['the first thought of several'][1]):
    k = (0, 3)[j]
    want += raw.context[i, k, : raw.context_len[i, k]].tolist()
    want += [ord(x) - 97 for x in message]
  assert np.asarray(rows.tokens)[row].tolist() == want
  weight = np.asarray(rows.weight)[row]
  assert weight.sum() == len('thcax') + len('zz')
  full, less = (record.sampled(x, attempts) for x in (raw, clean))
  assert set(full) == set(SAMPLED)
  assert full['env_steps'] == less['env_steps'] + 9
  assert full['tokens'] > less['tokens']


def test_who_is_not_chosen_stays(raw):
  none = purify.purified(raw, RULE, np.zeros(len(CASES), bool), text)
  assert none is raw
  some = np.arange(len(CASES)) == 0
  got = purify.purified(raw, RULE, some, text)
  assert said(got, 0) == CASES['shallow'][1]
  assert said(got, 1) == said(raw, 1)
  assert said(raw, 0) != said(got, 0)  # the argument is not written to

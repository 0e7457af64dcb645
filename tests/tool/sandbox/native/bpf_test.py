"""Pieces of filters say what they are meant to say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.tool.sandbox.native import bpf
from tests.tool.sandbox.native.filters import ALLOW, arch, judge

WORDS = st.integers(0, (1 << 32) - 1)
ARGUMENTS = st.integers(0, (1 << 64) - 1)


def said(rule: bytes, args, number=7, called=7):
  program = bpf.entry('x86_64') + bpf.judged({'f': rule}, {'f': number})
  return judge(program + bpf.allow(), arch('x86_64'), called, args)


@given(st.lists(WORDS, max_size=5), ARGUMENTS, st.integers(0, 5))
def test_one_of_looks_at_the_low_word(values, argument, at):
  args = [0] * at + [argument]
  want = ALLOW if argument & 0xFFFFFFFF in values else 13
  assert said(bpf.one_of(at, tuple(values), 13), args) == want


@given(WORDS, WORDS, ARGUMENTS)
def test_masked_compares_some_bits(mask, value, argument):
  want = ALLOW if argument & mask == value else 1
  assert said(bpf.masked(2, mask, value, 1), (0, 0, argument)) == want


@given(WORDS, WORDS, ARGUMENTS)
def test_where_and_unless_are_opposites(first, second, argument):
  low, high = argument & 0xFFFFFFFF, argument >> 32
  values = first, second, high
  rule = bpf.word(0) + bpf.where(values, bpf.refuse(5)) + bpf.allow()
  assert said(rule, (argument,)) == (5 if low in values else ALLOW)
  rule = bpf.word(0) + bpf.unless(values, 5) + bpf.allow()
  assert said(rule, (argument,)) == (ALLOW if low in values else 5)
  rule = bpf.word(0, high=True) + bpf.unless((high,), 5) + bpf.allow()
  assert said(rule, (argument,)) == ALLOW


def test_a_rule_is_for_its_call_alone():
  assert said(bpf.refuse(9), (), called=8) == ALLOW
  assert said(bpf.refuse(9), ()) == 9


def test_a_machine_that_is_not_known_gets_no_filter(monkeypatch):
  monkeypatch.setattr(
    bpf.os, 'uname', lambda: bpf.os.uname_result(('', '', '', '', 'vax'))
  )
  with pytest.raises(OSError):
    bpf.install(None, bytes)

"""What all formats of calls share: thought is skipped, values are JSON's."""

import math

import pytest

from agentrl.text.tool_calls import base
from tests import errors


@pytest.mark.parametrize(
  ('text', 'rest'),
  [
    ('hello', 'hello'),
    ('<think>a</think>b', 'b'),
    ('a</think>b</think>c', 'b</think>c'),
    (' <think>on and on', ''),
    ('a <think> b', 'a <think> b'),
  ],
)
def test_a_thought_is_not_part_of_the_message(text, rest):
  assert base.spoken(text) == rest


def test_values_that_json_lacks_are_found_at_any_depth():
  fine = {'a': [1, 2.5, None, True, 'x', {'b': []}]}
  assert list(base.foreign(fine)) == []
  wrong = {'a': [1, math.inf, {3: (1, 2)}]}
  assert list(base.foreign(wrong)) == [math.inf, 3, (1, 2)]


def test_a_long_text_is_quoted_in_part():
  assert base.quote('  short ') == 'short'
  long = base.quote('x' * 10_000)
  assert long.endswith('...')
  assert len(long) < 1000


@pytest.mark.parametrize('text', ['NaN', '[Infinity]', '1e999'])
def test_numbers_that_are_none_are_refused(text):
  with errors.raises(ValueError, 'JSON'):
    base.DECODER.raw_decode(text)

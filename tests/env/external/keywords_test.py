"""Settings of other packages, and what is made of them."""

import pytest

from agentrl.env.external import keywords
from tests import errors

ENVS = 'tests.env.external.text_envs'


def test_settings():
  assert keywords.parse('') == {}
  assert keywords.parse("a=1, b='x'") == {'a': 1, 'b': 'x'}
  for text in ('1', 'a=', 'a=b', 'a=1) or f(', '**{}'):
    with errors.raises(ValueError, 'env.settings'):
      keywords.parse(text)


def test_what_can_be_closed_is_closed():
  class Open:
    closed = 0

    def close(self):
      self.closed += 1

  made = Open()
  keywords.close(made)
  assert made.closed == 1
  keywords.close(object())


def test_an_id_comes_first_where_there_is_one():
  assert keywords.make(f'{ENVS}:make', '', 'high=3')._high == 3
  made = keywords.make(f'{ENVS}:of_id', 'guess', 'high=5, prize=2.0')
  assert (made._high, made._prize) == (5, 2.0)


@pytest.mark.parametrize(
  ('path', 'id', 'settings', 'words'),
  [
    ('make', '', '', 'env.make make module:name'),
    (f'{ENVS}:lost', '', '', 'env.make'),
    (f'{ENVS}:make', '', 'low=3', 'env.settings low 3 TypeError'),
    (f'{ENVS}:of_id', 'chess', '', 'env.id chess KeyError'),
  ],
)
def test_mistakes_are_one_sentence(path, id, settings, words):
  with errors.raises(ValueError, words) as error:
    keywords.make(path, id, settings)
  assert '\n' not in str(error.value)


def test_trouble_of_the_machine_is_no_mistake():
  with pytest.raises(OSError):
    keywords.make(f'{ENVS}:unlucky', '', '')


class Wrapper:
  def __getattr__(self, name):
    if name == 'step':
      return 3
    raise AttributeError(name)


def test_what_a_wrapper_has_and_lacks():
  assert keywords.lacking(Wrapper(), 'step', 'reset', 'close') == [
    'reset',
    'close',
  ]
  keywords.close(Wrapper())

"""What the operators make of a text, and what they leave alone."""

import pytest

from tests.mutation import edits
from tests.mutation.nearest import ROOT


def made(text: str, operator: str) -> set[str]:
  return {
    edit.applied(text)
    for edit in edits.edits(text)
    if edit.operator == operator
  }


@pytest.mark.parametrize(
  ('operator', 'text', 'texts'),
  [
    ('sign', 'x = (a) + b', {'x = (a) - b'}),
    ('sign', 'x = a * -b', {'x = a / -b', 'x = a * b'}),
    ('sign', 'x -= 1', {'x += 1'}),
    ('sign', 'π = é - b  # a - b', {'π = é + b  # a - b'}),
    ('boundary', 'a < b <= c', {'a <= b <= c', 'a < b < c'}),
    ('boundary', 'a == b', {'a != b'}),
    ('constant', 'f(0, 1, 7)', {'f(1, 1, 7)', 'f(0, 0, 7)', 'f(0, 1, 8)'}),
    ('constant', 'f(True, 0.5)', {'f(False, 0.5)', 'f(True, 1.0)'}),
    ('constant', 'f(axis=-1)', {'f(axis=-0)'}),
    ('dropped', 'x = 1\nx = 2', {'x = 1\npass'}),
    ('dropped', 'def f(x):\n  x = 1', {'def f(x):\n  pass'}),
    ('dropped', 'd[0] = 1', {'pass'}),
    ('dropped', 'f(\n  x\n)', {'pass'}),
    ('dropped', 'x = not y', {'x = y'}),
    ('dropped', 'if a:\n  x = 1', {'if True:\n  x = 1'}),
    ('dropped', 'if a:\n  raise E', {'if False:\n  raise E'}),
    ('dropped', 'y = x.replace(a=1)', {'y = x.replace()'}),
    ('dropped', 'y = replace(x, a=1)', set()),
    (
      'dropped',
      'y = d.replace(x, a=1, b=2)',
      {'y = d.replace(x, b=2)', 'y = d.replace(x, a=1)'},
    ),
    ('swapped', 'f(a, b, *c)', {'f(b, a, *c)'}),
    ('swapped', 'f(a=x, b=y)', {'f(a=y, b=x)'}),
    ('swapped', 'jnp.where(c, a, b)', {'jnp.where(c, b, a)'}),
  ],
)
def test_an_operator_makes_these_and_no_others(operator, text, texts):
  assert made(text, operator) == texts


@pytest.mark.parametrize(
  'text',
  [
    '"""1 + 1"""',
    'assert a + 1 > 0, f(a, b)',
    'raise ValueError(a + 1)',
    "logging.info('%d', a + 1)",
    "x = f'{a + 1}'",
    'x: Literal[1]',
    'def f(a: Literal[1]) -> Literal[2]:\n  """Text."""',
    'class C:\n  def __repr__(self):\n    return str(self.x + 1)',
    'if typing.TYPE_CHECKING:\n  x = a + 1',
    "x = 'a' + b",
    'x = max(a, b)',
    "x = zip('a', b, strict=True)",
  ],
)
def test_these_are_left_alone(text):
  assert not edits.edits(text)


def test_a_name_that_nothing_else_binds_keeps_its_assignment():
  text = 'def f():\n  y = 1\n  self.x = y\nclass C:\n  def __init__(self):\n'
  text += '    self.z = y'
  assert made(text, 'dropped') == {text.replace('self.x = y', 'pass')}


@pytest.mark.parametrize(
  ('new', 'changes'),
  [
    ('x = (1)  # one', False),
    ('x =', False),
    ('def f():\n  return 1', True),
    ('x = 2', True),
  ],
)
def test_what_compiles_to_the_same_is_no_mistake(new, changes):
  assert edits.changes('x = 1', new) is changes


@pytest.mark.parametrize(
  'name', ['loss/gates', 'advantage/gae', 'model/fold', 'text/spans']
)
def test_every_edit_of_a_module_is_another_program(name):
  path = ROOT / 'agentrl' / f'{name}.py'
  text = path.read_text(encoding='utf-8')
  texts = [x.applied(text) for x in edits.edits(text)]
  assert len(set(texts)) == len(texts) > 0
  assert all(edits.changes(text, x) for x in texts[::9])

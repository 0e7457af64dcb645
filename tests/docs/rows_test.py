"""Papers of a table, held against docstrings."""

from docs.generate import methods, rows

DOCS = {
  'whole': 'W.\n\nPaper: A Long Title That Is\nCut Here: and More, 2401.00001.',
  'half': 'H.\n\nPaper: Another Title of a Paper.\n\nMissing: its images.',
  'other': 'O, a variant.\n\nPaper: Another Title of a Paper.',
}


def row(key, title, config=''):
  return {'id': key, 'title': title, 'config': config}


def test_a_paper_stands_unless_one_of_its_configs_lacks_something():
  table = [
    row('1', 'A long title that is cut HERE'),
    row('2', 'Another Title of a Paper'),
    row('3', 'A Title That Nobody Has Read'),
    row('4', 'One That Its Config Shortens', 'other'),
  ]
  found = rows.judge(table, DOCS)
  stand = {'1': 'whole', '4': 'other'}
  assert found == {'stand': stand, 'half done': {'2': 'half'}}


def test_docstrings_say_what_is_missing_where_it_is_counted():
  for doc in rows.docstrings().values():
    methods.parse_docstring(doc)


def test_configs_that_run_as_another_are_half_done():
  """They are told apart on the page of all methods, with what they lack."""
  docs = rows.docstrings()
  table = [
    row('x', 'Deep Reinforcement Learning from Hierarchical', 'heron'),
    row('y', 'Memory as Action: Autonomous Context'),
  ]
  found = rows.judge(table, docs)
  assert found['half done'] == {'x': 'heron'}
  assert found['stand'] == {'y': 'memact_dcpo'}

"""The shape of the tree: few entries in front, and no circle of imports."""

from tests import floors_test as floors

MOST = 45  # entries of agentrl


def test_few_entries_stand_in_front():
  entries = [
    path.name
    for path in (floors.ROOT / 'agentrl').iterdir()
    if not path.name.startswith(('.', '__pycache__'))
  ]
  assert len(entries) <= MOST, sorted(entries)


def test_no_circle_of_imports():
  """Nor of those in functions and for types, which hide one."""
  modules = {floors.dotted(x): floors.imported(x) for x in floors.MODULES}
  floors.heights(floors.graph(modules))

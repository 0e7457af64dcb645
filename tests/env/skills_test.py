"""Skills of tasks: their table, and names that no line of text can hold."""

import pytest

from agentrl.env import skills
from agentrl.env.worlds.door_codes import DoorCodes
from tests import errors


class Family:
  def skill(self, task):
    return task['parts']


def table(*parts):
  return skills.table(Family(), [{'parts': x} for x in parts])


def test_skills_of_few_parts_come_first():
  got = table(('b', 'a'), ('c',), ('a',), ('b', 'a'), ('a', 'b', 'c'))
  assert got.names == ('a', 'c', 'b a', 'a b c')
  assert got.of_task.tolist() == [2, 1, 0, 2, 3]
  assert got.longest == 3
  assert got.basic().tolist() == [True, True, False, False]


def test_the_shortest_are_basic_where_none_is_of_one_part():
  got = table(('a', 'b'), ('a', 'b', 'c'))
  assert got.basic().tolist() == [True, False]


@pytest.mark.parametrize(
  'parts',
  [(), ('a b',), ('a\n',), ('',), (3,), ('x' * 81,), ('xx',) * 30],
)
def test_a_name_is_a_short_line_of_words(parts):
  with errors.raises(ValueError, 'Family.skill 80'):
    table(parts)


def test_doors_are_basic_skills_and_every_list_of_them_is_as_likely():
  family = DoorCodes(doors=3, rooms=3, fewest=1)
  assert isinstance(family, skills.NamesSkills)
  tasks = [x.task for x in family.tasks('train', 3000, 0)]
  got = skills.table(family, tasks)
  assert len(got.parts) == 3 + 9 + 27
  assert got.names[:4] == ('a', 'b', 'c', 'a a')
  assert got.basic().sum() == 3
  sizes = [len(x['door']) for x in tasks]
  for size, share in ((1, 3 / 39), (2, 9 / 39), (3, 27 / 39)):
    error = 4 * (share * (1 - share) / 3000) ** 0.5
    assert abs(sizes.count(size) / 3000 - share) < error
  for task, said in zip(tasks, family.tasks('train', 3000, 0), strict=True):
    assert len(said.demonstration) == len(task['door'])


def test_without_fewest_all_tasks_have_as_many_rooms():
  tasks = DoorCodes(rooms=2).tasks('train', 50, 0)
  assert {len(x.task['door']) for x in tasks} == {2}

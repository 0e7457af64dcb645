"""Families that need Java: said in one sentence where there is none."""

import sys
import types

import pytest

from agentrl.env import base
from agentrl.env.external import java


@pytest.mark.parametrize('name', ['textworld_express', 'scienceworld'])
def test_without_java_one_is_told_so(name, monkeypatch):
  monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
  monkeypatch.setenv('PATH', '')
  with pytest.raises(
    ValueError, match=rf'{name.replace("_", "-")} needs .*java'
  ):
    base.find(name)().env()


def test_no_more_tasks_than_the_package_has():
  assert sorted(java.chosen([3, 1, 2], 'train', 3, 0)) == [1, 2, 3]
  with pytest.raises(ValueError, match='there are 3 test tasks, and 4 were'):
    java.chosen([3, 1, 2], 'test', 4, 0)

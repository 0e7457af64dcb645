"""Families that need Java: said in one sentence where there is none."""

import sys
import types

import pytest

from agentrl.env import base
from agentrl.env.external import java
from tests import errors


@pytest.mark.parametrize('name', ['textworld_express', 'scienceworld'])
def test_without_java_one_is_told_so(name, monkeypatch):
  monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
  monkeypatch.setenv('PATH', '')
  with errors.raises(ValueError, f'{name.replace("_", "-")}'):
    base.find(name)().env()


def test_no_more_tasks_than_the_package_has():
  assert sorted(java.chosen([3, 1, 2], 'train', 3, 0)) == [1, 2, 3]
  with errors.raises(ValueError, '3 test 4'):
    java.chosen([3, 1, 2], 'test', 4, 0)

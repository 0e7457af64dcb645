"""Folders that an interpreter needs, and packages that it must not see."""

import os
import sys

import pytest

from agentrl.tool.sandbox import mounts


def test_the_standard_library_is_seen_and_other_packages_are_not():
  see, hidden = mounts.visible(os.path.realpath(sys.executable), ())

  def is_seen(path):
    inside = [x for x in see if os.path.commonpath([x, path]) == x]
    outside = [x for x in hidden if os.path.commonpath([x, path]) == x]
    return bool(inside) and not outside

  assert is_seen(os.path.realpath(os.__file__))
  assert not is_seen(os.path.realpath(pytest.__file__))
  for path in see:
    assert not any(path.startswith(x + os.sep) for x in see), path


def test_a_package_that_is_asked_for_is_not_hidden(tmp_path):
  python, package = os.path.realpath(sys.executable), str(tmp_path)
  see, hidden = mounts.visible(python, (package,))
  assert any(package == x or package.startswith(x + os.sep) for x in see)
  assert package not in hidden


def test_an_interpreter_that_is_not_there_is_one_sentence():
  with pytest.raises(ValueError) as error:
    mounts.visible('/nowhere/python', ())
  assert '\n' not in str(error.value)

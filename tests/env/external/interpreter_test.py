"""Interpreters of other environments are looked at before they are used."""

import sys

import pytest

from agentrl.env.external import interpreter
from tests import errors


def test_modules_are_found_here_and_elsewhere():
  for python in ('', sys.executable):
    interpreter.check(python, 'json:loads')
    interpreter.check(python, 'tests.env.external.text_envs:make')
    with errors.raises(ValueError, 'no_such_package'):
      interpreter.check(python, 'no_such_package.envs:make')


def test_nothing_is_imported():
  interpreter.check('', 'antigravity:fly')
  assert 'antigravity' not in sys.modules


def test_an_interpreter_that_is_none(tmp_path):
  with pytest.raises(ValueError):
    interpreter.check(str(tmp_path / 'python'), 'json:loads')
  with pytest.raises(ValueError):
    interpreter.check('/bin/false', 'json:loads')


def test_an_old_one_is_refused(tmp_path):
  old = tmp_path / 'python'
  old.write_text('#!/bin/sh\necho "[[3, 9], true]"\n')
  old.chmod(0o755)
  with errors.raises(ValueError, '3.9 3.11'):
    interpreter.check(str(old), 'json:loads')


@pytest.mark.parametrize('path', ['', 'json', ':loads', 'json:'])
def test_a_function_has_a_module_and_a_name(path):
  with pytest.raises(ValueError):
    interpreter.check('', path)


def test_packages_are_not_among_the_own_paths(monkeypatch, tmp_path):
  monkeypatch.setattr(sys, 'path', ['', str(tmp_path), *sys.path])
  paths = interpreter.own_paths()
  assert str(tmp_path.resolve()) in paths
  assert not any('site-packages' in x for x in paths)
  assert len(paths) == len(set(paths))

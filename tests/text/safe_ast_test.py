"""Expressions are read, never run, and no warning reaches the user."""

import ast
import warnings

import pytest

from agentrl.text import safe_ast


def test_an_expression_is_a_tree_and_is_not_run():
  tree = safe_ast.tree('exit(1) + [2, "x"]')
  assert ast.unparse(tree) == "exit(1) + [2, 'x']"


@pytest.mark.parametrize('text', ['', 'x = 1', 'import os', '1 +', 'a\0b'])
def test_what_is_no_expression_raises(text):
  with pytest.raises((SyntaxError, ValueError)):
    safe_ast.tree(text)


def test_what_python_warns_of_is_quiet():
  with warnings.catch_warnings():
    warnings.simplefilter('error')
    safe_ast.tree('3and 4')
    with pytest.raises(SyntaxError):
      ast.parse('3and 4')

"""docs/TOOLS.md is run as it stands, and names what there is."""

import os
import subprocess
import sys

import pytest

from agentrl.text import tool_calls
from agentrl.tool import base
from agentrl.tool.sandbox import sandbox
from tests.docs.pages import ROOT, Page

PAGE = Page('docs/TOOLS.md')
TEXT = PAGE.text


def test_it_prints_what_it_says():
  done = subprocess.run(
    [sys.executable, '-c', ''.join(PAGE.code)],
    env=os.environ | {'PYTHONPATH': str(ROOT), 'PYTHONUTF8': '1'},
    capture_output=True,
    encoding='utf-8',
    check=True,
  )
  assert done.stdout == PAGE.printed


@pytest.mark.parametrize(
  'names',
  [tool_calls.FORMATS, base.KINDS, sandbox.LAYERS],
  ids=['formats', 'kinds', 'layers'],
)
def test_everything_has_its_line(names):
  for name in names:
    assert f'`{name}`' in TEXT


def test_guarantees_and_limits_are_those_of_the_code():
  table = TEXT.split('## What the sandbox guarantees')[1]
  for name in sandbox.GUARANTEES:
    assert f'\n| {name}: ' in table
  limits = sandbox.SandboxLimits()
  for said in (
    f'time: {limits.seconds:g} s',
    f'memory: {limits.memory >> 20} MiB',
    f'holds {limits.folder >> 20} MiB',
    f'output: {limits.output} bytes',
    f'one, with {limits.threads} threads',
  ):
    assert said in table

import concurrent.futures

import pytest

from agentrl.text.tool_calls.base import Call
from agentrl.tool import base
from agentrl.tool.base import ToolError
from agentrl.tool.python import Python
from agentrl.tool.sandbox.sandbox import Sandbox, SandboxLimits


@pytest.fixture(scope='module')
def python():
  try:
    return Python(Sandbox(SandboxLimits(seconds=60, output=500)))
  except RuntimeError as error:
    pytest.skip(f'refused as it must be: {error}')


def test_it_answers_with_what_is_printed(python):
  assert python(code='print(1)\nprint(2)') == '1\n2\n'
  assert python(code='x = 1') == 'The code ran and printed nothing.'


@pytest.mark.parametrize(
  ('code', 'kind', 'said'),
  [
    ('print(1)\n1 / 0', 'error', 'ZeroDivisionError'),
    ('while True: print(1)', 'output', 'may print 500 bytes'),
    ('bytes(1 << 40)', 'memory', '512 MiB'),
    ('import os\nos.fork()', 'processes', 'start no process'),
    ('open("/etc/x", "w")', 'files', 'its own folder, 16 MiB'),
    ('import socket\nsocket.socket()', 'network', 'no network'),
    ('import os\nos.abort()', 'crash', 'crashed'),
  ],
)
def test_faults_have_a_kind_and_a_sentence(python, code, kind, said):
  with pytest.raises(ToolError) as caught:
    python(code=code)
  assert caught.value.kind == kind
  assert said in caught.value.text


def test_several_programs_of_a_turn(python):
  calls = [Call('python', {'code': f'print({i})'}) for i in range(4)]
  calls.insert(2, Call('python', {'code': 'raise ValueError("no")'}))
  with concurrent.futures.ThreadPoolExecutor(4) as pool:
    answers = base.run(calls, [python], pool)
  assert [x.fault for x in answers] == ['', '', 'error', '', '']
  assert [x.text for x in answers if not x.fault] == [
    f'{i}\n' for i in range(4)
  ]


def test_a_prelude_runs_before_every_program(python):
  made = Python(python._sandbox, prelude='x = [1, 2]\n')
  assert made(code='x.append(3)\nprint(x)') == '[1, 2, 3]\n'
  assert made(code='print(x)') == '[1, 2]\n'

"""Made questions against brute force; numbers in all their forms."""

import json
import re

import pytest

from agentrl.env import splits, tool_env
from agentrl.env.worlds.math_python import TEMPLATES, MathPython
from agentrl.text import grading
from tests import errors
from tests.env.promises import refuses


def counted(question):
  """The answer by trying everything."""
  x, *rest = [int(n) for n in re.findall(r'\d+', question)]
  if 'primes' in question:
    return sum(
      k for k in range(2, x) if not any(k % d == 0 for d in range(2, k))
    )
  if 'remainder' in question:
    value = 1
    for _ in range(rest[0]):
      value = value * x % rest[1]
    return value
  if 'divisors' in question:
    return len([d for d in range(1, x + 1) if x % d == 0])
  if 'divisible' in question:
    n, a, b = rest
    return len({*range(a, n + 1, a)} | {*range(b, n + 1, b)})
  if 'digits' in question:
    return sum(int(d) for d in str(x ** rest[0]))
  gets, every, pays, days = rest
  return x + sum(gets - pays * (d % every == 0) for d in range(1, days + 1))


@pytest.fixture(scope='module')
def solved():
  return list(MathPython(size=300).tasks('train', 80, 0))


def test_answers_are_right(solved):
  for task, said, _ in solved:
    assert task['answer'] == str(counted(task['question']))
    assert tool_env.final(said[-1]) == task['answer']
  starts = {t.task['question'].split()[0] for t in solved}
  assert starts == {x.question.split()[0] for x in TEMPLATES}


def test_the_programs_of_all_templates_print_the_answers():
  family = MathPython(size=300)
  env = family.env()
  for which, template in enumerate(TEMPLATES):
    used = {'n': 97, 'a': 6, 'b': 15, 'c': 4}
    made = {'which': which, 'used': used, 'question': template.question}
    task, said = family._solve(made)
    env.reset(task, 0)
    assert env.step(said[0]).text == f'<result>\n{task["answer"]}\n\n</result>'
    assert env.step(said[1]).score == 1
  env.close()


def test_a_task_is_its_question(solved):
  assert len({t.task['question'] for t in solved}) == len(solved)


@pytest.fixture(scope='module')
def env():
  env = MathPython().env()
  yield env
  env.close()


@pytest.mark.parametrize(
  ('gold', 'answer', 'score'),
  [
    ('0.5', '2/4', 1),
    ('1,000', '1000.0', 1),
    ('1/3', '0.333333333333', 0),
    ('3', '', 0),
    ('3', '1+2', 0),
  ],
)
def test_answers_are_compared_exactly(env, gold, answer, score):
  env.reset({'question': '?', 'answer': gold}, 0)
  assert env.step(tool_env.answer_message(answer)).score == score


def test_a_program_that_fails_is_a_fault(env):
  env.reset({'question': '?', 'answer': '1'}, 0)
  reply = env.step('<python>1/0</python>')
  assert 'ZeroDivisionError' in reply.text
  info = {name: x for name, x in reply.info.items() if x}
  assert info == {'calls': 1, 'faults': 1, 'fault_error': 1}
  reply = env.step('<python>import socket; socket.socket()</python>')
  assert reply.info['faults'] == reply.info['fault_network'] == 1
  assert not reply.done


def test_questions_of_a_file(tmp_path):
  file = tmp_path / 'q.jsonl'
  lines = [{'question': f'Half of {i}?', 'answer': i / 2} for i in range(30)]
  lines += [{'question': 'half of 3', 'answer': 'seven'}]
  file.write_text('\n'.join(map(json.dumps, lines)))
  with errors.raises(ValueError, 'q.jsonl:31'):
    MathPython(str(file)).tasks('train', 1, 0)
  lines[-1]['answer'] = '1,000'
  file.write_text('\n'.join(map(json.dumps, lines)))
  family = MathPython(str(file))
  asked = {}
  for split in splits.SPLITS:
    with pytest.raises(ValueError) as error:
      family.tasks(split, 100, 0)
    size = int(re.search(r'than the (\d+)', str(error.value))[1])
    asked |= {
      grading.normal(t.task['question']): t
      for t in family.tasks(split, size, 0)
    }
  assert len(asked) == 30
  assert asked['half of 3'].task == {'question': 'Half of 3?', 'answer': '1.5'}
  assert asked['half of 3'].demonstration == ()
  assert family.name() != MathPython().name()


def test_bad_settings():
  refuses(MathPython, size=(99, 5001), seconds=(0,), format=('xml',))

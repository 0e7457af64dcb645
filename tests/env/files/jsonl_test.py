"""Prompts of a file and their verifiers: promises, and every mistake."""

import json
import math
import os
import pickle

import pytest

from agentrl.env import base, judge, splits, task_sampling
from agentrl.env.files.jsonl import Jsonl
from agentrl.rollout.workers.replies import EnvError, InProcessEnv
from tests import errors
from tests.env import promises

HERE = __name__


def rows(count=40):
  return [
    {'prompt': f'{i} + 1?', 'answer': i + 1, 'solution': f'So {i + 1}'}
    for i in range(count)
  ]


def write(path, lines):
  path.write_text('\n'.join(map(json.dumps, lines)), encoding='utf-8')
  return str(path)


def last_word(completion, row):
  """A verifier of a user; what it does to its row is its own affair."""
  right = completion.split()[-1:] == [str(row.pop('answer'))]
  return right, {'words': len(completion.split())}


def picky(completion, row):
  del row
  if completion == 'boom':
    raise SystemExit('no verdict')
  return {'nan': math.nan, 'two': 2, 'none': None, 'half': 0.5}.get(
    completion, 0
  )


def odd(completion, row):
  return float(bool(completion)), {'seen': 1}


def raises(completion, row):
  return completion.split()[0] == row['answer']


@pytest.fixture
def family(tmp_path):
  path = write(tmp_path / 'rows.jsonl', rows())
  return Jsonl(path=path, verifier=f'{HERE}:last_word', info='words')


def test_it_keeps_the_promises(family):
  solved = list(family.tasks('train', 5, 0))
  env = pickle.loads(pickle.dumps(family)).env()
  for task in solved:
    assert task.demonstration
    promises.demonstration_scores_one(family, env, task)
  promises.same_again(env, solved[0])
  promises.hostile_messages_are_answered(env, solved[0])
  env.close()
  env.close()


def test_every_prompt_is_in_one_split_in_the_order_of_the_seed(family):
  keys = set()
  for split, size in family.sizes().items():
    once, other = (list(family.tasks(split, size, seed)) for seed in (0, 1))
    assert once != other
    assert {splits.split_of(t.key) for t in once} == {split}
    keys |= {t.key for t in once}
  assert len(keys) == 40
  with pytest.raises(ValueError):
    family.tasks('valid', 1, 0)
  with errors.raises(ValueError, '50 train'):
    family.tasks('train', 50, 0)


def test_lines_in_another_order_and_twice_are_the_same_tasks(family, tmp_path):
  path = write(tmp_path / 'other.jsonl', [*reversed(rows()), *rows()])
  other = Jsonl(path=path, verifier=family.verifier, info='words')
  assert list(other.tasks('train', 9, 3)) == list(family.tasks('train', 9, 3))
  assert other.name() != family.name()


def test_a_file_of_held_out_prompts(family, tmp_path):
  held = [{'prompt': f'{i} + 2?', 'answer': i + 2} for i in range(7)]
  path = write(tmp_path / 'held.jsonl', held)
  two = Jsonl(family.path, family.verifier, path, 'words')
  assert two.sizes() == {'train': 40, 'test': 7}
  assert {t.task['text'] for t in two.tasks('test', 7, 0)} == {
    row['prompt'] for row in held
  }
  write(tmp_path / 'held.jsonl', [*held, *rows(2)])
  with errors.raises(ValueError, '2 env.test_path'):
    Jsonl(family.path, family.verifier, path, 'words').sizes()


def test_a_chat_of_one_message_and_a_system_message(tmp_path):
  def chat(system, text):
    return {
      'prompt': [
        {'role': 'system', 'content': system},
        {'role': 'user', 'content': text},
      ],
      'answer': 'a',
    }

  path = tmp_path / 'chat.jsonl'
  lines = [chat('Be brief.', str(i)) for i in range(20)]
  family = Jsonl(write(path, lines), 'exact')
  assert family.system == 'Be brief.'
  (task,) = family.tasks('train', 1, 0)
  assert family.env().reset(task.task, 0) == task.task['text']
  assert family.describe(task.task) == task.task['text']
  assert task.task['row'] in lines
  other = Jsonl(write(tmp_path / 'two', [*lines, chat('Be long.', 'x')]))
  with errors.raises(ValueError, 'x Be long'):
    other.sizes()
  plain = Jsonl(family.path, 'exact', write(tmp_path / 'p', rows()))
  with pytest.raises(ValueError):
    plain.sizes()


@pytest.mark.parametrize(
  'line',
  [
    '{"prompt": ""}',
    '{"prompt": " "}',
    '{"prompt": 3}',
    '{"prompt": []}',
    '{"answer": "3"}',
    '[]',
    '"text"',
    'prompt: x',
    '{"prompt": [{"role": "user"}]}',
    '{"prompt": [{"role": "assistant", "content": "x"}]}',
    '{"prompt": "x", "solution": 3}',
  ],
)
def test_a_line_that_cannot_be_used_is_named(tmp_path, line):
  path = tmp_path / 'rows.jsonl'
  path.write_text(f'{{"prompt": "y"}}\n\n{line}\n', encoding='utf-8')
  with errors.raises(ValueError, 'rows.jsonl:3') as e:
    Jsonl(str(path), 'exact').sizes()
  assert '\n' not in str(e.value)


def test_files_that_cannot_be_used(tmp_path):
  with errors.raises(ValueError, 'env.path'):
    Jsonl(verifier='exact').sizes()
  with errors.raises(ValueError, 'gone'):
    Jsonl(str(tmp_path / 'gone'), 'exact').name()
  clash = [*rows(2), {'prompt': '0 + 1?', 'answer': 2}]
  with errors.raises(ValueError, '0 1'):
    Jsonl(write(tmp_path / 'clash', clash), 'exact').sizes()
  one = Jsonl(write(tmp_path / 'one', rows(1)), 'exact')
  with pytest.raises(ValueError):
    one.sizes()


def test_a_file_that_was_edited_is_read_again(family):
  assert sum(family.sizes().values()) == 40
  with open(family.path, 'a', encoding='utf-8') as file:
    file.write('\n{"prompt": "41?", "answer": 41}')
  os.utime(family.path, (1, 1))
  assert sum(family.sizes().values()) == 41


@pytest.mark.parametrize(
  ('verifier', 'words'),
  [
    ('numbers', 'env.verifier numbers'),
    ('no_such_module:f', 'no_such_module'),
    (f'{HERE}:HERE', ''),
  ],
)
def test_a_verifier_that_is_none_is_refused_at_once(verifier, words):
  promises.check_refusal('jsonl', {'verifier': verifier}, words)


@pytest.mark.parametrize(
  ('verifier', 'words'),
  [
    ('', 'env.verifier module:function'),
    (f'{HERE}:raises', 'IndexError'),
    (f'{HERE}:odd', 'seen env.info'),
    (f'{HERE}:rows', 'TypeError'),
  ],
)
def test_a_verifier_that_does_not_fit_is_refused_before_a_run(
  family, verifier, words
):
  with errors.raises(ValueError, words) as error:
    Jsonl(family.path, verifier).tasks('train', 1, 0)
  assert '\n' not in str(error.value)


def test_a_row_that_a_shipped_verifier_cannot_use_is_named(tmp_path):
  path = write(tmp_path / 'rows', [*rows(20), {'prompt': 'and?'}])
  split = task_sampling.split(['and?'])
  with errors.raises(ValueError, 'and answer'):
    Jsonl(path, 'exact').tasks(split, 1, 0)


def test_a_wrong_verdict_costs_only_its_trajectory(family):
  picked = Jsonl(family.path, f'{HERE}:picky')
  (task,) = picked.tasks('train', 1, 0)
  env = InProcessEnv(picked, 1000)
  for message, why in (
    ('nan', 'nan 0 1'),
    ('two', '2'),
    ('none', ''),
    ('boom', 'SystemExit'),
  ):
    env.reset(task.task, 0)
    with errors.raises(EnvError, why):
      env.step(message)
  env.reset(task.task, 0)
  assert env.step('half') == base.Step('', 0.5, True, 0.5)


def test_a_judge_has_the_sizes_of_its_family(family):
  assert base.sizes(judge.WithJudge(family)) == family.sizes()
  assert base.sizes(judge.WithJudge(base.find('countdown')())) == {}


def test_names_tell_settings_apart(family):
  names = {family.name(), Jsonl(family.path, family.verifier).name()}
  assert len(names) == 2
  assert all(x.startswith('jsonl-') for x in names)
  assert Jsonl(family.path, 'exact').columns == ()


@pytest.mark.parametrize(
  ('trained', 'held'),
  [
    ('What is 1+1?', ' What is 1+1?'),
    ('What is 1+1?', 'What is 1+1?\n'),
    ('What is  1+1?', 'What is 1+1?'),
    ('What is\t1+1?', 'What\u00a0is 1+1?'),
    ('What is\r\n1+1?', 'What is\n\n1+1?'),
    ('Caf\u00e9?', 'Cafe\u0301?'),
  ],
)
def test_a_held_out_prompt_that_is_trained_on_but_for_a_space(
  tmp_path, trained, held
):
  def line(text, n):
    return {'prompt': text, 'answer': str(n)}

  train = [line('First?', 1), line(trained, 2)]
  test = [line('Other?', 3), line('Third?', 4), line(held, 5)]
  files = [write(tmp_path / name, x) for name, x in (('a', train), ('b', test))]
  with errors.raises(ValueError, '3 2'):
    Jsonl(files[0], 'exact', files[1]).sizes()


def test_one_file_does_not_split_prompts_that_differ_in_a_space(tmp_path):
  def near(i):
    return ({'prompt': f'{x}{i}?', 'answer': 'x'} for x in ('', ' '))

  pairs = [[*near(i)] for i in range(40)]
  apart = [x for x in pairs if len({*map(split_of, x)}) == 2]
  assert apart
  whole = [{'prompt': f'{i}!', 'answer': 'x'} for i in range(40)]
  for pair in apart:
    family = Jsonl(write(tmp_path / 'a', [*whole, *pair]), 'exact')
    with errors.raises(ValueError, '1 env.path'):
      family.sizes()
  assert Jsonl(write(tmp_path / 'a', whole), 'exact').sizes()['test']


def split_of(row) -> str:
  return task_sampling.split([row['prompt']])

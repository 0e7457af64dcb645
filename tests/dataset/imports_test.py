"""Files of other programs: their tokens, or their text encoded once."""

import json

import numpy as np
import pytest

from agentrl.dataset import imports
from agentrl.dataset.trajectory import task_number
from agentrl.text import chat_format, tool_calls
from agentrl.text.tokenizer import Embedded
from agentrl.types import Span, Status
from tests import checkpoints, errors, hostile

WORDS = Embedded()
TALK = chat_format.bare(WORDS)
CALL = {'name': 'add', 'arguments': '{"x": 1}'}
CHAT = {
  'messages': [
    {'role': 'system', 'content': 'Be brief.'},
    {'role': 'user', 'content': [{'type': 'text', 'text': 'What is 1+1?'}]},
    {
      'role': 'assistant',
      'content': None,
      'tool_calls': [{'id': 'a', 'type': 'function', 'function': CALL}],
    },
    {'role': 'tool', 'tool_call_id': 'a', 'content': '2'},
    {'role': 'assistant', 'content': 'Two.', 'weight': 0},
    {'role': 'user', 'content': 'Thanks.'},
  ],
  'outcome': 1.0,
  'reward': 0.5,
}


def written(path, *lines):
  path.write_text(''.join(f'{json.dumps(x)}\n' for x in lines))
  return path


@pytest.fixture
def read(tmp_path):
  """What is read of documents, one a line."""

  def f(kind, *documents, talk=TALK):
    file = written(tmp_path / 'f', *documents)
    return list(imports.read(kind, file, talk))

  return f


def test_openai_messages_are_encoded_once(read):
  x, again = read('openai', CHAT, CHAT)
  assert x.id == again.id
  style = tool_calls.format_of('hermes')
  call = style.write([tool_calls.base.Call('add', {'x': 1})])
  answer = style.answer([('add', '2')])
  texts = [
    (WORDS.decode(t.context), WORDS.decode(t.message[:-1])) for t in x.turns
  ]
  assert texts == [
    ('Be brief.\nWhat is 1+1?\n', call),
    (f'{answer}\n', 'Two.'),
  ]
  assert all(t.message[-1] == WORDS.eot for t in x.turns)
  assert all(not t.logp.any() for t in x.turns)
  assert all(np.all(t.context_span == Span.INFORMATION) for t in x.turns)
  assert [t.weight.max() for t in x.turns] == [1, 0]
  assert [t.reward for t in x.turns] == [0, 0.5]
  assert (x.task, x.outcome, x.status) == ('What is 1+1?', 1, Status.SOLVED)
  assert (x.source, x.step, x.encoded, x.history) == (
    'import',
    -1,
    True,
    'full',
  )
  assert x.group == task_number(x.task) & 0x7FFFFFFF


TOKENS = {
  'messages': [
    {'role': 'user', 'content': 'Hi'},
    {
      'role': 'assistant',
      'content': 'A',
      'prompt_token_ids': [1, 2],
      'token_ids': [3, 4],
      'logprobs': {'content': [{'logprob': -0.5}, {'logprob': -1.0}]},
      'weight': 1.0,
    },
  ],
  'outcome': 1.0,
  'reward': 0.5,
  'task': 7,
}


def test_tokens_of_a_file_are_taken_as_they_are(read):
  first = TOKENS['messages'][1]
  more = {'role': 'user', 'content': 'More'}
  last = {
    'role': 'assistant',
    'content': 'B',
    'prompt_token_ids': [1, 2, 3, 4, 5],
    'token_ids': [6],
    'logprobs': [-2.0],
  }

  def chat(one, other):
    said = [TOKENS['messages'][0], one, more, other]
    return {'messages': said, 'score': 0, 'task': 7}

  (x,) = read('openai', chat(first, last), talk=None)
  assert [t.context.tolist() for t in x.turns] == [[1, 2], [5]]
  assert [t.message.tolist() for t in x.turns] == [[3, 4], [6]]
  assert [t.logp.tolist() for t in x.turns] == [[-0.5, -1], [-2]]
  assert (x.task, x.encoded, x.history) == (7, False, 'full')
  assert x.status == Status.FAILED
  last = last | {'prompt_token_ids': [8, 9]}
  (x,) = read('openai', chat(first, last), talk=None)
  assert [t.context.tolist() for t in x.turns] == [[1, 2], [8, 9]]
  assert x.history == 'turn'
  first = {k: v for k, v in first.items() if k != 'prompt_token_ids'}
  (x,) = read('openai', chat(first, last))
  assert x.turns[0].message.tolist() == [3, 4]
  assert x.encoded  # what it read


ROW = {
  'example_id': 3,
  'task': 'maths',
  'prompt': [{'role': 'user', 'content': 'Q'}],
  'completion': [{'role': 'assistant', 'content': 'A'}],
  'reward': 0.75,
  'metrics': {'turns': 1.0},
}


def test_results_of_verifiers_in_every_form(tmp_path):
  columns = {name: [value, value] for name, value in ROW.items()}
  files = [written(tmp_path / 'lines', ROW, ROW)]
  for name, value in (('list', [ROW, ROW]), ('columns', columns)):
    files.append(tmp_path / name)
    files[-1].write_text(json.dumps(value, indent=1))
  ids = set()
  for file in files:
    xs = list(imports.read('verifiers', file, TALK))
    assert [x.task for x in xs] == ['maths/3'] * 2
    assert [x.reward for x in xs] == [0.75] * 2
    assert xs[0].turns[-1].terms == {'turns': 1.0}
    ids |= {x.id for x in xs}
  assert len(ids) == 1


def test_steps_of_verifiers_have_tokens(read):
  def step(prompt, ids):
    logp = [-0.25] * len(ids)
    tokens = {'prompt_ids': prompt, 'completion_ids': ids}
    return {'tokens': tokens | {'completion_logprobs': logp}}

  row = ROW | {'trajectory': [step([1], [2]), step([1, 2, 3], [4, 5])]}
  (x,) = read('verifiers', row, talk=None)
  assert [t.context.tolist() for t in x.turns] == [[1], [3]]
  assert [t.message.tolist() for t in x.turns] == [[2], [4, 5]]
  assert np.all(x.turns[1].logp == -0.25)
  assert not x.encoded
  assert [t.reward for t in x.turns] == [0, 0.75]


ATIF = {
  'schema_version': 'ATIF-v1.7',
  'agent': {'name': 'a', 'version': '1'},
  'steps': [
    {'step_id': 1, 'source': 'user', 'message': 'Go'},
    {
      'step_id': 2,
      'source': 'agent',
      'message': 'I look.',
      'reasoning_content': 'Hm',
      'tool_calls': [
        {'tool_call_id': 'c', 'function_name': 'ls', 'arguments': {}}
      ],
      'observation': {'results': [{'source_call_id': 'c', 'content': 'a.txt'}]},
    },
    {'step_id': 3, 'source': 'agent', 'message': 'Done.'},
  ],
  'extra': {'reward': 1.0},
}


def test_atif_steps_are_turns(tmp_path):
  file = tmp_path / 'trajectory.json'
  file.write_text(json.dumps(ATIF, indent=2))
  (x,) = imports.read('atif', file, TALK)
  first = WORDS.decode(x.turns[0].message)
  assert first.startswith('<think>\nHm\n</think>\n\nI look.\n<tool_call>')
  assert 'a.txt' in WORDS.decode(x.turns[1].context)
  assert (x.task, x.outcome, x.reward) == ('Go', 1.0, 1.0)


def test_atif_tokens_and_copied_steps(read):
  copy = json.loads(json.dumps(ATIF))
  for step, ids in zip(copy['steps'][1:], ([5], [7, 8]), strict=True):
    step['metrics'] = {
      'prompt_token_ids': [1] if ids == [5] else [1, 5, 6],
      'completion_token_ids': ids,
      'logprobs': [-0.5] * len(ids),
    }
  copy['steps'][1]['is_copied_context'] = True
  (x,) = read('atif', copy, talk=None)
  assert [t.context.tolist() for t in x.turns] == [[1], [6]]
  assert [t.weight.tolist() for t in x.turns] == [[0], [1, 1]]
  assert np.all(x.turns[1].logp == -0.5)


@pytest.mark.parametrize(
  ('kind', 'line', 'match'),
  [
    ('openai', '{"messages"', '2 JSON'),
    ('openai', '[1]', '2 1 JSON'),
    ('openai', '{}', '2 openai messages'),
    ('openai', json.dumps(CHAT | dict(messages=[])), '2'),
    (
      'openai',
      json.dumps({'messages': CHAT['messages']}),
      '2',
    ),
    (
      'openai',
      json.dumps(CHAT | dict(messages=CHAT['messages'][2:3])),
      '2 0',
    ),
    ('atif', '{"steps": []}', '2 schema_version'),
  ],
)
def test_a_faulty_line_is_named(tmp_path, kind, line, match):
  good = {'openai': CHAT, 'atif': ATIF}[kind]
  file = written(tmp_path / 'f', good)
  file.write_text(file.read_text() + line + '\n')
  made = imports.read(kind, file, TALK)
  next(made)
  with errors.raises(ValueError, match):
    next(made)


def test_other_mistakes_are_one_sentence(tmp_path):
  file = written(tmp_path / 'f', CHAT)
  with errors.raises(ValueError, '1'):
    next(imports.read('openai', file, None))
  with errors.raises(ValueError, 'csv'):
    next(imports.read('csv', file, None))
  with pytest.raises(ValueError):
    next(imports.read('openai', tmp_path / 'none', None))
  image = [{'role': 'user', 'content': [{'type': 'image_url'}]}]
  written(file, CHAT | dict(messages=image))
  with errors.raises(ValueError, 'image_url'):
    next(imports.read('openai', file, TALK))
  (x,) = imports.read(
    'openai', written(file, {'messages': CHAT['messages']}), TALK, outcome=1
  )
  assert x.solved


def test_text_stands_in_the_chat_template_of_a_checkpoint(tmp_path):
  checkpoints.chat(tmp_path / 'model', 'chatml')
  talk = chat_format.named(str(tmp_path / 'model'))
  (x,) = imports.read('openai', written(tmp_path / 'f', CHAT), talk)
  ids = [i for t in x.turns for y in (t.context, t.message) for i in y]
  text = talk.words.decode(ids)
  assert text.startswith(
    '<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>'
  )
  assert text.endswith('<|im_start|>assistant\nTwo.<|im_end|>')
  assert all(t.message[-1] == talk.words.eot for t in x.turns)


STEPS = ROW | {
  'trajectory': [
    {
      'tokens': {
        'prompt_ids': [1],
        'completion_ids': [2, 3],
        'completion_logprobs': [-0.25, -0.5],
      }
    }
  ]
}


@pytest.mark.slow
@pytest.mark.parametrize(
  ('kind', 'document'),
  [
    ('openai', CHAT),
    ('openai', TOKENS),
    ('verifiers', STEPS),
    ('atif', ATIF),
  ],
)
def test_every_value_anywhere_is_sound_or_refused(tmp_path, kind, document):
  file = tmp_path / 'f'
  for place, value, text in hostile.mutations(document):
    file.write_text(text)
    try:
      xs, refused = list(imports.read(kind, file, TALK)), str(file)
    except ValueError as error:
      xs, refused = [], str(error)
    assert str(file) in refused, (place, value)
    assert all(map(sound, xs)), (place, value)


def sound(x) -> bool:
  """Whether a learner can take every number."""
  read = [y for t in x.turns for y in (t.context, t.message)]
  numbers = [x.outcome, *(y for t in x.turns for y in (t.reward, *t.weight))]
  numbers += [y for t in x.turns for y in (*t.logp, *t.terms.values())]
  return (
    all(np.all((y >= 0) & (y < WORDS.vocab_size)) for y in read)
    and bool(np.all(np.isfinite(numbers)))
    and all(np.all(t.logp <= 1e-5) and np.all(t.weight >= 0) for t in x.turns)
  )


@pytest.mark.parametrize(
  ('field', 'value'),
  [
    ('token_ids', '[-1, 4]'),
    ('token_ids', '[1.7, 4]'),
    ('token_ids', '[true, 4]'),
    ('token_ids', '[3, 320]'),
    ('token_ids', '[]'),
    ('prompt_token_ids', '[]'),
    ('prompt_token_ids', '[1, 320]'),
    ('logprobs', '[NaN, -1]'),
    ('logprobs', '[-1, 5]'),
    ('logprobs', '[-1]'),
    ('weight', '-1'),
    ('weight', 'NaN'),
    ('role', '"Assistant"'),
    ('outcome', '1' + '0' * 400),
    ('outcome', '"1.0"'),
    ('reward', 'NaN'),
    ('reward', '1e400'),
  ],
)
def test_what_is_no_token_or_number_is_refused(tmp_path, field, value):
  made = [
    text
    for place, given, text in hostile.mutations(TOKENS, [value])
    if place[-1] == field and given == value
  ]
  (tmp_path / 'f').write_text(made[-1])
  with errors.raises(ValueError, 'f 1'):
    list(imports.read('openai', tmp_path / 'f', TALK))


def test_columns_of_different_lengths_are_refused(tmp_path):
  columns = {name: [value, value] for name, value in ROW.items()}
  columns['reward'] = [1.0]
  (tmp_path / 'f').write_text(json.dumps(columns, indent=1))
  with errors.raises(ValueError, 'f'):
    list(imports.read('verifiers', tmp_path / 'f', TALK))


def test_outcomes_may_be_truths_and_weights_null(read):
  said, solved = CHAT['messages'][:2], {'role': 'assistant', 'content': '2'}
  chat = {'messages': [*said, {**solved, 'weight': None}]}
  for outcome in (True, False):
    (x,) = read('openai', {**chat, 'outcome': outcome})
    assert (x.outcome, x.turns[-1].weight.min()) == (outcome, 1)
    line = {'prompt': 'What?', 'completion': '2', 'reward': outcome}
    (x,) = read('verifiers', line)
    assert (x.outcome, x.reward) == (outcome, outcome)


def test_a_prompt_that_was_too_long_for_verifiers_is_no_turn(read):
  tokens = {'prompt_ids': [1], 'completion_ids': [2, 3]}
  cut = {'prompt_ids': [1, 2, 3], 'completion_ids': []}
  line = {
    'prompt': 'What?',
    'completion': '2',
    'reward': 1.0,
    'trajectory': [{'tokens': tokens}, {'tokens': cut}],
  }
  (x,) = read('verifiers', line, talk=None)
  (turn,) = x.turns
  assert (turn.message.tolist(), turn.reward) == ([2, 3], 1)


@pytest.mark.parametrize('task', [{'id': 3}, 3.0, True, [1]])
def test_a_task_that_is_no_text_and_no_number_is_named(read, task):
  with pytest.raises(ValueError):
    read('openai', {**CHAT, 'task': task})


@pytest.mark.parametrize('field', ['prompt', 'completion', 'trajectory'])
@pytest.mark.parametrize('value', [{}, 0, False, {'a': 1}])
def test_what_is_no_list_is_refused(read, field, value):
  """An empty object is none, though nothing could be taken of either."""
  line = {'prompt': 'What?', 'completion': '2', 'reward': 1.0}
  line['trajectory'] = [{'tokens': {'prompt_ids': [1], 'completion_ids': [2]}}]
  with errors.raises(ValueError, f'f 1 {field}'):
    read('verifiers', {**line, field: value}, talk=None)


def said(role, content):
  return {'role': role, 'content': content}


def test_a_line_of_preferences_is_a_winner_and_a_loser(read):
  asked = [said('user', 'Add 1 1.')]
  tried = [*asked, said('assistant', '3'), said('user', 'No.')]
  good, bad = said('assistant', 'Two.'), said('assistant', 'Four.')
  repeated = {'chosen': [*tried, good], 'rejected': [*tried, bad]}
  lines = (
    {'prompt': 'Add 1 1.', 'chosen': 'Two.', 'rejected': 'Four.'},
    {'prompt': tried, 'chosen': [good], 'rejected': [bad]},
    repeated,
    {'prompt': tried, **repeated},
  )
  made = read('preferences', *lines)
  assert [x.outcome for x in made] == [1, 0] * 4
  assert [WORDS.decode(x.turns[-1].message[:-1]) for x in made[:2]] == [
    'Two.',
    'Four.',
  ]
  assert made[0].task == made[1].task != made[2].task
  assert [x.id for x in made[2:4]] * 2 == [x.id for x in made[4:]]
  # Only answers that differ are trained on.
  assert [t.weight.max() for t in made[2].turns] == [0, 1]
  assert [len(x.turns) for x in made] == [1, 1, 2, 2, 2, 2, 2, 2]


@pytest.mark.parametrize(
  'line',
  [
    {'prompt': 'a', 'chosen': 'b', 'rejected': 'b'},
    {'chosen': 'b', 'rejected': 'c'},
    {'prompt': 'a', 'chosen': 'b'},
    {'prompt': 'a', 'chosen': 'b', 'rejected': 3},
  ],
)
def test_preferences_without_two_answers_are_refused(read, line):
  with errors.raises(ValueError, 'line 1'):
    read('preferences', line)

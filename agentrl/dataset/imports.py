"""Imports files of other programs as stored trajectories.

  openai    {"messages": [...], "outcome": 1.0}, a conversation a line, with
            "tool_calls" and messages of the role "tool"
  verifiers {"prompt": [...], "completion": [...], "reward": 1.0}, and its
            "trajectory" with token ids where it was saved
  preferences {"prompt": ..., "chosen": ..., "rejected": ...}, each a text or a
            list of messages, with the prompt or behind it: two trajectories a
            line, outcomes 1 and 0
  atif      {"schema_version": "ATIF-v1.7", "steps": [...]}, the Agent
            Trajectory Interchange Format

A file is JSONL, or JSON: one object or a list of them. Tool calls and their
answers are rendered in a format of agentrl/text/tool_calls, as this library's
environments do.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from agentrl.dataset import conversation, json_documents, numbers
from agentrl.dataset.conversation import ForeignMessage
from agentrl.dataset.trajectory import StoredTrajectory
from agentrl.domain import OneOf
from agentrl.runtime import text_files
from agentrl.text import tool_calls
from agentrl.text.chat_format import ChatFormat
from agentrl.text.message import AGENT, Message
from agentrl.text.tool_calls.base import Call, Format

Place = str | os.PathLike[str]
Reader = Callable[
  [Mapping[str, Any], ChatFormat | None, Format, float | None],
  tuple[StoredTrajectory, ...],
]


def read(
  kind: str,
  path: Place,
  talk: ChatFormat | None,
  *,
  calls: str = 'hermes',
  outcome: float | None = None,
) -> Iterator[StoredTrajectory]:
  """Reads the trajectories of a file, one at a time.

  Args:
    kind: one of READERS
    talk: encodes text; None: the file must hold token ids
    calls: format of tool calls, see agentrl/text/tool_calls
    outcome: of trajectories for which the file has none
  Raises:
    ValueError: names the file, the line and the fix.
  """
  if kind not in READERS:
    raise ValueError(f'kind {kind!r} is unknown; use one of {sorted(READERS)}')
  style, reader = tool_calls.format_of(calls), READERS[kind]
  for where, x in json_documents.documents(path):
    try:
      yield from reader(x, talk, style, outcome)
    except _MISTAKES as error:
      raise ValueError(
        f'{path}, {where} must be a trajectory of kind {kind!r}'
        f' ({type(error).__name__}: {error}); correct it, or leave it out'
      ) from error
    except ValueError as error:
      raise ValueError(f'{path}, {where}: {error}') from error


def _openai(
  x, talk, style: Format, outcome: float | None
) -> tuple[StoredTrajectory, ...]:
  made = _messages(x['messages'], style)
  score = _first(x, ('outcome', 'score', 'reward'), outcome)
  made = _rewarded(made, _reward(x))
  task = _task(made) if x.get('task') is None else x['task']
  return (conversation.trajectory(made, talk, task=task, outcome=score),)


def _verifiers(
  x, talk, style: Format, outcome: float | None
) -> tuple[StoredTrajectory, ...]:
  score = _first(x, ('reward',), outcome)
  prompt, completion = (
    [{'role': r, 'content': x[k]}]
    if isinstance(x[k], str)
    else numbers.listed(k, x[k])
    for k, r in _SIDES
  )
  made = _messages([*prompt, *completion], style)
  # The library leaves nothing of a message behind a prompt that is too long.
  steps = [s.get('tokens') or {} for s in _steps(x)]
  steps = [s for s in steps if s.get('completion_ids') != []]
  if steps and all(s.get('completion_ids') is not None for s in steps):
    made = [
      ForeignMessage(
        Message(AGENT, ''),
        prompt=s['prompt_ids'],
        tokens=s['completion_ids'],
        logp=None if (logp := s.get('completion_logprobs')) == [] else logp,
      )
      for s in steps
    ]
  made = _rewarded(made, score)
  number, name = x.get('example_id'), x.get('task')
  task = (
    f'{name or "task"}/{number}' if number is not None else json.dumps(prompt)
  )
  terms = {
    k: int(v) if isinstance(v, bool) else v
    for k, v in (x.get('metrics') or {}).items()
    if isinstance(v, int | float)
  }
  trajectory = conversation.trajectory(
    made, talk, task=task, outcome=score, terms=terms
  )
  return (trajectory,)


def _steps(x: Mapping[str, Any]) -> list[Any]:
  steps = x.get('trajectory')
  return [] if steps is None else numbers.listed('trajectory', steps)


_SIDES = (('prompt', 'user'), ('completion', AGENT))


def _preferences(
  x, talk, style: Format, outcome: float | None
) -> tuple[StoredTrajectory, ...]:
  """Returns the winner, then the loser; only their answers are trained on."""
  del outcome
  prompt = _side(x.get('prompt') or [], 'user')
  chosen, rejected = (_side(x[name], AGENT) for name in ('chosen', 'rejected'))
  same = [a == b for a, b in zip(chosen, rejected, strict=False)]
  shared = same.index(False) if False in same else len(same)
  head, sides = chosen[:shared], (chosen[shared:], rejected[shared:])
  # Some files repeat the prompt at the head of both, others give it there.
  prompt = head if head[: len(prompt)] == prompt else [*prompt, *head]
  if not prompt or not all(sides):
    raise ValueError(
      'chosen and rejected must answer one prompt in two ways, got'
      f' {len(prompt)} messages of a prompt; add the prompt, or leave the line'
      ' out'
    )
  task, out = json.dumps(prompt), []
  for side, score in zip(sides, (1.0, 0.0), strict=True):
    before, after = _messages(prompt, style), _messages(side, style)
    made = [m._replace(weight=0.0) for m in before] + after
    made = _rewarded(made, score)
    out.append(conversation.trajectory(made, talk, task=task, outcome=score))
  return tuple(out)


def _side(given: Any, role: str) -> list[Any]:
  """Returns messages: a text is one of the role."""
  if isinstance(given, str):
    return [{'role': role, 'content': given}]
  return list(numbers.listed('messages', given))


def _atif(
  x, talk, style: Format, outcome: float | None
) -> tuple[StoredTrajectory, ...]:
  if not str(x.get('schema_version', '')).startswith('ATIF-v1.'):
    raise ValueError(
      'schema_version must be ATIF-v1.0 to ATIF-v1.7, got'
      f' {x.get("schema_version")!r}'
    )
  messages: list[dict[str, Any]] = []
  for step in x['steps']:
    messages += _atif_step(step)
  made = _messages(messages, style)
  fields = {**(x.get('extra') or {}), **x}
  score = _first(fields, ('outcome', 'reward'), outcome)
  made = _rewarded(made, _reward(fields))
  task = _task(made)
  return (conversation.trajectory(made, talk, task=task, outcome=score),)


def _atif_step(step: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
  """Yields the messages of a step: what was written and what came back."""
  role = AGENT if step['source'] == 'agent' else step['source']
  calls, metrics = step.get('tool_calls') or (), step.get('metrics') or {}
  named = [(c['function_name'], c['arguments']) for c in calls]
  copied = step.get('is_copied_context') or step.get('llm_call_count') == 0
  yield {
    'role': role,
    'content': step.get('message'),
    'reasoning_content': step.get('reasoning_content'),
    'tool_calls': [
      {'id': c['tool_call_id'], 'function': {'name': n, 'arguments': a}}
      for c, (n, a) in zip(calls, named, strict=True)
    ],
    'prompt_token_ids': metrics.get('prompt_token_ids'),
    'token_ids': metrics.get('completion_token_ids'),
    'logprobs': metrics.get('logprobs'),
    'weight': 0.0 if copied else 1.0,
  }
  for result in (step.get('observation') or {}).get('results') or ():
    yield {
      'role': 'tool',
      'tool_call_id': result.get('source_call_id'),
      'content': result.get('content'),
    }


READERS: dict[str, Reader] = {
  'openai': _openai,
  'verifiers': _verifiers,
  'preferences': _preferences,
  'atif': _atif,
}


# What readers raise of a value of another form, beside ValueError.
_MISTAKES = (
  LookupError,
  TypeError,
  AttributeError,
  ArithmeticError,
  RecursionError,
)
ROLES = ('system', 'developer', 'user', AGENT, 'tool')


def _messages(xs: Sequence[Any], style: Format) -> list[ForeignMessage]:
  """Reads OpenAI messages; consecutive tool answers are merged."""
  made: list[ForeignMessage] = []
  names: dict[str, str] = {}  # of the tools, by the ids of calls
  answers: list[tuple[str, str]] = []
  for x in xs:
    OneOf(*ROLES).check('role', x['role'])
    if x['role'] == 'tool':
      call = x.get('tool_call_id')
      name = x.get('name') or names.get(call or '', 'tool')
      answers.append((name, _text(x.get('content'))))
      continue
    if answers:
      made.append(ForeignMessage(Message(style.role, style.answer(answers))))
      answers = []
    for call in x.get('tool_calls') or ():
      names[call.get('id') or ''] = call['function']['name']
    made.append(_message(x, style))
  return made


def _message(x: Mapping[str, Any], style: Format) -> ForeignMessage:
  text = _text(x.get('content'))
  if thought := _text(x.get('reasoning_content')):
    text = f'<think>\n{thought}\n</think>\n\n{text}'
  calls = [_call(call['function']) for call in x.get('tool_calls') or ()]
  if calls:
    text = f'{text}\n' * bool(text) + style.write(calls)
  logp = x.get('logprobs')
  if isinstance(logp, dict):
    logp = [token['logprob'] for token in logp['content']]
  tokens = x.get('token_ids')
  return ForeignMessage(
    Message(x['role'], text),
    prompt=x.get('prompt_token_ids'),
    tokens=tokens,
    logp=None if tokens is None else logp,
    weight=1.0 if x.get('weight') is None else x['weight'],
  )


def _call(function: Mapping[str, Any]) -> Call:
  arguments = function.get('arguments') or {}
  if isinstance(arguments, str):
    arguments = text_files.parse(arguments)
  if not (isinstance(function['name'], str) and isinstance(arguments, dict)):
    raise ValueError(
      'a call must have a name and an object of arguments, got'
      f' {function!r:.80}'
    )
  return Call(function['name'], arguments)


def _text(content: Any) -> str:
  """Returns a message's text, given as a string or as text parts."""
  if isinstance(content, list):
    if other := [p['type'] for p in content if p['type'] != 'text']:
      raise ValueError(
        f"parts of a message must be of type 'text', got {other[0]!r}; leave"
        ' the conversation out'
      )
    return ''.join(part['text'] for part in content)
  if not isinstance(content, str | None):
    raise ValueError(
      f'content must be a string or a list of text parts, got {content!r:.80}'
    )
  return content or ''


def _first(
  x: Mapping[str, Any], names: Sequence[str], default: float | None
) -> float:
  """Returns the first number or bool among the fields, else the default."""
  for name in names:
    if (value := x.get(name)) is not None:
      # Solved or not, as verifiers return it.
      value = int(value) if isinstance(value, bool) else value
      return numbers.number(name, value)
  if default is None:
    raise ValueError(
      f'one of {list(names)} must be a number; add it, or pass the outcome of'
      ' trajectories that lack it'
    )
  return default


def _reward(x: Mapping[str, Any]) -> float:
  return _first(x, ('reward',), 0.0)


def _rewarded(
  messages: list[ForeignMessage], reward: float
) -> list[ForeignMessage]:
  """Puts the reward on the agent's last message."""
  own = [i for i, x in enumerate(messages) if x.message.role == AGENT]
  return [
    x._replace(reward=reward) if i == (own or [-1])[-1] else x
    for i, x in enumerate(messages)
  ]


def _task(messages: Sequence[ForeignMessage]) -> str:
  """Returns the first message of a user, else the first of all."""
  texts = [x.message.content for x in messages if x.message.role == 'user']
  return (texts or [x.message.content for x in messages] or [''])[0]

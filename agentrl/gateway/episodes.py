"""Sessions as turns of a trajectory, and as conversations for graders."""

import functools
from collections.abc import Mapping
from typing import Any

from agentrl.env import base
from agentrl.env.splits import state_of
from agentrl.gateway.session import Session
from agentrl.rollout import message_spans
from agentrl.rollout.bundle import HostEnvBundle
from agentrl.rollout.pack import TurnData
from agentrl.text import chat_format


def turns_of(stage: HostEnvBundle, session: Session) -> list[TurnData]:
  """Returns the finished calls of a session, in the order of its rows."""
  out: list[TurnData] = []
  words, graph = stage.talk.words, session.graph
  for number in [n for n, call in graph.calls.items() if call.ids is None]:
    graph.drop(number)  # nobody was there to be told
  mark = functools.partial(base.spans, stage.family)
  for i, turn in enumerate(graph.turns()):
    prompt = graph.calls[turn.call].prompt
    completion = session.completions[turn.call]
    new, agent = prompt.ids[turn.start :], prompt.agent[turn.start :]
    text = words.decode(new)
    if prompt.messages:
      text = prompt.messages[-1].text
    branch = turn.first and i > 0
    info = {'branch': float(branch), 'foreign': float(prompt.foreign)}
    data = TurnData(
      new,
      completion,
      state_of(text),
      0.0,
      False,
      info,
      message_spans.of_message(mark, words, completion.ids),
      message_spans.of_context(agent),
      text,
      branch,
    )
    out.append(data)
  return out


def conversation(
  stage: HostEnvBundle, session: Session
) -> list[Mapping[str, Any]]:
  """Returns the messages of the last call and its answer; [] without a call."""
  if not session.completions:
    return []
  number = list(session.completions)[-1]  # the one that finished last
  call, words = session.graph.calls[number], stage.talk.words
  reply = chat_format.content(words, session.completions[number].ids)
  before = call.prompt.messages
  messages = [{'role': x.role, 'content': x.text} for x in before]
  if not before:
    messages = [{'role': 'user', 'content': words.decode(call.prompt.ids)}]
  return [*messages, {'role': 'assistant', 'content': reply}]

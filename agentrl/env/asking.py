"""Families whose messages ask a memory of texts, and a tool to ask by.

  <experience>Bako's home's mayor?</experience>
  Notes:
  _'s home's mayor? bm25 _ home; bm25 _ mayor
  <result>
  Nothing else is known.
  </result>

An environment knows no memory. It says what a message asks; what a bank has of
that (c.recall) stands before the answer, in the prompt of the next turn. So the
tool's own answer is one that holds with a memory, with an empty one and
without.
"""

import contextlib
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from agentrl.env import tool_env
from agentrl.env.base import EnvFamily
from agentrl.text.tool_calls.base import Call, Described, Format
from agentrl.tool import schema
from agentrl.tool.base import ToolError

NOTHING_ELSE = 'Nothing else is known.'
MOST = 1000  # characters of a query


@runtime_checkable
class AsksMemory(EnvFamily, Protocol):
  """Family whose messages can ask a memory."""

  @property
  def asks(self) -> bool:
    """Whether its settings allow that."""

  def asked(self, message: str) -> str:
    """Returns what a message asks, as environments read it; '': nothing.

    Args:
      message: the policy's own words; whatever they hold, nothing is raised
    """


class Experience:
  """Tool that asks what earlier attempts have taught."""

  name = 'experience'
  description = 'Recalls what earlier attempts have taught about the query.'
  schema = schema.schema(['query'], query='string')

  def __call__(self, query: str) -> str:
    """Says that nothing else is known.

    Raises:
      ToolError: the query is empty or too long.
    """
    checked(query)
    return NOTHING_ELSE


EXPERIENCE = Experience()


def query_of(message: str, form: Format, tools: Sequence[Described]) -> str:
  """Returns the first query of a message that the tool answers; '': none.

  Args:
    tools: all of the environment, so that calls are read as it reads them
  """
  for call in form.parse(message, tools)[: tool_env.CALLS]:
    if not isinstance(call, Call) or call.name != EXPERIENCE.name:
      continue
    if not schema.mismatch(call.args, EXPERIENCE.schema):
      with contextlib.suppress(ToolError):
        return checked(call.args['query'])
  return ''


def checked(query: str) -> str:
  """Returns a query without the space around it.

  Raises:
    ToolError: it is empty or too long.
  """
  query, name = query.strip(), EXPERIENCE.name
  if not 0 < len(query) <= MOST:
    raise ToolError(
      'arguments',
      f'{name} takes a query of 1 to {MOST} characters, got {len(query)}',
    )
  return query

"""Tool calls in the text of a message, in the formats that models know.

  hermes          <tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>
  llama_json      {"name": "f", "parameters": {"x": 1}}; {"name": ...}
  llama_pythonic  [f(x=1), g(y='a')]
  tagged          <f>one argument as it is</f>

What is meant as a call and is none becomes a sentence from which the agent can
learn, in the place of the call. Whatever stands before the first `</think>` is
thought, and no call is made from it; but a call that only a `</think>` in its
own argument hides is such a sentence. Arguments are values of JSON everywhere.
"""

from typing import Annotated

from agentrl import domain
from agentrl.text.tool_calls.base import Format
from agentrl.text.tool_calls.json_style import HERMES, LLAMA
from agentrl.text.tool_calls.python_style import PYTHONIC
from agentrl.text.tool_calls.xml_style import TAGGED

FORMATS = {
  'hermes': HERMES,
  'llama_json': LLAMA,
  'llama_pythonic': PYTHONIC,
  'tagged': TAGGED,
}
FormatName = Annotated[str, domain.OneOf(*FORMATS)]


def format_of(name: str) -> Format:
  """Returns the format of a name.

  Raises:
    ValueError: there is none.
  """
  if name not in FORMATS:
    raise ValueError(
      f'call format {name!r} is unknown; use one of {sorted(FORMATS)}'
    )
  return FORMATS[name]

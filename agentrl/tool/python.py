"""Python, run in the sandbox: a fresh process for each call."""

from agentrl.tool.base import ToolError
from agentrl.tool.sandbox.sandbox import Sandbox, SandboxLimits
from agentrl.tool.schema import schema

# Messages to the agent besides the output of its code.
_SAID = {
  'time': 'The code was stopped: it ran longer than {seconds:g} s.',
  'memory': 'The code was stopped: it may use {mib:g} MiB of memory.',
  'output': 'The code was stopped: it may print {output} bytes.',
  'processes': 'The code may start no process, and at most {threads} threads.',
  'files': (
    'The code may use only files of its own folder, {folder:g} MiB together.'
  ),
  'network': 'The code has no network.',
  'crash': 'The interpreter crashed.',
  'error': '',  # the traceback says it
}


class Python:
  """Tool that runs a program and answers with its output.

  Nothing is kept between calls: each starts in an empty folder without
  variables, so an agent has to repeat what it needs.
  """

  name = 'python'
  schema = schema(['code'], code='string')

  def __init__(self, sandbox: Sandbox, *, prelude: str = ''):
    """Stores the sandbox, and code to run before every call."""
    self._sandbox, self._prelude = sandbox, prelude
    self.description = (
      'Runs a Python program and returns what it prints. Calls share no state'
      ' and have no network access.'
    )

  def __call__(self, code: str) -> str:
    text, fault = self._sandbox.run(self._prelude + code)
    if fault:
      limits: SandboxLimits = self._sandbox.limits
      message = _SAID[fault].format(
        seconds=limits.seconds,
        mib=limits.memory / 2**20,
        output=limits.output,
        threads=limits.threads,
        folder=limits.folder / 2**20,
      )
      raise ToolError(fault, '\n'.join(filter(None, (text, message))))
    return text or 'The code ran and printed nothing.'

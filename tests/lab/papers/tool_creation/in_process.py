"""A sandbox that is none: runs tools that a test wrote itself, at once."""

import contextlib
import io

from agentrl.lab.papers.tool_creation import scripted
from agentrl.tool.sandbox.process import Outcome

FAULTY = [x for x in scripted.mistakes('') if "return ''" not in x]


class InProcess:
  """Runs code here; what has a known mistake is not run. Keeps the code."""

  def __init__(self):
    self.ran = []

  def run(self, code):
    self.ran.append(code)
    if any(end in code for end in FAULTY):
      return Outcome('', 'error')
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
      exec(code, {})
    return Outcome(out.getvalue(), '')

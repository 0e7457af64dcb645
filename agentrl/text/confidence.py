"""Confidence that a message states beside its answer.

  <answer>386</answer><confidence>0.8</confidence>

A number in [0, 1], as the chance that the answer is right. 0 also stands for
none, as agentrl/reward/calibration.py reads it.
"""

import re

from agentrl.text.tool_calls.base import spoken

RULE = (
  'After the answer write how sure you are of it, from 0 to 1, as'
  ' <confidence>0.8</confidence>.'
)
_STATED = re.compile('<confidence>(.*?)</confidence>', re.DOTALL)
_UNIT = re.compile(r'[01]?\.\d{1,9}|[01]', re.ASCII)


def write(confidence: float) -> str:
  """Writes the text that `read` reads as this confidence, up to nine digits."""
  return f'<confidence>{confidence:.9f}'.rstrip('0').rstrip('.') + (
    '</confidence>'
  )


def read(message: str) -> float:
  """Returns the confidence of a message, outside its thought.

  0 where there is none, or several, or it is no number in [0, 1].
  """
  values = _STATED.findall(spoken(message))
  text = values[0].strip() if len(values) == 1 else ''
  value = float(text) if _UNIT.fullmatch(text) else 0.0
  return value if value <= 1 else 0.0

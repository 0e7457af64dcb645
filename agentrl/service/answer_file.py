"""File of answers that were given: a JSON object a line, appended to.

What was answered is there after a kill, so that a resumed run asks nothing
twice and gets the same answers.
"""

import hashlib
import json
import os
import pathlib
import threading
from typing import Any


class AnswerFile:
  """Answers by the content that was asked about; used by several threads."""

  def __init__(self, path: str | os.PathLike[str] | None):
    """Reads the answers that are there.

    Args:
      path: made with the first line; None: in memory only
    """
    self._path = None if path is None else pathlib.Path(path)
    self._lock = threading.Lock()
    self._answers: dict[str, str] = {}
    self._cost = 0.0
    self._end = ''  # of a line that was cut where a run was killed
    if self._path is not None and self._path.exists():
      text = self._path.read_text(encoding='utf-8', errors='replace')
      for line in text.split('\n'):
        self._read(line)
      self._end = '' if text.endswith('\n') or not text else '\n'

  @property
  def cost(self) -> float:
    """Of all that was asked, with what earlier runs have paid."""
    return self._cost

  def get(self, key: str) -> str | None:
    with self._lock:
      return self._answers.get(key)

  def put(self, key: str, answer: str, **facts: float) -> str:
    """Adds an answer -> the first to this question, which stays.

    Args:
      facts: of how it came about, for who reads the file; `cost` is summed
    """
    with self._lock:
      new = self._answers.setdefault(key, answer) is answer
      if new or facts:
        self._append({'key': key, 'answer': answer, **facts})
      return self._answers[key]

  def note(self, **facts: float) -> None:
    """Adds what was asked in vain."""
    with self._lock:
      self._append(facts)

  def _append(self, line: dict[str, Any]) -> None:
    self._cost += line.get('cost', 0.0)
    if self._path is None:
      return
    self._path.parent.mkdir(parents=True, exist_ok=True)
    with self._path.open('a', encoding='utf-8') as file:
      file.write(f'{self._end}{json.dumps(line)}\n')
    self._end = ''

  def _read(self, line: str) -> None:
    try:
      entry = json.loads(line)
      self._cost += float(entry.get('cost', 0.0))
      self._answers.setdefault(str(entry['key']), str(entry['answer']))
    except (ValueError, KeyError, TypeError, AttributeError):
      return  # empty, cut where a run was killed, or no answer


def content_id(*content: Any) -> str:
  """Key of a question: of what it is put to, and of all that it says."""
  text = json.dumps(content, sort_keys=True)
  return hashlib.sha256(text.encode()).hexdigest()

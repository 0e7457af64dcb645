"""File of answers that were given: a JSON object a line, appended to."""

import hashlib
import json
import os
import pathlib
import threading


class AnswerFile:
  """Answers by the content that was asked about; used by several threads."""

  def __init__(self, path: str | os.PathLike[str] | None):
    """Reads the answers that are there.

    Args:
      path: made with the first answer; None: in memory only
    """
    self._path = None if path is None else pathlib.Path(path)
    self._lock = threading.Lock()
    self._answers: dict[str, str] = {}
    if self._path is not None and self._path.exists():
      for line in self._path.read_text(encoding='utf-8').split('\n'):
        self._read(line)

  def key(self, judge: str, identity: str, content: str) -> str:
    """Content id of a question to a judge that answers as `identity`."""
    text = json.dumps([judge, identity, content])
    return hashlib.sha256(text.encode()).hexdigest()

  def get(self, key: str) -> str | None:
    with self._lock:
      return self._answers.get(key)

  def put(self, key: str, answer: str) -> None:
    """Adds an answer; of two threads' to one question the first stays."""
    with self._lock:
      if self._answers.setdefault(key, answer) is not answer:
        return
      if self._path is None:
        return
      self._path.parent.mkdir(parents=True, exist_ok=True)
      with self._path.open('a', encoding='utf-8') as file:
        file.write(json.dumps({'key': key, 'answer': answer}) + '\n')

  def _read(self, line: str) -> None:
    try:
      entry = json.loads(line)
      self._answers.setdefault(str(entry['key']), str(entry['answer']))
    except (ValueError, KeyError, TypeError):
      return  # empty, or cut where a run was killed

"""Read-only queries of a SQLite database."""

import contextlib
import os
import pathlib
import sqlite3
import time
import urllib.parse
from typing import Any

from agentrl.tool.base import ToolError, shorten
from agentrl.tool.schema import schema

_ACTIONS = (
  sqlite3.SQLITE_SELECT,
  sqlite3.SQLITE_READ,
  sqlite3.SQLITE_RECURSIVE,
)
_PRAGMAS = (
  'foreign_key_list',
  'index_info',
  'index_list',
  'table_info',
  'table_list',
)
_FUNCTIONS_REFUSED = ('load_extension', 'fts3_tokenizer')
_LIMITS = {
  sqlite3.SQLITE_LIMIT_LENGTH: 1_000_000,  # bytes of a value or a row
  sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
  sqlite3.SQLITE_LIMIT_ATTACHED: 0,
}
_STEPS = 10_000  # of SQLite's machine between two looks at the clock


class Sql:
  """Tool that runs one SELECT (WITH, VALUES, informational PRAGMA).

  Every call has its own connection. For large sorts SQLite uses an anonymous
  temporary file that is removed with the call.
  """

  name = 'sql'
  schema = schema(['query'], query='string')

  def __init__(
    self,
    path: str | os.PathLike,
    *,
    rows: int = 50,
    characters: int = 4000,
    seconds: float = 5.0,
  ):
    """Opens a database file, with limits on output and time per call.

    Raises:
      ValueError: the file is not a database readable without writing.
    """
    for name, value in (('rows', rows), ('seconds', seconds)):
      if value <= 0:
        raise ValueError(f'{name} must be above 0, got {value}')
    self._uri = _uri(path)
    self._rows, self._characters, self._seconds = rows, characters, seconds
    self.description = (
      'Runs one read-only SQLite query and returns its rows. Tables:'
      f' {_tables(self._uri, path)}.'
    )

  def __call__(self, query: str) -> str:
    end = time.monotonic() + self._seconds
    with contextlib.closing(sqlite3.connect(self._uri, uri=True)) as connection:
      for kind, most in _LIMITS.items():
        connection.setlimit(kind, most)
      connection.set_authorizer(_allowed)
      connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
      try:
        cursor = connection.execute(query)
        rows = cursor.fetchmany(self._rows + 1)
      except sqlite3.Error as error:
        if time.monotonic() > end:
          raise ToolError(
            'time', f'The query was stopped after {self._seconds:g} s.'
          ) from error
        raise ToolError('error', f'The query failed: {error}.') from error
      return self._show(cursor.description, rows)

  def _show(self, described: Any, rows: list[tuple]) -> str:
    if not described:
      return 'The query returned no rows.'
    lines = [' | '.join(column[0] for column in described)]
    lines += [' | '.join(map(_cell, row)) for row in rows[: self._rows]]
    if not rows:
      lines.append('(no rows)')
    if len(rows) > self._rows:
      lines.append(f'(only the first {self._rows} rows are shown)')
    return shorten('\n'.join(lines), self._characters)


def _cell(value: Any) -> str:
  if value is None:
    return 'NULL'
  return f"x'{value.hex()}'" if isinstance(value, bytes) else str(value)


def _uri(path: str | os.PathLike) -> str:
  place = pathlib.Path(path).absolute()
  try:
    with place.open('rb') as file:
      head = file.read(20)
  except OSError as error:
    raise ValueError(f'database {place} cannot be read: {error}') from error
  if not head.startswith(b'SQLite format 3\0'):
    raise ValueError(f'{place} must be a SQLite database')
  if 2 in head[18:20]:
    raise ValueError(
      f'{place} must not use a write-ahead log, which even readers write to;'
      ' run PRAGMA journal_mode=DELETE on it once'
    )
  return f'file:{urllib.parse.quote(str(place))}?mode=ro'


def _allowed(action: int, first: str | None, second: str | None, *_) -> int:
  """Allows reading, computing and inspecting schemas."""
  good = action in _ACTIONS
  good |= action == sqlite3.SQLITE_PRAGMA and first in _PRAGMAS
  good |= action == sqlite3.SQLITE_FUNCTION and second not in _FUNCTIONS_REFUSED
  return sqlite3.SQLITE_OK if good else sqlite3.SQLITE_DENY


def _tables(uri: str, path: str | os.PathLike) -> str:
  """Lists tables as a(x, y), b(z), so the model need not ask."""
  try:
    with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
      tables = connection.execute(
        'SELECT m.name, group_concat(c.name, ", ") FROM sqlite_master m,'
        " pragma_table_info(m.name) c WHERE m.type IN ('table', 'view')"
        " AND m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' GROUP BY m.name"
        ' ORDER BY m.name'
      ).fetchall()
  except sqlite3.Error as error:
    raise ValueError(f'database {path} cannot be read: {error}') from error
  return ', '.join(f'{table}({columns})' for table, columns in tables) or 'none'

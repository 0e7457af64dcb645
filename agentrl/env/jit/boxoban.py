"""Sokoban levels from text files in the format of the Boxoban data set.

A level is a header '; N' and rows of text: '#' wall, '@' player, '$' box,
'.' target, '*' box on target, '+' player on target, ' ' floor. Source of the
data: https://github.com/google-deepmind/boxoban-levels
"""

import dataclasses
import functools
import itertools
import pathlib
import re
from collections.abc import Iterator

import numpy as np
from absl import logging

from agentrl.env import splits
from agentrl.env.jit import base, sokoban_levels
from agentrl.env.jit import sokoban_solver as solver
from agentrl.env.jit.sokoban_solver import SolverLevel
from agentrl.log import waiting as progress
from agentrl.runtime import text_files


@dataclasses.dataclass(frozen=True)
class Boxoban:
  """The levels of a file, or of all '*.txt' files of a folder.

  All levels get the size of the largest: smaller ones are padded with walls
  on the right and below, and their number is logged. Duplicates, also mirrored
  or rotated ones, are one task. The split follows from the level's key; about
  one level in five is in 'test'.
  """

  path: str
  max_nodes: int = 100  # of the search for demonstrations; 0: none are made

  def __post_init__(self):
    if self.max_nodes < 0:
      raise ValueError(f'max_nodes must be at least 0, got {self.max_nodes}')
    if not pathlib.Path(self.path).exists():
      raise ValueError(f'path={self.path!r} does not exist; name a level file')
    _files(self.path)

  def name(self) -> str:
    """Returns boxoban-<file>-<hash of content and settings>."""
    texts = [path.read_bytes() for path in _files(self.path)]
    content = b'\0'.join([*texts, str(self.max_nodes).encode()])
    stem = re.sub(r'[^A-Za-z0-9_.]+', '-', pathlib.Path(self.path).stem)
    return f'boxoban-{stem}-{splits.content_key(content)[:8]}'

  def shape(self) -> tuple[int, int, int]:
    """Returns (height, width, boxes) that fit every level."""
    return _shape(_read(self.path)[0])

  def sizes(self) -> dict[str, int]:
    """Counts distinct levels in each split."""
    _, keyed = _read(self.path)
    return {s: len(_of_split(keyed, s)) for s in splits.SPLITS}

  def tasks(
    self, split: str, count: int, seed: int
  ) -> Iterator[base.SolvedTask]:
    """Yields `count` levels of a split in an order drawn from the seed.

    Levels that are unsolvable, or whose search stops at `max_nodes`, have
    `actions=[]`. See `TaskSource`.
    """
    rng = splits.split_rng(split, seed)
    levels, keyed = _read(self.path)
    height, width, boxes = _shape(levels)
    small = sum(level.walls.shape != (height, width) for level in levels)
    if small:
      logging.warning(
        '%s: padded %d of %d levels to %d x %d with walls',
        self.path,
        small,
        len(levels),
        height,
        width,
      )
    chosen = _of_split(keyed, split)
    if count > len(chosen):
      raise ValueError(
        f'count must be at most {len(chosen)}, the distinct {split} levels of'
        f' {self.path}, got {count}'
      )
    for i in rng.permutation(len(chosen))[:count]:
      key, level = chosen[i]
      level = _pad(level, height, width)
      table = None  # for all tasks of the source or for none: they stack
      if boxes == 1:
        table = solver.distance_table(level.walls, level.targets)
      try:
        actions = solver.solve(level, self.max_nodes) if self.max_nodes else []
      except solver.SearchLimitError:
        actions = []
      task = sokoban_levels.level_task(level, table)
      yield base.SolvedTask(task, actions or [], key)


def _files(path: str) -> list[pathlib.Path]:
  """Lists the file itself, or the level files of a folder by name."""
  place = pathlib.Path(path)
  files = sorted(place.glob('*.txt')) if place.is_dir() else [place]
  if not files:
    raise ValueError(f"folder {path!r} must hold '*.txt' level files, got none")
  for file in files:
    if not file.is_file():  # a pipe would be waited for without end
      raise ValueError(f'{str(file)!r} must be a regular file')
  return files


def _read(path: str) -> tuple[list[SolverLevel], dict[str, SolverLevel]]:
  """Reads all levels as written, and the distinct ones by key.

  Raises:
    ValueError: naming the file, the level and the line of the first mistake.
  """
  files = _files(path)
  stamps = ((f.stat().st_mtime_ns, f.stat().st_size) for f in files)
  return _parse(path, tuple(files), tuple(stamps))


@functools.lru_cache(maxsize=2)  # a run asks for sizes, shape and both splits
def _parse(path: str, files: tuple[pathlib.Path, ...], stamps: tuple):
  del stamps  # files that change are read again
  levels: list[SolverLevel] = []
  keyed: dict[str, SolverLevel] = {}
  blocks = ((file, *block) for file in files for block in _blocks(file))
  for file, number, line, rows in progress.logged(
    blocks, f'Read %d levels of {path}'
  ):
    name = f'{file}, level {number}'
    levels.append(sokoban_levels.parse_level(rows, name, line))
    keyed.setdefault(sokoban_levels.level_key(levels[-1]), levels[-1])
  if not levels:
    raise ValueError(f"{path} must hold levels, each after a line '; N'")
  return levels, keyed


def _blocks(file: pathlib.Path) -> Iterator[tuple[str, int, list[str]]]:
  """Yields (level number, line of its first row, rows) of each level.

  A header or an empty line ends a level. Headers without rows are comments.
  """
  header, count, rows = '', 0, []
  rows_of = (row for _, row in text_files.lines(file))
  for line, row in enumerate(itertools.chain(rows_of, ['']), 1):
    if row.strip() and not row.startswith(';'):
      rows.append(row)
      continue
    if rows:
      yield header or str(count), line - len(rows), rows
      header, count, rows = '', count + 1, []
    if row.startswith(';'):
      header = row[1:].strip()


def _shape(levels: list[SolverLevel]) -> tuple[int, int, int]:
  """Returns (height, width, boxes) that fit all levels."""
  heights, widths = zip(*(level.walls.shape for level in levels), strict=True)
  boxes = max(int(level.boxes.sum()) for level in levels)
  return max(heights), max(widths), boxes


def _of_split(
  keyed: dict[str, SolverLevel], split: str
) -> list[tuple[str, SolverLevel]]:
  """Selects (key, level) of a split, each key once."""
  return [x for x in keyed.items() if splits.split_of(x[0]) == split]


def _pad(level: SolverLevel, height: int, width: int) -> SolverLevel:
  """Pads the level with walls below and on the right."""
  h, w = level.walls.shape
  more = ((0, height - h), (0, width - w))
  row, column = divmod(level.player, w)
  return SolverLevel(
    walls=np.pad(level.walls, more, constant_values=True),
    targets=np.pad(level.targets, more),
    boxes=np.pad(level.boxes, more),
    player=row * width + column,
  )

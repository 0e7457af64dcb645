"""A page of docs as its test reads it."""

import functools
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]


class Page:
  """A page of the repository, by its path."""

  def __init__(self, path: str):
    self.text = (ROOT / path).read_text(encoding='utf-8')

  def blocks(self, language: str) -> list[str]:
    pattern = rf'```{language}\n(.*?)```'
    return re.findall(pattern, self.text, re.DOTALL)

  @functools.cached_property
  def code(self) -> list[str]:
    """Blocks of Python, in order."""
    return self.blocks('python')

  @functools.cached_property
  def printed(self) -> str:
    """What the page says that its code prints."""
    pattern = r'^prints\n\n```\n(.*?)```'
    return ''.join(re.findall(pattern, self.text, re.DOTALL | re.MULTILINE))

  @functools.cached_property
  def files(self) -> dict[str, str]:
    """Files that the page shows, by their names."""
    pattern = r'^`([\w/]+\.py)`\n\n```python\n(.*?)```'
    return dict(re.findall(pattern, self.text, re.DOTALL | re.MULTILINE))

  def put(self, folder: pathlib.Path) -> None:
    """Writes the files of the page into a folder."""
    for name, code in self.files.items():
      (folder / name).write_text(code, encoding='utf-8')

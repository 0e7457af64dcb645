"""Hooks of mkdocs: the README as the first page, and links to source code.

  mkdocs build --strict

Pages link as GitHub shows them. On the site, files outside docs/ exist only in
the repository: with `repo_url` such links lead there, without it they are text.
"""

import pathlib
import posixpath
import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

BRANCH = 'main'
_LINK = re.compile(r'(!?)\[((?:[^\]\[]|\[[^\]]*\])*)\]\(([^)\s]+)\)')
_FENCE = re.compile(r'(^```.*?^```$)', re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
  """Adds README.md of the repository as the index."""
  readme = pathlib.Path(config.config_file_path).parent / 'README.md'
  text = from_docs(readme.read_text(encoding='utf-8'))
  files.append(File.generated(config, 'index.md', content=text))
  return files


def from_docs(text: str) -> str:
  """Rewrites links of the root's README as those of a page in docs/."""
  return _links(text, lambda link: posixpath.relpath(link, 'docs'))


def on_page_markdown(
  markdown: str, page: Page, config: MkDocsConfig, files: Files
) -> str:
  """Sends links that leave docs/ to the repository, or makes them text."""
  folder = posixpath.dirname(page.file.src_uri)
  return outside(markdown, folder, config.repo_url or '')


def outside(text: str, folder: str, repository: str) -> str:
  """Rewrites links that leave docs/; `folder` is the page's, below docs/."""

  def moved(link: str) -> str | None:
    path, _, anchor = link.partition('#')
    path = posixpath.normpath(posixpath.join('docs', folder, path))
    if path.startswith('docs/') and not path.endswith(('.csv', '.json')):
      return link
    if not repository:
      return None
    address = f'{repository.rstrip("/")}/blob/{BRANCH}/{path}'
    return f'{address}#{anchor}' if anchor else address

  return _links(text, moved)


def _links(text: str, change) -> str:
  """Applies `change` to relative links; where it gives None only text stays."""

  def replaced(match: re.Match) -> str:
    image, label, link = match.groups()
    if link.startswith('#') or re.match(r'\w+:', link):
      return match[0]
    path, _, anchor = link.partition('#')
    new = change(path + (f'#{anchor}' if anchor else ''))
    return label if new is None else f'{image}[{label}]({new})'

  parts = _FENCE.split(text)
  parts[::2] = [_LINK.sub(replaced, part) for part in parts[::2]]
  return ''.join(parts)

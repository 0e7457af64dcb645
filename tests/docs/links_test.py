"""Links of README, CONTRIBUTING and docs lead to files and headings."""

import collections
import pathlib
import re

import pytest

from tests.docs.pages import ROOT, Page

PAGES = [*ROOT.glob('*.md'), *sorted((ROOT / 'docs').rglob('*.md'))]
CODE = re.compile(r'```.*?```|<!--.*?-->', re.DOTALL)
LINK = re.compile(r'\]\(([^)\s]+)\)|<img src="([^"]+)"')
# Of files in backticks, those that a reader is told to write.
YOURS = ('agentrl/reward/mine.py', *Page('docs/NEW_METHOD.md').files)
ROOTS = (ROOT, ROOT / 'agentrl')
NAMED = re.compile(r'`((?:agentrl|configs|experiments|tests|tool)/[\w/]+\.py)`')


def text_of(path: pathlib.Path) -> str:
  return CODE.sub('', path.read_text(encoding='utf-8'))


def anchors(text: str) -> set[str]:
  """The anchors that GitHub gives headings; repeated ones are counted on."""
  seen: collections.Counter[str] = collections.Counter()
  out = set()
  for heading in re.findall(r'^#+ (.+)$', text, re.MULTILINE):
    name = re.sub(r'[^\w -]', '', heading.lower()).replace(' ', '-')
    out.add(f'{name}-{seen[name]}' if seen[name] else name)
    seen[name] += 1
  return out


def broken(page: pathlib.Path) -> list[str]:
  """Links and names of files that lead nowhere; other sites are left out."""
  wrong = []
  for groups in LINK.findall(text_of(page)):
    link = ''.join(groups)
    if re.match(r'\w+:', link):
      continue
    path, _, anchor = link.partition('#')
    target = page.parent / path if path else page
    if not target.exists() or (
      anchor and anchor not in anchors(text_of(target))
    ):
      wrong.append(link)
  named = NAMED.findall(text_of(page))
  there = [x for x in named if any((y / x).is_file() for y in ROOTS)]
  return wrong + [x for x in named if x not in (*there, *YOURS)]


@pytest.mark.parametrize('page', PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
  assert broken(page) == []


def test_every_page_is_linked():
  linked = {
    (page.parent / ''.join(groups).partition('#')[0]).resolve()
    for page in PAGES
    for groups in LINK.findall(text_of(page))
  }
  alone = {p.name for p in PAGES if p.resolve() not in linked}
  assert alone <= {'README.md', 'RENAMED.md'}, (
    'link them from README.md or a page of docs'
  )


def test_the_reader_of_links_finds_broken_ones(tmp_path):
  """So that the tests above can fail."""
  page = tmp_path / 'a.md'
  (tmp_path / 'b.md').write_text('# One: two\n\n## `x` y\n\n## `x` y\n')
  page.write_text(
    '[1](b.md) [2](b.md#one-two) [3](b.md#x-y-1) [4](https://x.y/z)\n'
    '[5](c.md) [6](b.md#no) <img src="d.png">\n```\n[7](e.md)\n```\n'
    '`agentrl/loop.py` `agentrl/no.py`\n'
  )
  assert broken(page) == ['c.md', 'b.md#no', 'd.png', 'agentrl/no.py']

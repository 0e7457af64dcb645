"""The site's hooks move links, and its navigation names every page."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def site():
  pytest.importorskip('mkdocs', reason="pip install -e '.[docs]'")
  from docs.generate import site

  return site


def test_every_page_is_in_the_navigation():
  text = (ROOT / 'mkdocs.yml').read_text(encoding='utf-8')
  named = set(re.findall(r'([\w/-]+\.md)$', text, re.M)) - {'index.md'}
  pages = {
    str(path.relative_to(ROOT / 'docs'))
    for path in (ROOT / 'docs').rglob('*.md')
  }
  assert named == {x for x in pages if not x.startswith('methods/')}


def test_links_of_the_readme_are_moved_into_docs():
  text = '![p](docs/a.svg) [x](docs/A.md#b) [y](agentrl/c.py) [z](https://u.v)'
  assert site().from_docs(text) == (
    '![p](a.svg) [x](A.md#b) [y](../agentrl/c.py) [z](https://u.v)'
  )


@pytest.mark.parametrize(
  ('repository', 'want'),
  [
    ('', '`c` [d](../D.md)'),
    (
      'https://x.y/z',
      '[`c`](https://x.y/z/blob/main/configs/c.py) [d](../D.md)',
    ),
  ],
)
def test_links_to_source_lead_to_the_repository(repository, want):
  text = '[`c`](../../configs/c.py) [d](../D.md)'
  assert site().outside(text, 'howto', repository) == want


def test_code_is_left_alone():
  text = '```\n[c](../../configs/c.py)\n```\n'
  assert site().outside(text, 'howto', '') == text


@pytest.mark.nightly
def test_it_asks_no_other_server_for_anything(tmp_path):
  site()
  command = [sys.executable, '-m', 'mkdocs', 'build', '-q', '--strict']
  subprocess.run(
    [*command, f'--site-dir={tmp_path}'],
    cwd=ROOT,
    check=True,
    capture_output=True,
  )
  asks = re.compile(r'<(?:script|link|img|iframe)[^>]*(?:src|href)=.?https?:')
  pages = list(tmp_path.rglob('*.html'))
  assert len(pages) > 200
  for page in pages:
    if page.parent.name != 'results':  # pages of studies, which open from disk
      assert not asks.search(page.read_text(encoding='utf-8')), page
  for sheet in tmp_path.rglob('*.css'):
    assert not re.search(r'url\(.?https?:|@import', sheet.read_text())

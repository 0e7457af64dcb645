"""A page as a parser reads it."""

import collections
import html.parser

VOID = {'br', 'meta'}


class Page(html.parser.HTMLParser):
  """Checks the nesting while it reads; keeps tables, links and text."""

  def __init__(self, text: str):
    super().__init__()
    self.open, self.tables, self.attributes = [], [], []
    self.count, self.words = collections.Counter(), []
    self.feed(text)
    self.close()
    assert not self.open, f'never closed: {self.open}'

  def handle_starttag(self, tag, attrs):
    self.count[tag] += 1
    self.attributes += [(tag, *a) for a in attrs]
    if tag not in VOID:
      self.open.append(tag)
    if tag == 'table':
      self.tables.append([])
    if tag == 'tr':
      self.tables[-1].append([])
    if tag in ('td', 'th'):
      self.tables[-1][-1].append('')

  def handle_endtag(self, tag):
    assert self.open.pop() == tag, tag

  def handle_data(self, data):
    if self.open and self.open[-1] != 'style':
      self.words.append(data)
    if 'td' in self.open or 'th' in self.open:
      self.tables[-1][-1][-1] += data

  @property
  def text(self) -> str:
    return ' '.join(' '.join(self.words).split())

  def lines(self, *heads: str) -> list[list[list[str]]]:
    """The bodies of the tables with such heads."""
    found = [t for t in self.tables if set(heads) <= set(t[0])]
    return [t[1:] for t in found]

"""HTML by construction: what is not Markup is escaped, every tag is closed."""

import html

VOID = ('br', 'meta')


class Markup(str):
  """Text that is HTML already."""

  __slots__ = ()


def join(*content: str | None) -> Markup:
  """The pieces one after the other; None is left out."""
  return Markup(
    ''.join(
      piece if isinstance(piece, Markup) else html.escape(str(piece))
      for piece in content
      if piece is not None
    )
  )


def element(tag: str, /, *content: str | None, **attributes) -> Markup:
  """<tag attributes>content</tag>.

  An attribute's trailing underscore is dropped (class_), another one is a
  hyphen (aria_label); an attribute that is None is left out.
  """
  told = ''.join(
    f' {name.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
    for name, value in attributes.items()
    if value is not None
  )
  if tag in VOID:
    return Markup(f'<{tag}{told}>')
  return Markup(f'<{tag}{told}>{join(*content)}</{tag}>')


def note(text: str) -> Markup:
  """A paragraph that explains, however its source is broken into lines."""
  return element('p', ' '.join(text.split()), class_='note')


def page(
  title: str, style: str, *body: str | None, again: int | None = None
) -> str:
  """A whole page that can load nothing and run nothing, whatever a label says.

  again: seconds after which a browser reads it anew
  """
  policy = "default-src 'none'; style-src 'unsafe-inline'"
  names = {
    'viewport': 'width=device-width, initial-scale=1',
    'color-scheme': 'light dark',
  }
  metas = [
    {'charset': 'utf-8'},
    {'http_equiv': 'Content-Security-Policy', 'content': policy},
    *({'name': name, 'content': told} for name, told in names.items()),
  ]
  if again is not None:
    metas.append({'http_equiv': 'refresh', 'content': again})
  head = element(
    'head',
    *(element('meta', **meta) for meta in metas),
    element('title', title),
    element('style', Markup(style)),
  )
  whole = element('html', head, element('body', *body), lang='en')
  return f'<!DOCTYPE html>\n{whole}'

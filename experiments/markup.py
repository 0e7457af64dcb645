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

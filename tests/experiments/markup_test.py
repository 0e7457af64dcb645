"""Every tag is closed and every text escaped."""

from experiments import markup


def test_markup_escapes_and_closes():
  made = markup.element('p', 'a < b', markup.Markup('<br>'), None, class_='"')
  assert made == '<p class="&quot;">a &lt; b<br></p>'
  assert markup.element('meta', http_equiv='x') == '<meta http-equiv="x">'

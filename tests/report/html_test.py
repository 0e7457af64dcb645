"""Every tag is closed and every text escaped."""

from agentrl.report import html


def test_markup_escapes_and_closes():
  made = html.element('p', 'a < b', html.Markup('<br>'), None, class_='"')
  assert made == '<p class="&quot;">a &lt; b<br></p>'
  assert html.element('meta', http_equiv='x') == '<meta http-equiv="x">'

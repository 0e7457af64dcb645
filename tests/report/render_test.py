"""Every text is escaped, every tag closed, and nothing can be loaded."""

from agentrl.report import render, svg

HOSTILE = '<script>alert("1")</script>'


def test_a_page_escapes_and_loads_nothing():
  text = render.render('study.html.j2', title=HOSTILE, report={})
  assert '<title>&lt;script&gt;alert(&#34;1&#34;)&lt;/script&gt;' in text
  assert '<script' not in text
  assert "content=\"default-src 'none'; style-src 'unsafe-inline'\"" in text
  assert text.startswith('<!DOCTYPE html>')
  assert text.rstrip().endswith('</body></html>')


def test_the_style_sheet_is_in_the_page_as_it_is():
  text = render.render('study.html.j2', title='x', report={})
  assert '--mono: ui-monospace, "SF Mono"' in text
  assert all(f'--k{i}:' in text for i in range(svg.COLORS))

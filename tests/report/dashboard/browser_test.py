"""The dashboard in a real browser: it fits, it is seen, it loads nothing."""

import pytest

from agentrl.configs import grpo, oprl
from agentrl.report.dashboard import curves
from agentrl.report.dashboard import page as dashboard_page
from tests.report import chromium, made_up_run

pytestmark = pytest.mark.slow
WIDE = 'document.documentElement.scrollWidth'
# The smallest letters as they are seen: those of pictures shrink with them.
SMALL = """Math.min(...[...document.querySelectorAll('.chart')].map(svg =>
  svg.getBoundingClientRect().width / svg.viewBox.baseVal.width *
  parseFloat(getComputedStyle(svg.querySelector('text')).fontSize)))"""
INK = """[...document.querySelectorAll('.chart .line path')].filter(
  x => getComputedStyle(x).stroke !== 'none').length"""


@pytest.fixture(scope='module')
def page(tmp_path_factory):
  root = tmp_path_factory.mktemp('runs')
  paths = [str(root / 'oprl'), str(root / 'grpo')]
  made_up_run.write(root / 'oprl', oprl.get_config('tiny'), rl=300)
  made_up_run.write(root / 'grpo', grpo.get_config('tiny'), rl=120)
  text = dashboard_page.page(curves.read(paths))
  (root / 'dashboard.html').write_text(text, encoding='utf-8')
  return f'file://{root}/dashboard.html'


@pytest.fixture(scope='module')
def browser():
  with chromium.browser() as browser:
    yield browser


@pytest.mark.parametrize('dark', [False, True], ids=['light', 'dark'])
@pytest.mark.parametrize('width', [1280, 375])
def test_it_fits(browser, page, width, dark):
  browser.size(width, 1400, dark=dark)
  browser.asked.clear()
  browser.do('Page.navigate', url='about:blank')
  browser.do('Page.navigate', url=page)
  browser.wait("document.querySelector('#numbers')")
  assert browser.js(WIDE) <= width
  assert browser.js(SMALL) >= 11
  assert browser.js(INK) > 20
  assert all(x.startswith(('file:', 'about:')) for x in browser.asked)
  assert not browser.said


def test_all_numbers_unfold(browser, page):
  browser.size(375, 700)
  browser.do('Page.navigate', url=page)
  browser.click('#numbers summary')
  browser.wait("document.querySelector('#numbers details').open")
  assert browser.js(WIDE) <= 375

"""The viewer in a real browser, used as a person uses it."""

import pytest

from agentrl.log import trajectories
from agentrl.report.trajectories import page as trajectories_page
from tests.report import chromium, made_up_log

pytestmark = pytest.mark.slow
WIDTHS = (1280, 375)
VIEWS = {
  'list': 'list/',
  'one': 'one/0',
  'group': 'group/0',
  'tree': 'tree/0',
  'times': 'side/0,5',
}
STATUSES = "[...document.querySelectorAll('.list .chip')].map(x => x.innerText)"
SHADES = """[...document.querySelectorAll('.said button')].map(
  x => getComputedStyle(x).backgroundColor)"""


@pytest.fixture(scope='module')
def browser():
  with chromium.browser() as browser:
    yield browser


@pytest.fixture(params=['server', 'file'])
def page(request, browser, server, folder, tmp_path):
  """The list, served or in a file: all that follows works in both."""
  browser.size(1280, 900)
  url = server.url
  if request.param == 'file':
    out = tmp_path / 'some.html'
    trajectories_page.save(
      trajectories.Log(folder), '<b>run</b>', str(out), {}, 99
    )
    url = f'file://{out}'
  browser.said.clear()
  browser.do('Page.navigate', url='about:blank')
  browser.open(url)
  yield browser
  assert not browser.said


def test_filter_open_and_colour(page):
  assert page.js(STATUSES).count('solved') == 5
  page.choose('[name=status]', 'turn_limit')
  page.wait(f"{STATUSES}.every(x => x === 'turn limit')")
  assert len(page.js(STATUSES)) == 5
  page.choose('[name=task]', '3')
  page.wait(f'{STATUSES}.length === 4')
  page.choose('[name=order]', 'best')
  page.wait("document.querySelector('.list tbody a').hash === '#one/1'")
  page.click('.list tbody a')
  page.wait("document.querySelectorAll('.turn').length === 4")
  page.choose('#colour', 'implicit_prm.step')
  shades = page.js(SHADES)
  assert len(shades) == 4 * 7
  left, down, up, right = shades[::7]
  assert len({left, down, up}) == 3
  assert up == right
  legend = page.js("document.getElementById('legend').innerText")
  assert legend.split() == ['−0.400', '0.200']
  page.choose('#colour', 'implicit_prm.token')
  assert len(set(page.js(SHADES)[:7])) > 4
  page.choose('#colour', '')
  assert len(set(page.js(SHADES))) == 1


def test_a_token_tells_its_numbers(page):
  page.js("location.hash = '#one/0'")
  page.wait("document.querySelectorAll('.turn').length === 3")
  page.click('#turn-1 .said button', 'down')
  told = page.wait("document.querySelector('#turn-1 .token').innerText")
  for name in ('id 45', 'logp', 'implicit prm.token', 'advantage', 'span call'):
    assert name in told
  page.click('#turn-1 .said button', 'down')
  page.wait("document.querySelector('#turn-1 .token').hidden")


def test_a_turn_tells_what_judges_said(page):
  page.js("location.hash = '#one/0'")
  page.wait("document.querySelectorAll('.turn').length === 3")
  turn = "document.querySelector('#turn-1')"
  shown = page.js(f'{turn}.innerText')
  assert 'judged by judge number: 0.500' in shown
  assert 'style by judge grade: no score: it is late' in shown
  assert 'How <b>good</b>?' not in shown
  page.js(f"{turn}.querySelector('.judged').open = true")
  shown = page.wait(f"{turn}.innerText.includes('half') && {turn}.innerText")
  assert 'How <b>good</b>?' in shown
  assert 'judged by' not in page.js(
    "document.querySelector('#turn-0').innerText"
  )


def test_a_message_tells_its_versions(page):
  page.js("location.hash = '#one/9'")
  page.wait("document.querySelectorAll('.turn').length === 3")
  assert '3–5' in page.js("document.querySelector('.facts').innerText")
  shown = page.js(
    "[...document.querySelectorAll('.turn')].map(x => x.innerText)"
  )
  assert ['version 3–5' in x for x in shown] == [False, False, True]
  assert 'version 3' in shown[0]
  page.click('#turn-2 .said button', 'down')
  told = page.wait("document.querySelector('#turn-2 .token').innerText")
  assert 'version 5' in told


def test_follow_a_branch(page):
  page.js("location.hash = '#one/1'")
  page.click('#tree')
  page.wait("document.querySelectorAll('.tree .leaf').length === 4")
  # Two first turns: one shared by three members, one of the last alone.
  turns = "[...document.querySelectorAll('.tree .k')].map(x => x.innerText)"
  assert page.js(turns).count('turn 0') == 2
  assert len(page.js(turns)) == 9
  assert page.js(
    "document.querySelectorAll('.tree > li > ul > li > ul > li > ul').length"
  )
  page.click('.tree summary .value')
  page.wait("document.querySelector('.tree details').open")
  page.click('.tree .leaf', 'member 2')
  page.wait("location.hash === '#one/2'")
  page.wait("document.querySelectorAll('.turn').length === 3")
  said = page.js("document.querySelector('#turn-1 .said').innerText")
  assert 'right' in said
  page.click('#back')
  page.wait("document.querySelector('.list')")


def test_side_by_side(page):
  page.js("location.hash = '#one/0'")
  page.click('#group')
  page.wait("document.querySelectorAll('.side thead a').length === 4")
  assert page.js("document.querySelectorAll('.side tbody tr').length") == 4
  page.js('history.back()')
  page.wait("document.querySelector('#same')")
  page.choose('#same', '5')
  page.wait("document.querySelectorAll('.side thead a').length === 2")
  heads = page.js("document.querySelector('.side thead').innerText")
  assert 'step 1, member 0' in heads
  assert 'step 9, member 0' in heads


def test_hostile_text_is_text(page):
  page.js("location.hash = '#one/4'")
  page.wait("document.querySelectorAll('.turn').length === 1")
  assert '<b>run</b>' in page.js('document.title')
  shown = page.js("document.querySelector('.read').innerText")
  for part in (
    '<script>document.title',
    '<img src=x onerror',
    '<b id="bold">',
    '␛[31mred',
    '␇',
    '⟨U+202E⟩revird',
    '␀⟨U+200B⟩javascript:',
    '&lt;i&gt; @STYLE@ 😀',
    'more characters',
  ):
    assert part in shown
  count = "document.querySelectorAll('.turn :is(img, script, b#bold)').length"
  assert page.js(count) == 0
  assert page.js("document.querySelector('.said').innerText").count('<b>') == 1
  assert page.js("document.querySelector('.read').innerText.length") < 25_000
  page.click('.read button')
  page.wait("document.querySelector('.read').innerText.length > 30000")
  assert page.js('document.documentElement.scrollWidth') <= 1280


def test_nothing_but_the_server_is_asked(browser, server):
  browser.asked.clear()
  browser.do('Page.navigate', url='about:blank')
  browser.open(server.url + '#one/4')
  assert browser.asked
  assert all(x.startswith((server.url, 'about:')) for x in browser.asked)


def test_the_policy_stops_a_script_that_got_in(browser, server):
  """So that the tests above would notice: it is refused, and complained of."""
  browser.open(server.url)
  browser.said.clear()
  browser.js("""(() => {
    const s = document.createElement('script');
    s.textContent = 'document.title = "hacked"';
    document.body.append(s);
  })()""")
  assert browser.js('document.title') != 'hacked'
  assert any('Content Security Policy' in x for x in browser.said)
  browser.said.clear()


@pytest.mark.parametrize('dark', [False, True], ids=['light', 'dark'])
@pytest.mark.parametrize('width', WIDTHS)
def test_every_view_fits(browser, server, width, dark):
  for route in VIEWS.values():
    browser.size(width, 800 if width > 600 else 700, dark=dark)
    browser.do('Page.navigate', url='about:blank')
    browser.open(f'{server.url}#{route}')
    assert browser.js('document.documentElement.scrollWidth') <= width
    assert not browser.js("document.querySelector('.problem')")
    small = browser.js("""Math.min(...[...document.querySelectorAll('main *')]
      .map(x => parseFloat(getComputedStyle(x).fontSize)))""")
    assert small >= 12


def test_a_very_long_message_is_shown_in_parts(browser, tmp_path):
  long = made_up_log.turn(0, 0, 'left', (0.1, 0.2, 0.3))
  long['said']['pieces'] = [f'w{i} ' for i in range(2500)]
  w = trajectories.TrajectoryWriter(tmp_path, resume_after=None)
  w.write(made_up_log.trajectory(1, 0, [long]))
  w.close()
  out = tmp_path / 'long.html'
  trajectories_page.save(trajectories.Log(tmp_path), 'long', str(out), {}, 9)
  browser.open(f'file://{out}#one/0')
  count = "document.querySelectorAll('.said > *').length"
  assert browser.wait(count) == 2001
  browser.click('.said button', '500 more tokens')
  browser.wait(f'{count} === 2500')

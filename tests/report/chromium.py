"""A real browser, driven through its DevTools protocol over a pipe."""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

import pytest

NAMES = ('chromium', 'chromium-browser', 'google-chrome')
PATIENCE = 60  # seconds for one answer, on a machine that is busy


def program() -> str:
  found = [path for path in map(shutil.which, NAMES) if path]
  if not found:
    pytest.skip(
      'there is no browser to open the page in; on Debian:'
      ' apt-get update && apt-get install -y chromium'
    )
  return found[0]


class Browser:
  """One page; what it complains of is in `said`."""

  def __init__(self, to: int, back: int):
    self._to, self._back = to, back
    self._data, self._count, self._session = b'', 0, None
    self.said: list[str] = []
    self.asked: list[str] = []  # addresses
    target = self.do('Target.createTarget', url='about:blank')['targetId']
    self._session = self.do(
      'Target.attachToTarget', targetId=target, flatten=True
    )['sessionId']
    for domain in ('Runtime', 'Page', 'Log', 'Network'):
      self.do(f'{domain}.enable')

  def do(self, method: str, **params):
    """The result of one command."""
    self._count += 1
    command = {'id': self._count, 'method': method, 'params': params}
    if self._session:
      command['sessionId'] = self._session
    os.write(self._to, json.dumps(command).encode() + b'\0')
    while True:
      told = self._next()
      if told.get('id') == self._count:
        assert 'error' not in told, told
        return told['result']
      self._note(told)

  def _next(self) -> dict:
    while b'\0' not in self._data:
      ready, _, _ = select.select([self._back], [], [], PATIENCE)
      assert ready, 'the browser does not answer'
      more = os.read(self._back, 1 << 20)
      assert more, 'the browser has ended'
      self._data += more
    first, _, self._data = self._data.partition(b'\0')
    return json.loads(first)

  def _note(self, told: dict) -> None:
    params = told.get('params', {})
    if told['method'] == 'Log.entryAdded':
      self.said.append(params['entry']['text'])
    elif told['method'] == 'Runtime.exceptionThrown':
      self.said.append(json.dumps(params['exceptionDetails']))
    elif told['method'] == 'Runtime.consoleAPICalled':
      self.said.append(json.dumps(params['args']))
    elif told['method'] == 'Network.requestWillBeSent':
      self.asked.append(params['request']['url'])

  def js(self, expression: str):
    """The value of an expression, a promise waited for."""
    found = self.do(
      'Runtime.evaluate',
      expression=expression,
      awaitPromise=True,
      returnByValue=True,
    )
    assert 'exceptionDetails' not in found, found
    return found['result'].get('value')

  def wait(self, expression: str):
    """The first value of the expression that is true; true for an element."""
    expression = f'((x) => x instanceof Node || x)({expression})'
    deadline = time.monotonic() + PATIENCE
    while not (value := self.js(expression)):
      assert time.monotonic() < deadline, f'{expression}: {self.js(TEXT)}'
      time.sleep(0.05)
    return value

  def open(self, url: str) -> None:
    self.do('Page.navigate', url=url)
    self.wait(DRAWN)

  def click(self, selector: str, within: str = '') -> None:
    """Clicks with the mouse on the element that has the text."""
    place = self.wait(f"""(() => {{
      const e = [...document.querySelectorAll({json.dumps(selector)})].find(
        (x) => x.textContent.includes({json.dumps(within)}));
      if (!e) return null;
      e.scrollIntoView({{block: 'center', inline: 'center'}});
      const r = e.getBoundingClientRect();
      return [r.x + r.width / 2, r.y + r.height / 2];
    }})()""")
    at = dict(x=place[0], y=place[1], button='left', clickCount=1)
    for kind in ('mousePressed', 'mouseReleased'):
      self.do('Input.dispatchMouseEvent', type=kind, **at)

  def choose(self, selector: str, value: str) -> None:
    """Picks an option, as a user does."""
    selector = json.dumps(selector)
    self.wait(f'document.querySelector({selector})')
    self.js(f"""(() => {{
      const e = document.querySelector({selector});
      e.value = {json.dumps(value)};
      if (e.value !== {json.dumps(value)}) throw Error('no such choice');
      e.dispatchEvent(new Event('change', {{bubbles: true}}));
    }})()""")

  def size(self, width: int, height: int, *, dark: bool = False) -> None:
    self.do(
      'Emulation.setDeviceMetricsOverride',
      width=width,
      height=height,
      deviceScaleFactor=1,
      mobile=width < 600,
    )
    scheme = {'name': 'prefers-color-scheme'}
    scheme['value'] = 'dark' if dark else 'light'
    self.do('Emulation.setEmulatedMedia', features=[scheme])

  def picture(self, path) -> None:
    data = self.do('Page.captureScreenshot', format='png')['data']
    path.write_bytes(base64.b64decode(data))


DRAWN = "document.getElementById('view')?.dataset.drawn"
TEXT = 'document.body.innerText.slice(0, 3000)'


@contextlib.contextmanager
def browser():
  """A browser that ends with the block."""
  here, to = os.pipe()
  back, there = os.pipe()
  with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as user:
    # The shell gives the pipes the two numbers that the browser looks for.
    line = f'exec "$@" 3<&{here} 4>&{there}'
    command = [
      'bash',
      '-c',
      line,
      'bash',
      program(),
      '--headless=new',
      '--no-sandbox',
      '--disable-gpu',
      '--disable-dev-shm-usage',
      '--remote-debugging-pipe',
      f'--user-data-dir={user}',
      '--no-first-run',
      '--hide-scrollbars',
    ]
    process = subprocess.Popen(
      command,
      pass_fds=(here, there),
      stdout=subprocess.DEVNULL,
      stderr=subprocess.DEVNULL,
    )
    os.close(here)
    os.close(there)
    try:
      yield Browser(to, back)
    finally:
      process.kill()
      process.wait()
      os.close(to)
      os.close(back)

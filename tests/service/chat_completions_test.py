"""The client of OpenAI-compatible servers, against a recorded server."""

import dataclasses
import http.server
import json
import math
import pathlib
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentrl.service import chat_completions, json_post
from agentrl.service.base import ServiceFault
from agentrl.service.chat_completions import ChatCompletions, Endpoint
from agentrl.text.message import Message
from tests import errors, hostile

KEY = 'secret-key'
# What the openai package sends for the call of `asked`.
REQUEST = json.loads(
  (pathlib.Path(__file__).parent / 'recorded/request.json').read_text('utf-8')
)
MESSAGES = [Message('system', 'Be brief.'), Message('user', 'below 15? é')]


def completion(text='yes', reason='stop', refusal=None, tokens=(9, 1)):
  message = {'role': 'assistant', 'content': text, 'refusal': refusal}
  usage = dict(zip(('prompt_tokens', 'completion_tokens'), tokens, strict=True))
  return {
    'id': 'c1',
    'object': 'chat.completion',
    'created': 1,
    'model': 'a-model',
    'choices': [{'index': 0, 'message': message, 'finish_reason': reason}],
    'usage': usage,
  }


class Server(http.server.ThreadingHTTPServer):
  """Answers with what was recorded, in order; the last one again and again."""

  def __init__(self):
    self.script, self.requests = [], []
    self.lock = threading.Lock()
    super().__init__(('127.0.0.1', 0), Handler)

  @property
  def address(self):
    return f'http://127.0.0.1:{self.server_port}/v1'


class Handler(http.server.BaseHTTPRequestHandler):
  def do_POST(self):
    body = self.rfile.read(int(self.headers['Content-Length']))
    headers = {k.lower(): v for k, v in self.headers.items()}
    with self.server.lock:
      self.server.requests.append((self.path, headers, json.loads(body)))
      script = self.server.script
      status, out, extra = script.pop(0) if len(script) > 1 else script[0]
    data = out if isinstance(out, bytes) else json.dumps(out).encode()
    self.send_response(status)
    for name, value in {**extra, 'Content-Length': str(len(data))}.items():
      self.send_header(name, value)
    self.end_headers()
    self.wfile.write(data)

  def log_message(self, *_):
    pass


@pytest.fixture
def server(monkeypatch):
  monkeypatch.setenv('OPENAI_API_KEY', KEY)
  made = Server()
  threading.Thread(target=made.serve_forever, args=[0.01], daemon=True).start()
  yield made
  made.shutdown()
  made.server_close()


class Clock:
  """Time that passes when one sleeps."""

  def __init__(self):
    self.now, self.slept = 0.0, []

  def sleep(self, seconds):
    self.slept.append(seconds)
    self.now += seconds


@pytest.fixture
def make(server, tmp_path):
  """(script, fields of the endpoint) -> a client and its clock."""

  def made(*script, **fields):
    server.script = [
      x if isinstance(x, tuple) else (200, x, {}) for x in script
    ]
    clock = Clock()
    endpoint = Endpoint(
      server.address, 'a-model', **{'temperature': 0.5, **fields}
    )
    client = ChatCompletions(
      endpoint,
      tmp_path / 'services' / 'user.jsonl',
      sleep=clock.sleep,
      now=lambda: clock.now,
    )
    return client, clock

  return made


def everything(folder):
  return b''.join(x.read_bytes() for x in folder.rglob('*') if x.is_file())


def test_it_sends_what_the_openai_client_sends(server, make):
  client, _ = make(completion())
  assert client(MESSAGES, seed=7) == 'yes'
  ((path, headers, body),) = server.requests
  assert path == REQUEST['path']
  assert body == REQUEST['body']
  for name, value in REQUEST['headers'].items():
    assert headers[name] == value


def test_an_answer_is_paid_for_once(server, make, tmp_path):
  client, _ = make(completion('yes'), completion('no'))
  assert client(MESSAGES, seed=7) == client(MESSAGES, seed=7) == 'yes'
  assert client(MESSAGES, seed=8) == 'no'
  assert len(server.requests) == 2
  with (tmp_path / 'services/user.jsonl').open('a') as file:
    file.write('{"cost": 1.0, "ke')  # killed while it wrote
  again, _ = make(completion('never asked'))
  assert again(MESSAGES, seed=7) == 'yes'
  assert again(MESSAGES, seed=8) == 'no'
  other, _ = make(completion('warmer'), temperature=0.6)
  assert other(MESSAGES, seed=7) == 'warmer'
  assert KEY.encode() not in everything(tmp_path)


@pytest.mark.parametrize('status', [408, 409, 429, 500, 503])
def test_what_may_pass_is_tried_again(make, status):
  wrong = (status, {'error': 'busy'}, {})
  client, clock = make(wrong, wrong, completion())
  assert client(MESSAGES, seed=0) == 'yes'
  assert len(clock.slept) == 2
  assert 0.5 <= clock.slept[0] <= 1 <= clock.slept[1] <= 2
  assert client.taken() == {
    'requests': 3,
    'retries': 2,
    'read': 9,
    'written': 1,
  }
  assert client.taken()['requests'] == 0


def test_a_malformed_body_is_tried_again(make):
  client, clock = make(b'<html>', completion())
  assert client(MESSAGES, seed=0) == 'yes'
  assert len(clock.slept) == 1


def test_the_server_says_how_long_to_wait(make):
  client, clock = make((429, {}, {'Retry-After': '17'}), completion())
  client(MESSAGES, seed=0)
  assert clock.slept == [17]


def test_tries_end_in_a_fault_without_the_key(make, tmp_path):
  error = {'error': {'message': f'slow down, {KEY}'}}
  client, clock = make((500, error, {}), tries=3)
  with errors.raises(ServiceFault, '3 500') as e:
    client(MESSAGES, seed=0)
  assert KEY not in str(e.value)
  assert e.value.__cause__ is None
  assert len(clock.slept) == 2
  assert KEY.encode() not in everything(tmp_path)


@pytest.mark.parametrize(
  ('response', 'words'),
  [
    (completion('it is', 'length', tokens=(9, 32)), '32 tokens'),
    (completion(None, refusal='I will not.'), ''),
    (completion(None, 'content_filter'), 'content_filter'),
    ((401, {'error': f'bad key {KEY}'}, {}), '401'),
    ((400, {'error': 'no such model'}, {}), '400'),
    ((302, b'', {'Location': 'http://elsewhere/'}), '302'),
  ],
)
def test_what_will_not_pass_is_a_fault_at_once(
  server, make, response, words, tmp_path
):
  client, clock = make(response)
  with errors.raises(ServiceFault, words) as error:
    client(MESSAGES, seed=0)
  assert KEY not in str(error.value)
  assert len(server.requests) == 1
  assert not clock.slept
  assert KEY.encode() not in everything(tmp_path)


def test_a_server_that_is_gone(make, server):
  client, clock = make(completion(), tries=2)
  server.shutdown()
  server.server_close()
  with errors.raises(ServiceFault, '2'):
    client(MESSAGES, seed=0)
  assert len(clock.slept) == 1


def test_requests_of_a_minute(server, make):
  client, clock = make(completion(), per_minute=3)
  for seed in range(7):
    client(MESSAGES, seed=seed)
  assert clock.now == pytest.approx(120)
  assert len(server.requests) == 7


def test_a_budget_ends_in_a_sentence_also_after_a_resume(server, make):
  prices = dict(input_price=1e6, output_price=2e6, budget=25.0)
  client, _ = make(completion(), completion(reason='length'), **prices)
  client(MESSAGES, seed=0)
  assert client.spent == pytest.approx(11)  # 9 · 1 + 1 · 2
  for seed in (1, 2):  # a cut answer is paid for too
    with pytest.raises(ServiceFault):
      client(MESSAGES, seed=seed)
  for one in (client, make(completion(), **prices)[0]):
    assert one.spent == pytest.approx(33)
    with errors.raises(ServiceFault, '33.0000 budget 25.0'):
      one(MESSAGES, seed=3)
    assert one(MESSAGES, seed=0) == 'yes'  # what is there costs nothing
  assert len(server.requests) == 3


@pytest.mark.parametrize('wrong', [None, -5, math.inf])
@pytest.mark.parametrize('price', ['input_price', 'output_price'])
def test_a_budget_holds_whatever_the_server_says_of_its_tokens(
  make, wrong, price
):
  """It would have no end if such an answer cost nothing."""
  prices = {price: 1e6, 'budget': 500.0}
  client, _ = make(completion(tokens=(wrong, wrong)), **prices)
  costs = [client.spent]
  while costs[-1] < 500 and len(costs) < 50:
    assert client(MESSAGES, seed=len(costs)) == 'yes'
    assert costs[-1] < client.spent < math.inf
    costs.append(client.spent)
  with errors.raises(ServiceFault, 'budget'):
    client(MESSAGES, seed=0)
  assert make(completion(), **prices)[0].spent == pytest.approx(costs[-1])


def test_many_threads(make, tmp_path):
  client, _ = make(completion())
  with ThreadPoolExecutor(8) as pool:
    out = list(pool.map(lambda i: client(MESSAGES, seed=i % 4), range(32)))
  assert out == ['yes'] * 32
  lines = (tmp_path / 'services/user.jsonl').read_text().splitlines()
  assert {json.loads(line)['answer'] for line in lines} == {'yes'}


@pytest.mark.parametrize(
  ('changes', 'words'),
  [
    ({'address': 'example.com'}, 'address example.com'),
    ({'address': 'ftp://example.com'}, 'address'),
    ({'model': ' '}, 'model'),
    ({'budget': 3.0}, ''),
    ({'budget': math.nan, 'input_price': 1.0}, 'budget'),
    ({'input_price': math.nan}, 'input_price'),
    ({'output_price': -1.0}, 'output_price -1.0'),
    ({'key_env': 'NOT_SET_HERE'}, 'key_env NOT_SET_HERE'),
  ],
)
def test_an_endpoint_that_cannot_be_asked(monkeypatch, changes, words):
  monkeypatch.setenv('OPENAI_API_KEY', KEY)
  monkeypatch.delenv('NOT_SET_HERE', raising=False)
  good = Endpoint('https://example.com/v1', 'm')
  chat_completions.check(good)
  with errors.raises(ValueError, words):
    chat_completions.check(dataclasses.replace(good, **changes))


def test_a_key_in_the_wrong_place_is_not_repeated():
  for changes in (
    {'key_env': 'sk-secret'},
    {'address': 'https://me:sk-secret@example.com/v1'},
    {'address': 'https://example.com/v1?key=sk-secret'},
  ):
    endpoint = Endpoint(**{'address': 'https://x/v1', 'model': 'm', **changes})
    with pytest.raises(ValueError) as error:
      chat_completions.check(endpoint)
    assert 'sk-secret' not in str(error.value)


def test_a_key_is_masked_in_answers_and_never_in_an_error(
  server, make, monkeypatch, tmp_path
):
  monkeypatch.setenv('OPENAI_API_KEY', f'{KEY}\n')
  client, _ = make(completion(f'Your key is {KEY}.'))
  assert client(MESSAGES, seed=0) == 'Your key is ***.'
  assert server.requests[0][1]['authorization'] == f'Bearer {KEY}'
  assert KEY.encode() not in everything(tmp_path)
  monkeypatch.setenv('OPENAI_API_KEY', f'{KEY}\n{KEY}')
  with pytest.raises(ValueError) as error:
    make(completion())
  assert KEY not in str(error.value)


def test_a_server_without_keys(server, make, monkeypatch):
  monkeypatch.delenv('OPENAI_API_KEY')
  client, _ = make(completion(), key_env='')
  assert client(MESSAGES, seed=0) == 'yes'
  assert 'authorization' not in server.requests[0][1]


def test_every_body_is_a_reply_or_tried_again():
  whole = completion()
  for place, value, text in hostile.mutations(whole):
    try:
      reply = chat_completions.parse_response(text.encode())
    except json_post.Again:
      continue
    assert isinstance(reply.text, str), (place, value)

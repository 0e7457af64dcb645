"""A server of generation with a model of one distribution, and its mistakes."""

import contextlib
import http.server
import json
import pathlib
import threading

import numpy as np

from agentrl.runtime import publish

VOCAB, EOT = 20, 2
WEIGHTS = 'weights.npy'  # logits of the one distribution


def log_probs(logits, ids, temperature):
  scaled = np.asarray(logits, float) / temperature
  return (scaled - np.log(np.exp(scaled).sum()))[list(ids)]


class FakeServer(http.server.ThreadingHTTPServer):
  """wrong: what it does wrong; asked: [(path, body)], in order."""

  def __init__(self, kind, wrong=''):
    self.kind, self.wrong, self.asked = kind, wrong, []
    self.logits, self.number, self.adapters = np.zeros(VOCAB), 0, {}
    super().__init__(('127.0.0.1', 0), Handler)

  @property
  def address(self):
    return f'http://127.0.0.1:{self.server_port}'

  def load(self, path):
    folder = pathlib.Path(path)
    number = publish.check(folder)
    return number, np.load(folder / WEIGHTS)

  def answer(self, path, body):
    """-> status, JSON."""
    self.asked.append((path, body))
    if path in ('/update_weights', '/update_weights_from_disk'):
      if self.wrong == 'no update':
        return 404, {'error': 'Not Found'}
      folder = body.get('path') or body['model_path']
      number, logits = self.load(folder)
      if self.wrong not in ('old version', 'old weights'):
        self.number, self.logits = number, logits
      if self.wrong == 'old weights':
        self.number = number
      return 200, {'success': True}
    if path.endswith('/load_lora_adapter'):
      self.adapters[body['lora_name']] = self.load(body['lora_path'])
      return 200, {}
    if path.endswith('/unload_lora_adapter'):
      del self.adapters[body['lora_name']]
      return 200, {}
    return 200, self.generated(body)

  def generated(self, body):
    params = body['sampling_params']
    sglang = self.kind == 'sglang'
    context = body['input_ids' if sglang else 'token_ids']
    size = params['max_new_tokens' if sglang else 'max_tokens']
    name = body.get('lora_path') if sglang else body.get('model')
    number, logits = self.adapters.get(name, (self.number, self.logits))
    if self.wrong == 'other weights':
      logits = np.roll(logits, 1)
    temperature = params['temperature']
    p = np.exp(log_probs(logits, range(VOCAB), temperature))
    seed = params['sampling_seed' if sglang else 'seed']
    rng = np.random.default_rng(seed)
    ids = rng.choice(VOCAB, size, p=p / p.sum()).tolist()
    if EOT in ids:
      ids = ids[: ids.index(EOT) + 1]
    said = 1.0 if self.wrong == 'raw' else temperature
    logp = log_probs(logits, ids, said).tolist()
    if self.wrong == 'opposite':  # their mean is right
      half = len(logp) // 2
      logp = [x + 1 - 2 * (i < half) for i, x in enumerate(logp[: 2 * half])]
      ids = ids[: 2 * half]
    if self.wrong == 'nan':
      logp[0] = float('nan')
    if self.wrong == 'short':
      logp = logp[:-1]
    version = '' if self.wrong == 'no version' else str(number)
    read = list(context[:-1] if self.wrong == 'tokenises' else context)
    if self.wrong == 'no tokens':
      return {'choices': [{'text': 'hello'}], 'meta_info': {}}
    if sglang:
      about = {
        'output_token_logprobs': [
          [x, i, None] for i, x in zip(ids, logp, strict=False)
        ]
      }
      about |= {'prompt_tokens': len(read), 'weight_version': version}
      if self.wrong == 'silent':
        del about['prompt_tokens']
      return {'text': '', 'meta_info': about}
    content = [
      {'token': f'token_id:{i}', 'logprob': x}
      for i, x in zip(ids, logp, strict=False)
    ]
    choice = {'token_ids': ids, 'logprobs': {'content': content}}
    out = {'choices': [choice], 'prompt_token_ids': read}
    if self.wrong == 'silent':
      del out['prompt_token_ids']
    if self.kind == 'agentrl':
      out['weight_version'] = version
    return out


class Handler(http.server.BaseHTTPRequestHandler):
  def do_POST(self):
    body = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
    status, out = self.server.answer(self.path, body)
    data = json.dumps(out).encode()
    self.send_response(status)
    self.send_header('Content-Length', str(len(data)))
    self.end_headers()
    self.wfile.write(data)

  def log_message(self, *_):
    pass


@contextlib.contextmanager
def opened(kind, wrong=''):
  with FakeServer(kind, wrong) as server:
    serve = threading.Thread(target=server.serve_forever, args=[0.01])
    serve.start()
    try:
      yield server
    finally:
      server.shutdown()

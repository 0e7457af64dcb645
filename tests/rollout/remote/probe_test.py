"""The probe of a server: each of its mistakes is refused by name."""

import numpy as np
import pytest

from agentrl.rollout.remote import probe
from agentrl.rollout.remote.generator import RemoteServer
from agentrl.rollout.remote.wire import Published
from agentrl.runtime import publish
from tests import errors
from tests.rollout.remote import fake_server as fake

LOGITS = np.linspace(-2, 2, fake.VOCAB)
PROMPT = [5, 6, 7]


def probed(folder, kind, wrong='', temperature=0.5, adapter=''):
  with fake.opened(kind, wrong) as server:
    path = publish.publish(
      folder, 1, lambda place: np.save(place / fake.WEIGHTS, LOGITS)
    )
    remote = RemoteServer(server.address, kind, 'base')
    made = Published(str(path), 1, adapter)
    remote.post(remote.wire_format.update(made))
    probe.check(
      remote,
      lambda prompt, ids, t: fake.log_probs(LOGITS, ids, t),
      PROMPT,
      eot=fake.EOT,
      temperature=temperature,
      published=made,
    )


@pytest.mark.parametrize(
  ('kind', 'adapter'),
  [('agentrl', ''), ('sglang', ''), ('sglang', 'a-v1'), ('vllm', 'a-v1')],
)
@pytest.mark.parametrize('temperature', [1.0, 0.5])
def test_a_faithful_server(tmp_path, kind, adapter, temperature):
  probed(tmp_path, kind, temperature=temperature, adapter=adapter)


@pytest.mark.parametrize('kind', ['agentrl', 'sglang'])
@pytest.mark.parametrize(
  ('wrong', 'sentence'),
  [
    ('raw', 'temperature 0.5, got raw ones'),
    ('tokenises', 'read the 3 tokens sent, got 2'),
    ('silent', 'must report the tokens'),
    ('no version', 'must report the version'),
    ('old version', "must use weights 1, got '0'"),
    ('old weights', 'serves another model, or did not load'),
    ('other weights', 'serves another model, or did not load'),
    ('opposite', 'serves another model, or did not load'),
    ('no tokens', 'cannot be used: the server gives no tokens'),
    ('nan', 'finite log-probs; it must return one for each'),
  ],
)
def test_each_mistake_is_refused_by_name(tmp_path, kind, wrong, sentence):
  with errors.raises(ValueError, 'host.generator') as refused:
    probed(tmp_path, kind, wrong)
  assert sentence in str(refused.value)
  assert '\n' not in str(refused.value)


def test_raw_log_probs_are_those_of_temperature_1(tmp_path):
  probed(tmp_path, 'agentrl', 'raw', temperature=1.0)

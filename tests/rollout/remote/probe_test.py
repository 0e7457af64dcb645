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
  ('wrong', 'names'),
  [
    ('raw', 'temperature 0.5 raw'),
    ('tokenises', 'tokens 3 2'),
    ('silent', 'report tokens'),
    ('no version', 'report version'),
    ('old version', 'use weights 1 0'),
    ('old weights', 'another model'),
    ('other weights', 'another model'),
    ('opposite', 'another model'),
    ('no tokens', 'no tokens'),
    ('nan', 'finite log-probs'),
  ],
)
def test_each_mistake_is_refused_by_name(tmp_path, kind, wrong, names):
  with errors.raises(ValueError, f'host.generator {names}') as refused:
    probed(tmp_path, kind, wrong)
  assert '\n' not in str(refused.value)


def test_raw_log_probs_are_those_of_temperature_1(tmp_path):
  probed(tmp_path, 'agentrl', 'raw', temperature=1.0)

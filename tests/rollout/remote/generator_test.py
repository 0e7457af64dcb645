"""Generators on other machines: weights go out, tokens come back."""

import numpy as np
import pytest

from agentrl.rollout.engine.engine import (
  Completion,
  GenerationFault,
  SamplingParams,
)
from agentrl.rollout.remote.generator import RemoteGenerator, RemoteServer
from tests import errors
from tests.rollout.remote import fake_server as fake

KEY = np.array([1, 2], np.uint32)
LOGITS = np.linspace(-1, 1, fake.VOCAB)


def write(folder, params):
  np.save(folder / fake.WEIGHTS, params)


def made(server, folder, *, adapter=False, probe=lambda *args: None):
  remote = RemoteServer(server.address, server.kind, 'base', timeout=20.0)
  return RemoteGenerator(
    remote,
    str(folder),
    write,
    eot=fake.EOT,
    adapter=adapter,
    threads=2,
    probe=probe,
  )


def landed(generator):
  out = []
  while generator.busy:
    generator.dispatch()
    out += generator.collect()
  return sorted(out, key=lambda x: x.sequence)


@pytest.mark.parametrize(
  ('kind', 'adapter'),
  [('agentrl', False), ('sglang', False), ('vllm', True), ('sglang', True)],
)
def test_messages_are_of_the_weights_that_were_published(
  tmp_path, kind, adapter
):
  with fake.opened(kind) as server:
    generator = made(server, tmp_path, adapter=adapter)
    for version, logits in ((3, LOGITS), (4, -LOGITS)):
      generator.update_weights(logits, version)
      generator.update_weights(logits, version)  # the same: nothing is sent
      for sequence in range(3):
        how = SamplingParams(KEY + sequence, 6, 0.5)
        generator.submit(sequence, [5, 6], how)
      for sequence, x in enumerate(landed(generator)):
        assert isinstance(x, Completion)
        assert x.sequence == sequence
        assert 0 < len(x.ids) <= 6
        want = fake.log_probs(logits, x.ids, 0.5)
        np.testing.assert_allclose(x.logp, want, rtol=1e-12)
        np.testing.assert_allclose(x.entropy, -want, rtol=1e-12)
        assert x.version == [version] * len(x.ids)
    assert generator.taken() == {'updates': 2}
    if adapter:
      assert list(server.adapters) == ['policy-v000002']
    generator.close()
    # A resumed run goes on behind the versions that are there.
    other = made(server, tmp_path, adapter=adapter)
    other.update_weights(LOGITS, 9)
    assert sorted(x.name for x in tmp_path.iterdir()) == ['v000002', 'v000003']
    other.close()


def test_messages_end_where_the_run_says(tmp_path):
  with fake.opened('agentrl') as server:
    generator = made(server, tmp_path)
    generator.update_weights(LOGITS, 0)
    stop = lambda ids: 2 if len(ids) >= 2 else 0  # noqa: E731
    generator.submit(0, [5], SamplingParams(KEY, 8, stop=stop))
    (x,) = landed(generator)
    assert len(x.ids) == len(x.logp) == len(x.version) == 2
    generator.close()


@pytest.mark.parametrize(
  ('wrong', 'sentence'),
  [
    ('old version', "a message of weights '0', and 1 were loaded"),
    ('no version', "a message of weights '', and 1 were loaded"),
    ('no tokens', 'gives no tokens with log-probs'),
    ('short', 'it must return one for each'),
    ('nan', 'it must return one for each'),
  ],
)
def test_a_wrong_answer_costs_its_trajectory(tmp_path, wrong, sentence):
  with fake.opened('agentrl', wrong) as server:
    generator = made(server, tmp_path)
    generator.update_weights(LOGITS, 0)
    generator.submit(0, [5], SamplingParams(KEY, 8))
    (x,) = landed(generator)
    assert isinstance(x, GenerationFault)
    assert sentence in x.text
    generator.close()


def test_weights_that_are_not_loaded_end_the_run(tmp_path):
  with fake.opened('agentrl', 'no update') as server:
    generator = made(server, tmp_path)
    with errors.raises(ValueError, '404'):
      generator.update_weights(LOGITS, 0)
    generator.close()


def test_a_message_without_weights_is_a_fault(tmp_path):
  with fake.opened('agentrl') as server:
    generator = made(server, tmp_path)
    generator.submit(0, [5], SamplingParams(KEY, 8))
    (ended,) = landed(generator)
    assert 'update_weights' in ended.text
    generator.close()


def test_a_server_is_probed_once_before_it_is_used(tmp_path):
  seen = []
  with fake.opened('agentrl') as server:
    probe = lambda *args: seen.append(args[2].number)  # noqa: E731
    generator = made(server, tmp_path, probe=probe)
    for version, logits in enumerate((LOGITS, -LOGITS)):
      generator.update_weights(logits, version)
    assert seen == [1]
    generator.close()


def test_a_request_that_is_cancelled_is_forgotten(tmp_path):
  with fake.opened('agentrl') as server:
    generator = made(server, tmp_path)
    generator.update_weights(LOGITS, 0)
    generator.submit(0, [5], SamplingParams(KEY, 8))
    generator.cancel(0)
    assert not generator.busy
    generator.close()

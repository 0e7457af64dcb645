"""Generators on other machines: weights go out, tokens come back."""

import contextlib

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


@pytest.fixture
def opened(tmp_path):
  """(what its server does wrong) -> a generator."""
  with contextlib.ExitStack() as stack:

    def opened(wrong='', **fields):
      server = stack.enter_context(fake.opened('agentrl', wrong))
      generator = made(server, tmp_path, **fields)
      return stack.enter_context(contextlib.closing(generator))

    yield opened


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


def test_messages_end_where_the_run_says(opened):
  generator = opened()
  generator.update_weights(LOGITS, 0)
  stop = lambda ids: 2 if len(ids) >= 2 else 0  # noqa: E731
  generator.submit(0, [5], SamplingParams(KEY, 8, stop=stop))
  (x,) = landed(generator)
  assert len(x.ids) == len(x.logp) == len(x.version) == 2


@pytest.mark.parametrize(
  ('wrong', 'names'),
  [
    ('old version', 'weights 0 1'),
    ('no version', 'weights 1'),
    ('no tokens', 'tokens'),
    ('short', 'return one'),
    ('nan', 'return one'),
  ],
)
def test_a_wrong_answer_costs_its_trajectory(opened, wrong, names):
  generator = opened(wrong)
  generator.update_weights(LOGITS, 0)
  generator.submit(0, [5], SamplingParams(KEY, 8))
  (x,) = landed(generator)
  assert isinstance(x, GenerationFault)
  errors.check(x.text, names)


def test_weights_that_are_not_loaded_end_the_run(opened):
  with errors.raises(ValueError, '404'):
    opened('no update').update_weights(LOGITS, 0)


def test_a_message_without_weights_is_a_fault(opened):
  generator = opened()
  generator.submit(0, [5], SamplingParams(KEY, 8))
  (ended,) = landed(generator)
  assert isinstance(ended, GenerationFault)


def test_a_server_is_probed_once_before_it_is_used(opened):
  seen = []
  generator = opened(probe=lambda *args: seen.append(args[2].number))
  for version, logits in enumerate((LOGITS, -LOGITS)):
    generator.update_weights(logits, version)
  assert seen == [1]


def test_a_request_that_is_cancelled_is_forgotten(opened):
  generator = opened()
  generator.update_weights(LOGITS, 0)
  generator.submit(0, [5], SamplingParams(KEY, 8))
  generator.cancel(0)
  assert not generator.busy

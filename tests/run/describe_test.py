"""What a run says of itself."""

import pytest

from agentrl.run import describe


@pytest.mark.parametrize(
  ('program', 'this', 'other'),
  [
    ('experiments/train.py', ['python', '-m', 'experiments.train'],
     ['python', '-m', 'experiments.view']),
    ('/usr/bin/agentrl train', ['agentrl', 'train'], ['agentrl', 'view']),
  ],
)  # fmt: skip
def test_a_command_is_repeated_as_it_was_given(
  program, this, other, monkeypatch
):
  monkeypatch.setattr('sys.argv', [program, '--workdir=w'])
  assert describe.main() == this
  assert describe.main('view') == other

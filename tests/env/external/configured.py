"""Configs of families that take their environments from elsewhere."""

from agentrl.configs import grpo
from agentrl.run.play import host_env
from agentrl.text import tokenizer
from tests import errors


def sized(name, worker='', **env):
  """A tiny run of the family, as it is made before anything starts."""
  c = grpo.get_config(f'tiny,env={name}')
  c.env.update(env)
  c.host.worker = worker
  return host_env.sized(c, tokenizer.Embedded(), None)


def refuses(name, words, **env):
  """In one sentence."""
  with errors.raises(ValueError, words) as error:
    sized(name, **env)
  assert '\n' not in str(error.value)

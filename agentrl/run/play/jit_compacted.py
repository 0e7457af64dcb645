"""Compaction of a config's environment inside jit: its tokens and sizes."""

import dataclasses

import jax.numpy as jnp

from agentrl.configs.config import Config
from agentrl.env.jit import base as env_base
from agentrl.rollout.compaction import DROPS, Compaction
from agentrl.rollout.jit_sizes import TokenizedEnv
from agentrl.text import chat_template
from agentrl.text.chat_template import Chat, Message
from agentrl.text.tokenizer import Tokenizer


def compacted(
  c: Config,
  words: Tokenizer,
  chat: Chat | None,
  system: str,
  world: TokenizedEnv,
  notes: int,
) -> tuple[TokenizedEnv, Compaction]:
  """Returns the environment with its request, and when conversations are cut.

  Args:
    chat: template that stands around the turns of the environment
    system: message
    notes: tokens of a memory at the beginning of a segment, at most
  Raises:
    ValueError: the template does not frame the request as it frames others.
  """
  m = c.compaction
  writes = m.summary != DROPS
  request = _request(m.request, words, chat, system, world)
  heard, between = world.obs_tokens, world.between_tokens
  head = heard if m.keep_task else writes * len(request)
  restart = world.first_tokens + notes + head + heard
  restart += writes * (m.tokens + between)
  low, high = m.threshold
  rule = Compaction(
    low=low,
    high=high,
    tokens=m.tokens,
    most=m.most,
    request=m.request,
    asking=between + len(request),
    restart=restart,
    keep_task=m.keep_task,
    arm=m.summary,
  )
  if not writes:
    return world, rule
  return dataclasses.replace(world, request=jnp.array(request, jnp.int32)), rule


def shown_tokens(world: TokenizedEnv) -> int:
  """Returns the most tokens of a demonstrated summary; 0: there are none."""
  if not isinstance(world.env, env_base.SummarizedEnv):
    return 0
  return world.env.summary_len * world.pieces.tokens.shape[1] + 1


def demonstrated(world: TokenizedEnv, rule: Compaction | None) -> TokenizedEnv:
  """Gives demonstrations the summaries that their expert writes."""
  env = world.env
  if rule and rule.writes and isinstance(env, env_base.SummarizedEnv):
    return dataclasses.replace(world, expert=env.summary)
  return world


def _request(
  text: str,
  words: Tokenizer,
  chat: Chat | None,
  system: str,
  world: TokenizedEnv,
) -> list[int]:
  """Encodes the request as an observation, up to where the agent speaks."""
  if chat is None or world.frame is None:
    return words.encode(f'{text}\n')
  ids = [*words.encode(text.strip()), *world.frame.after.tolist()]
  begin = [Message('system', system)] if system else []
  first = chat_template.start(chat, [*begin, Message('user', text)])
  if first.ids != (*world.frame.first.tolist(), *ids):
    raise ValueError(
      'compaction.request must be a text that the chat template of tokenizer'
      f' {words.name} frames as it frames observations, got {text!r}; begin'
      " and end it with letters, or set rollout.chat_format to 'bare'"
    )
  return ids

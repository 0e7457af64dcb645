"""Evaluation of any model at an address, on our environments.

Tasks, limits, prompts and the result are those of a run's own evaluation; only
the messages come from an OpenAI-compatible server.
"""

import contextlib
import os
import re
import shlex
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import evaluate
from agentrl.configs import envs
from agentrl.configs import stages as stage_list
from agentrl.configs.config import Config
from agentrl.env import base as env_base
from agentrl.env.external import keywords
from agentrl.hooks import NothingPlayedError
from agentrl.log import trajectories
from agentrl.rollout import host as host_rollout
from agentrl.rollout.bundle import HostEnvBundle
from agentrl.rollout.chat_generator import (
  Conversations,
  WrittenMessage,
  generate_by,
)
from agentrl.rollout.keys import Stream, stream_key
from agentrl.rollout.record import Record
from agentrl.rollout.threaded import ThreadedGenerator
from agentrl.run import (
  build,
  config_file,
  describe,
  selection,
  trajectory_log,
)
from agentrl.run import workdir as workdir_lib
from agentrl.run.experiment import Experiment
from agentrl.run.play import host_env, jit_env, played
from agentrl.service.base import Function, ServiceFault
from agentrl.service.chat_completions import ChatCompletions, Endpoint, check
from agentrl.text.message import Message
from agentrl.types import Attempts

MESSAGE, OBSERVATION = 1024, 4096  # tokens, where no run says
TIMEOUT = 600.0  # seconds of a message


def check_flags(
  run: str | None, env: str, address: str, levels: str | None
) -> None:
  """Raises ValueError unless the flags name one thing to play, and who plays.

  Args:
    run: its folder; env: an environment; address: of a server; levels: a file
  """
  if not address and (env or not run):
    raise ValueError(
      'the flag --workdir is missing: the run to evaluate; another model plays'
      ' with --address=http://HOST/v1 and --model'
    )
  if address and bool(run) == bool(env):
    raise ValueError(
      f'--address={address} plays what --env or --workdir names; give exactly'
      ' one of the two'
    )
  if address and levels:
    raise ValueError(
      f'--levels={levels} are played inside jit, which --address cannot; leave'
      ' one of the two out'
    )


def config_of(
  run: str | None, env: str, settings: str, limit: int | None
) -> Config:
  """Returns the config of a run as it was trained, or of an environment.

  Args:
    settings: of the environment, 'name=value, ...'
    limit: turns at most; None: as the config says

  Raises:
    ValueError: there is no such environment or run, or it has no such setting.
  """
  if run:
    c = workdir_lib.read_config(run)
    if plans := stage_list.plans(c):
      c = plans[-1].config
    return jit_env.for_evaluation(c, None, limit)
  envs.check_name(env)
  c = config_file.load(f'grpo:env={env}')
  values = keywords.parse(settings)
  if unknown := [x for x in values if x not in c.env]:
    raise ValueError(
      f'--settings names {unknown[0]!r}, and env={env} has {", ".join(c.env)}'
    )
  c = config_file.change(c, {f'env.{x}': y for x, y in values.items()})
  c.rollout.max_message_tokens = MESSAGE
  c.model.positions = 0
  if c.host:
    c.host.max_observation_tokens = OBSERVATION
  return jit_env.for_evaluation(c, None, limit)


def endpoint(
  address: str, model: str, key_env: str, temperature: float, c: Config
) -> Endpoint:
  """Returns the model of a server, with messages as long as the config's.

  Raises:
    ValueError: it cannot be asked.
  """
  made = Endpoint(
    address,
    model,
    key_env,
    temperature,
    c.rollout.max_message_tokens,
    timeout=TIMEOUT,
  )
  check(made)
  return made


def folder(run: str | None, c: Config, endpoint: Endpoint) -> str:
  """Returns the default folder of trajectories."""
  model = re.sub(r'[^\w.-]+', '_', endpoint.model)
  if run:
    return os.path.join(run, 'evaluations', f'address_{model}')
  return os.path.abspath(os.path.join('runs', f'{c.env.name}_{model}'))


def evaluate_address(
  c: Config,
  endpoint: Endpoint,
  out: str,
  *,
  episodes: int,
  concurrency: int,
  seed: int = 0,
  logged: int = 8,
  attempts: int = 1,
) -> str:
  """Plays held-out tasks with a model at an address; -> what to print.

  Args:
    endpoint: of the model; its `max_tokens` are those of a message
    out: folder of the trajectories, which must not be there yet
    concurrency: episodes under way at a time
    attempts: at each task, with success by rule of selection among them
  Raises:
    ValueError: the environment is played inside jit or by programs, `out`
      holds something, or no episode could be played.
  """
  if os.path.exists(out) and os.listdir(out):
    raise ValueError(f'{out} holds something already; name another --out')
  if envs.in_jit(c.env.name):
    raise ValueError(
      f'env={c.env.name} is played inside jit by our own models; name a host'
      f' environment, one of {", ".join(env_base.FAMILIES)}'
    )
  s = build.experiment(c)
  chosen = selection.Watch(episodes, len(s.test), attempts)
  conversations = Conversations()
  world = _world(s, conversations)
  client = ChatCompletions(endpoint, None)

  def ask(messages: Sequence[Message], seed: int) -> WrittenMessage:
    reply = client.reply(messages, seed=seed)
    if reply.fault and not reply.cut:
      raise ServiceFault(f'{endpoint.model} {reply.fault}')
    return WrittenMessage(reply.text, reply.cut)

  with contextlib.ExitStack() as stack:
    generate = generate_by(ask, conversations, s.tokenizer)
    generator = ThreadedGenerator(generate, concurrency)
    stack.callback(generator.close)
    pool = stack.enter_context(host_env.workers(c, world.family, concurrency))
    workers = [pool[i] for i in range(concurrency)]

    watch = played.Watch()

    def play(attempts: Attempts, key) -> Record:
      ended, _ = host_rollout.run_episodes(
        world, generator, workers, attempts, key
      )
      watch.see(ended)
      conversations.forget()
      return world.record(ended)

    numbers, last = evaluate.evaluate(
      chosen.of(play),
      chosen.tasks(np.arange(len(s.train), len(s.train) + len(s.test))),
      episodes=chosen.episodes,
      batch=min(chosen.episodes, max(concurrency, c.rollout.batch)),
      limit=s.plan.turns,
      temperature=endpoint.temperature,
      key=stream_key(jax.random.key(seed), Stream.EVAL),
    )
  if text := watch.unplayed():
    raise NothingPlayedError(text)
  write(s, out, 0, last, logged)
  head = f'{describe.task_name(s)}, {endpoint.model} at {endpoint.address}'
  head += f', temperature {endpoint.temperature:g}'
  used = ', '.join(f'{n} {x}' for x, n in client.taken().items())
  text = f'{report(head, s.plan.turns, numbers, out)}\n{used}'
  return text + chosen.table()


def _world(s: Experiment, conversations: Conversations):
  """Returns the environments, with their conversations recorded."""
  world = s.world
  assert isinstance(world, HostEnvBundle)
  if isinstance(world.family, env_base.PlaysPrograms):
    raise ValueError(
      f'env={s.config.env.name} is played by programs, which have an address of'
      ' their own; evaluate env.world, or the run with --workdir alone'
    )
  if world.systems:
    raise ValueError(
      f'env={s.config.env.name} is a match of {world.seats} seats, which one'
      ' model at an address cannot play; train with it and see eval/success'
    )
  services = {
    name: Function(x.function)
    for name, x in s.config.service.items()
    if x.function
  }
  family = env_base.with_services(world.family, services)
  return world._replace(family=family, talk=conversations.recorded(world.talk))


def write(
  s: Experiment,
  folder: str,
  step: int,
  played: tuple[Record, Attempts],
  most: int,
) -> None:
  """Logs the first trajectories of what was played, for the viewer."""
  record, attempts = trajectory_log.first(most, *played)
  log_all = trajectory_log.of_record(s)
  some = jax.device_get(log_all(record, attempts, jnp.int32(step)))
  log = trajectories.TrajectoryWriter(folder, resume_after=None)
  trajectory_log.write(s, log, step, 'eval', some)
  log.close()


def report(
  head: str, turns: int, numbers: Mapping[str, float], folder: str
) -> str:
  """Formats success with its interval, and how to see trajectories."""
  broken = numbers['eval/unscored']
  more = f'; {broken} more broke with their environment' if broken else ''
  return (
    f'{head}, at most {turns} turns\n'
    f'success {numbers["eval/success"]:.1%}'
    f' [{numbers["eval/ci_low"]:.1%}, {numbers["eval/ci_high"]:.1%}] (95%),'
    f' {numbers["eval/solved"]} of {numbers["eval/episodes"]} episodes{more}\n'
    f'{to_see(folder)}'
  )


def to_see(folder: str) -> str:
  """Formats the command that shows the trajectories of a folder."""
  return f'to see some of them: {shlex.join([*describe.main("view"), folder])}'

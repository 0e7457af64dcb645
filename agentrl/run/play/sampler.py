"""Opens the samplers of a run: of environments inside jit, or on hosts."""

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from agentrl.configs import stages as stage_list
from agentrl.configs.config import Config
from agentrl.judge.panel import Judgement
from agentrl.run import algorithm, placement, weights
from agentrl.run import workdir as workdir_lib
from agentrl.run.check import staleness_checks
from agentrl.run.experiment import Experiment
from agentrl.run.play.base import Beside, EnvSampler
from agentrl.run.play.host_sampler import HostSampler
from agentrl.run.play.jit_sampler import JitSampler, JudgedJitSampler
from agentrl.run.play.jobs import SamplerJobs
from agentrl.run.play.services import Services
from agentrl.runtime import distributed
from agentrl.runtime.preemption import Stopped


def open_sampler(
  s: Experiment,
  stopping: Callable[[], None] = lambda: None,
  workdir: str = '',
) -> AbstractContextManager[EnvSampler]:
  """Opens the sampler of a run.

  stopping: raises when the run is to end; asked while environments are waited
    for
  workdir: folder of the run, where answers of servers are kept
  """
  if s.on_host:
    return open_host_sampler(s, stopping, workdir)
  if s.algorithm.spec.judge:
    return JudgedJitSampler(s, open_services(s, workdir), workdir)
  return nullcontext(JitSampler(s))


def open_host_sampler(
  s: Experiment,
  stopping: Callable[[], None] = lambda: None,
  workdir: str = '',
) -> HostSampler:
  """Opens the sampler of a host environment; as `open_sampler`."""
  services = open_services(s, workdir)
  return HostSampler(s, services, stopping=stopping, workdir=workdir)


def open_services(s: Experiment, workdir: str = '') -> Services:
  """Opens the services of a run, with the policies of the runs they name.

  Raises:
    ValueError: one is not the folder of a run, or is of another model.
  """
  runs = {}
  for name, service in s.config.service.items():
    if service.run and service.run not in runs:
      workdir_lib.same_model(s.config, f'service.{name}.run')
      runs[service.run] = weights.policy(s.shape, service.run)
  return Services(s, runs, workdir)


def open_samplers(
  stack: contextlib.ExitStack,
  built: Mapping[str, Sequence[Experiment]],
  stopping: Callable[[], None],
  workdir: str,
) -> dict[str, EnvSampler]:
  """Opens the sampler of every stage; stages that sample alike have one."""
  opened: dict[str, EnvSampler] = {}
  out = {}
  for name, of_seeds in built.items():
    key = stage_list.sampled(of_seeds[0].config)
    if key not in opened:
      opened[key] = stack.enter_context(
        open_sampler(of_seeds[0], stopping, workdir)
      )
    out[name] = opened[key]
  return out


def open_beside(
  stack: contextlib.ExitStack,
  of_run: Config,
  built: Mapping[str, Sequence[Experiment]],
  stopping: Callable[[], None],
  workdir: str,
) -> dict[str, Beside]:
  """Opens the samplers that collect beside the updates, by stage.

  Args:
    of_run: config of the whole run, whose stages have their own
    built: experiments of its RL stages, one per seed
  """
  out: dict[str, Beside] = {}
  if built and of_run.staleness.jobs:
    return _open_jobs(stack, of_run, built, stopping, workdir)
  for name, of_seeds in built.items():
    s, halted = of_seeds[0], threading.Event()

    def stop(halted: threading.Event = halted) -> None:
      if halted.is_set():
        raise Stopped('the end of its stage')
      stopping()

    with placement.Samplers(s.config).context():
      samplers = [
        stack.enter_context(open_sampler(s, stop, workdir))
        for _ in range(staleness_checks.depth(s.config))
      ]
    out[name] = Beside(samplers, halted.set)
  return out


def _open_jobs(
  stack: contextlib.ExitStack,
  of_run: Config,
  built: Mapping[str, Sequence[Experiment]],
  stopping: Callable[[], None],
  workdir: str,
) -> dict[str, Beside]:
  """Opens what jobs of their own collect, by stage; in the first process."""
  if not distributed.first():
    return {}
  opened = stack.enter_context(SamplerJobs(of_run, workdir, stopping))
  out: dict[str, Beside] = {}
  for name, of_seeds in built.items():
    s, halted = of_seeds[0], threading.Event()
    still = algorithm.reads(s.config, s.algorithm).still
    collectors = [
      opened.collector(name, still, halted)
      for _ in range(staleness_checks.depth(s.config))
    ]
    out[name] = Beside(halt=halted.set, collectors=collectors, end=opened.end)
  return out


def verdicts(
  players: Mapping[str, EnvSampler],
) -> Callable[[str], list[Judgement]]:
  """Returns a trajectory's key -> what the judges of any stage said of it."""
  different = list({id(x): x for x in players.values()}.values())
  return lambda key: [v for x in different for v in x.verdicts(key)]

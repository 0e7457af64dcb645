"""Checks of readings: their hints, and who reads them.

All of it is found before anything is built or compiled.
"""

from agentrl import registry
from agentrl.configs import base, envs
from agentrl.configs.config import Config
from agentrl.env import base as env_base
from agentrl.learner import teacher
from agentrl.recall import base as recall
from agentrl.rollout import registered
from agentrl.run.play import readings
from agentrl.signal import reference


def hints(c: Config) -> None:
  """Checks that each reading of c.reading has a name and a source of hints."""
  r = c.rollout
  for name, reading in c.reading.items():
    at, source = f'reading.{name}', reading.source
    if name in (registry.OWN, reference.NULLED):
      raise ValueError(
        f'c.reading.{name} is called like a reading that is made without it;'
        ' take another name, such as hinted'
      )
    given = {'field': reading.field, 'failed': reading.failed}
    for field, only in (('field', 'task'), ('failed', 'outcome')):
      if given[field] and source != only:
        raise ValueError(
          f'{at}.{field}={given[field]!r} is for source {only!r}; leave it out,'
          f' or set {at}.source, which is {source!r}'
        )
    if source == readings.MEMORY:
      _recalled(c, at)
    on_host = registered.on_host(r.kind)
    if source == 'task' and not (reading.field and on_host):
      raise ValueError(
        f"{at}.source='task' is a text of a host environment's tasks, and"
        f' {at}.field={reading.field!r} of env.name={c.env.name!r}'
        " names none; set it, or the source to 'demonstration'"
      )
    if source == 'solution' and r.group_size < 2:
      raise ValueError(
        f"{at}.source='solution' is another attempt at the task, and"
        f' rollout.group_size={r.group_size} makes one; set it to 2 or more'
      )
    if reading.shift and source not in ('demonstration', 'task'):
      raise ValueError(
        f'{at}.shift={reading.shift} takes the hint of another task, and source'
        f' {source!r} has none of tasks; set it to 0'
      )


def _recalled(c: Config, at: str) -> None:
  """Checks a reading of what attempts recall."""
  given = recall.of(base.wiring(c))
  if given and given.every:
    raise ValueError(
      f"{at}.source must not be 'memory' with recall={c.recall!r}, which reads"
      ' at every turn of prompts; set recall to another component'
    )
  if not given:
    raise ValueError(
      f"{at}.source must not be 'memory' with recall={c.recall!r}, which reads"
      ' none; set recall to a component that reads'
    )
  if text := c.reading[at.removeprefix('reading.')].text:
    raise ValueError(
      f"{at}.text must be '' with source='memory', whose first line is"
      f' hp.recall.{c.recall}.heading, got {text!r}'
    )


def sampled(c: Config, spec: registry.MethodSpec) -> None:
  """Checks the reading whose hints some attempts are sampled behind."""
  name = readings.sampled_behind(spec)
  if not name:
    return
  at, source = f'hp.collect.{spec.collect}.reading={name!r}', None
  if name in c.reading:
    source = c.reading[name].source
  if source not in ('text', 'demonstration', 'task'):
    raise ValueError(
      f'{at} has hints of source {source!r}, which are not there before the'
      " attempts; name a reading of c.reading of source 'text',"
      " 'demonstration' or 'task'"
    )
  if isinstance(envs.family(c), env_base.PlaysPrograms):
    raise ValueError(
      f'{at} puts a hint before conversations, which a program writes for'
      f' env.name={c.env.name!r}; choose another c.collect'
    )


def teachers(spec: registry.MethodSpec) -> None:
  """Checks that what a loss compares the policy with is not itself."""
  compared = teacher.comparison(spec)
  if compared is None:
    return
  at = f'hp.{compared.term}.{compared.term}'
  if mistake := reference.says_nothing(at, compared.role, compared.reading):
    raise ValueError(mistake)

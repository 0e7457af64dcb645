"""A taskset for verifiers itself: a message of even length is right."""

import verifiers.v1 as vf


class EvenTask(vf.Task[vf.TaskData, vf.State, vf.TaskConfig]):
  @vf.reward
  async def even(self, trace):
    return float(len(trace.last_reply) % 2 == 0)


class EvenTaskset(vf.Taskset[EvenTask, vf.TasksetConfig]):
  def load(self):
    for i in range(40):
      yield EvenTask(
        vf.TaskData(name=f'even{i}', prompt=f'number {i}'), self.config.task
      )


__all__ = ['EvenTaskset']

"""Process that compiles one program for devices elsewhere, and may be killed.

  python -m agentrl.lab.capacity.compiled.child JOB FOLDER

JOB is a pickled compiler.CompileJob, FOLDER gets the compiler's dump.
"""

import pathlib
import pickle
import sys
from unittest import mock

import jax
import numpy as np
from jax.experimental import topologies

from agentrl import mesh
from agentrl.configs.config import Config
from agentrl.lab.capacity.compiled import programs
from agentrl.lab.capacity.compiled.compiler import CompileJob
from agentrl.lab.capacity.compiled.targets import Target
from agentrl.run.check import fields


def main(path: str, folder: str) -> None:
  job: CompileJob = pickle.loads(pathlib.Path(path).read_bytes())
  c = fields.read(job.config)
  dump = {'xla_dump_to': folder, 'xla_dump_hlo_as_text': True}
  # Kernels are chosen by the backend, which is not there.
  backend = mock.patch('jax.default_backend', return_value=job.target.backend)
  with backend, jax.set_mesh(_mesh(c, job.target)):
    lowered = programs.PROGRAMS[job.program](c, job)
    lowered.compile(compiler_options=dump)


def _mesh(c: Config, target: Target) -> jax.sharding.Mesh:
  """Makes the config's mesh; without axes on one device, as runs have none."""
  card = target.options
  devices = topologies.get_topology_desc(
    '' if card else target.name, platform=target.platform, **card
  ).devices
  if len(devices) == 1:
    return jax.sharding.Mesh(np.array(devices[0]), ())
  return mesh.make(
    mesh.shape_of(c.mesh), explicit=c.mesh.explicit, devices=devices
  )


if __name__ == '__main__':
  main(*sys.argv[1:])

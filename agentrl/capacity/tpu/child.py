"""Process that compiles one program for TPUs, and may be killed.

python -m agentrl.capacity.tpu.child JOB, a pickled compiler.CompileJob
"""

import pathlib
import pickle
import sys
from unittest import mock

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import AxisType, Mesh
from ml_collections import ConfigDict

from agentrl import mesh
from agentrl.capacity.tpu import programs
from agentrl.capacity.tpu.compiler import CompileJob


def main(path: str) -> None:
  job: CompileJob = pickle.loads(pathlib.Path(path).read_bytes())
  c = ConfigDict(job.config)
  devices = topologies.get_topology_desc(job.torus, platform='tpu').devices
  sizes = mesh.sizes({name: c.mesh[name] for name in mesh.AXES}, len(devices))
  c.mesh.update(sizes)
  kind = AxisType.Explicit if c.mesh.explicit else AxisType.Auto
  used = np.array(devices[: np.prod(list(sizes.values()))])
  tpus = Mesh(
    used.reshape(tuple(sizes.values())),
    mesh.AXES,
    axis_types=(kind,) * len(mesh.AXES),
  )
  dump = {'xla_dump_to': job.folder, 'xla_dump_hlo_as_text': True}
  # Kernels are chosen by the backend, which is not there.
  backend = mock.patch('jax.default_backend', return_value='tpu')
  with backend, jax.set_mesh(tpus):
    lowered = programs.PROGRAMS[job.program](c, job.shape, job.work)
    lowered.compile(compiler_options=dump)


if __name__ == '__main__':
  main(sys.argv[1])

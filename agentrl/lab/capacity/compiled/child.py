"""Process that compiles one program for TPUs, and may be killed.

  python -m agentrl.lab.capacity.compiled.child JOB FOLDER

JOB is a pickled compiler.CompileJob, FOLDER gets the compiler's dump.
"""

import pathlib
import pickle
import sys
from unittest import mock

import jax
from jax.experimental import topologies

from agentrl import mesh
from agentrl.lab.capacity.compiled import programs
from agentrl.lab.capacity.compiled.compiler import CompileJob
from agentrl.run.check import fields


def main(path: str, folder: str) -> None:
  job: CompileJob = pickle.loads(pathlib.Path(path).read_bytes())
  c = fields.read(job.config)
  tpus = mesh.make(
    {name: getattr(c.mesh, name) for name in mesh.AXES},
    explicit=c.mesh.explicit,
    devices=topologies.get_topology_desc(job.torus, platform='tpu').devices,
  )
  dump = {'xla_dump_to': folder, 'xla_dump_hlo_as_text': True}
  # Kernels are chosen by the backend, which is not there.
  backend = mock.patch('jax.default_backend', return_value='tpu')
  with backend, jax.set_mesh(tpus):
    lowered = programs.PROGRAMS[job.program](c, job)
    lowered.compile(compiler_options=dump)


if __name__ == '__main__':
  main(*sys.argv[1:])

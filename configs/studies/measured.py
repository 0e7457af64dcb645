"""A method whose PRM is measured: how long the errors of its rewards last.

The argument names the method, then what its own argument says:

  python -m experiments.train --workdir=runs/measured \
    --config=configs/studies/measured.py:td_prm,env=bifurcation \
    --config.hp.signal.prm_persistence.term=truth
"""

from agentrl import registry
from agentrl.configs import base
from agentrl.lab.papers.dose import prm_persistence
from agentrl.run import config_file


def get_config(arg='td_prm'):
  method, _, rest = arg.partition(',')
  c = config_file.load(f'{method}:{rest}')
  w = base.wiring(c)
  settings = [registry.settings_of(w, 'signal', x)[0][1] for x in w.signal]
  first = any(map(prm_persistence.scores_first, settings))
  own = (prm_persistence.NAME,)
  c.signal = (*own, *w.signal) if first else (*w.signal, *own)
  c.method = 'studies.measured'  # which brings the signal along
  return base.finish(c)

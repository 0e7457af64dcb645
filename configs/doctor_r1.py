"""Doctor-R1: a tier of inquiry with a veto on safety, and one of the diagnosis.

Paper: Doctor-R1: Mastering Clinical Inquiry with Experiential Agentic
Reinforcement Learning, 2510.04284.

  inquiry   = -1 if a mandatory question was left out, else sum_k I_k
  A = z_group( outcome ) + 0.5 z_group( inquiry )

I_k is how much turn k told of the disease, in nats of the exact posterior: in
the paper eight scores of a judge, of which safety, reasoning and accuracy veto
the rest. As published, its code gives no inquiry reward but those of vetoes.
The two tiers are streams, each normalised alone; the paper gives one or the
other to a turn.

A consultation that is right and was not vetoed is kept with its return, the
shortest of each group. Before later ones two are read: of the 30 with the
largest cosine + 0.5 return the most similar, but of complaints alike only those
whose return is a standard deviation above the mean. Where it differs: the paper
keeps single turns of a reward of at least 0.7, and orders what is read by a
cross-encoder; the released script has its experience switched off.

  no experience      --config.hp.recall.reranked.arm=empty
  of other patients  --config.hp.recall.reranked.arm=shuffled
  outcome alone      --config.coef.inquiry=0.0

Expect fewer diagnoses without the mandatory question than of the outcome alone,
at equal accuracy, and more right ones with experience. Not measured yet.

  python -m experiments.train --config=configs/doctor_r1.py \
    --workdir=runs/doctor_r1
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='doctor_r1', env='consultation')
  c.reward = ('gated_or_penalty',)
  base.hp(
    c,
    'reward',
    'gated_or_penalty',
    terms=('information',),
    weights=(1.0,),
    gates=('safety',),
    scales=(-1.0,),
    thresholds=(0.0,),
    penalty=1.0,
  )
  c.advantage = ('outcome', 'inquiry')
  c.stream.outcome = ('episode_outcome', 'center', 'scale')
  c.stream.inquiry = ('episode_return', 'center', 'scale')
  c.coef.inquiry = 0.5
  c.memory, c.recall = ('texts',), 'reranked'
  base.hp(c, 'memory', 'texts', least=0.0)  # what was vetoed has -1
  base.hp(c, 'recall', 'reranked', k=2, tokens=144, heading='Before:')
  return base.finish(c)

"""SmartSnap: the agent chooses the evidence, and a judge sees nothing else.

Paper: SmartSnap: Proactive Evidence Seeking for Self-Verifying Agents,
2512.22322.

  R = v - 0.1 max(0, |evidence| - 3),   A = z_group( R )

v is 1 where most of the verifiers that answer find the submission done, 0 where
they find no more than that its evidence is valid, and -1 else; a malformed
submission (not one, not at the end, turns that there are not) is R = -1. What
runs is R + 1 with v = 2 s - 1, s the score of judge `submission`, which leaves
the advantage as it is. If no verifier answers, the trajectory has no score; the
released code scores it -1.

Here an agent answers a question from passages and ends with the numbers of the
turns that prove the answer, `<answer>Nalo</answer><evidence>1 3</evidence>`. Of
these turns it submits what it was shown, not what it wrote. Two passages prove
an answer, so that two turns are free where the paper has three. By default one
scripted verifier is asked, which each turn beside the question misleads with a
chance of 1/5; `service.judge` makes it a model. Left out: the early bonus for
tool calls, which is 0 by default in the released code.

Expect a higher success than of the same verifier on all turns, and fewer turns
submitted:

  --config.hp.judge.submission.shown=all

Seen so far, three seeds: +1.6 [-12.2, 15.4] points of success
(docs/results/first_looks.md).

  python -m experiments.train --config=configs/smartsnap.py \
    --workdir=runs/smartsnap
"""

from agentrl.configs import base

VERIFIER = 'agentrl.env.worlds.fact_corpus.verifier:distracted'


def get_config(arg=''):
  c = base.get_config(
    arg, method='smartsnap', env='fact_corpus', judged='submission'
  )
  if 'evidence' in c.env:
    c.env.update(dict(evidence=True, careful=0.3))
    c.service.judge.function = VERIFIER
  c.rollout.max_turns = max(c.rollout.max_turns, 7)
  c.rollout.max_message_tokens = max(c.rollout.max_message_tokens, 52)
  c.judge = (*c.judge, 'evidence_excess')
  base.hp(c, 'judge', 'evidence_excess', free=2)
  c.reward = ('weighted',)
  terms = base.JUDGED, 'evidence_excess'
  base.hp(c, 'reward', 'weighted', terms=terms, weights=(2.0, -0.1))
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  return base.finish(c)

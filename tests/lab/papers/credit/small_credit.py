"""The size of a measurement of credit that a test can wait for."""

from agentrl.lab.papers.credit.size import CreditSize

SIZE = CreditSize(seeds=6, tasks=2, group=8, warm=1, fit=70)
NAMES = ('dr_grpo', 'gigpo_no_std', 'oprl')

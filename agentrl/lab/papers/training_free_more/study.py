"""Training-free study again, on ten new seeds.

Protocol, written before its first run. In the study of
`agentrl.lab.papers.training_free` three warm starts of five had learned to
follow notes, and five seeds of which two cannot gain do not tell +38 points
from none. Nothing is changed but the seeds, 5 to 14, so ten in place of five;
all count, those whose warm start does not follow notes as well.

  python -m experiments.arms --design=training_free_more --seeds=10
"""

from agentrl.lab.papers.training_free import study

DESIGN = study.DESIGN._replace(first=5)

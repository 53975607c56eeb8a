#!/bin/bash
#SBATCH --job-name={{ name }}
#SBATCH --array=0-{{ tasks - 1 }}
#SBATCH --cpus-per-task=4
#SBATCH --output={{ log }}
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@60
{% if sbatch_options %}
#SBATCH {{ sbatch_options }}
{% endif %}

# Each task extracts blocks that are missing and that no other task is at. To resume after a time
# limit, a failed node or scancel, submit this script again.
cd {{ folder }} || exit 1
exec {{ command }}

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

# Each task extracts blocks that are missing and that no other task is at. A minute before its time
# ends, it stops after its batch (75), and is queued again, at most ten times. To resume after a
# failed task or scancel, submit this script again.
cd {{ folder }} || exit 1
trap 'kill -USR1 "$!"' USR1
{{ command }} &
# A signal ends a wait.
wait "$!"
while kill -0 "$!" 2> /dev/null; do wait "$!"; done
wait "$!"
code=$?
if [ "$code" = 75 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 10 ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"

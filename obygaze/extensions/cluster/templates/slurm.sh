#!/bin/bash
{{ directives }}

# {{ n_units }} units of {{ unit_rows }} clips; task i takes unit i and each {{ workers }}-th after it.
cd {{ folder }} || exit 1
{% for line in setup %}
{{ line }}
{% endfor %}
task="${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"
echo "$task on $(hostname), start ${SLURM_RESTART_COUNT:-0}, $(date)"

# srun passes signals on to Python, but needs the number of cores as an option.
srun --ntasks=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" \
  {{ command }} --worker "$SLURM_ARRAY_TASK_ID/{{ workers }}"{{ " " ~ again if again }}
code=$?

# 75: stopped cleanly. 138 and 143: stopped while starting. Slurm then runs this task again, unless
# it was cancelled (scancel) or stopped too often. 0 (complete) and 3 (some clips failed) end it.
state=$(squeue --noheader --jobs="$task" --format=%T/%r)
case "$code:$state" in
  75:RUNNING/* | 138:RUNNING/* | 143:RUNNING/* | 75:*/TimeLimit)
    if [ "${SLURM_RESTART_COUNT:-0}" -lt {{ most_restarts }} ]; then
      scontrol requeue "$task"
    fi ;;
esac
exit "$code"

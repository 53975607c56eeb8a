#!/bin/bash
{{ directives }}

# {{ n_units }} units of {{ unit_rows }} clips; task i takes unit i and each {{ workers }}-th after it.
cd {{ folder }} || exit 1
{% for line in setup %}
{{ line }}
{% endfor %}
{% if n_arrays > 1 %}
# A cluster limits the index of a task; `sbatch --array=TASKS SCRIPT FIRST` is a further array.
worker=$((${1:-0} + SLURM_ARRAY_TASK_ID))
{% endif %}
{% if stagger_s %}
# Not all at once: each start loads thousands of files.
sleep $((SLURM_ARRAY_TASK_ID % {{ stagger_s }}))
{% endif %}
task="${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"
echo "$task on $(hostname), start ${SLURM_RESTART_COUNT:-0}, $(date)"

# Each finished clip, and each finished block, makes a file in these folders.
folders=({{ store_folders }})
finished() { ls "${folders[@]}" 2>/dev/null | grep block- | cksum; }
before=$(finished)

# srun passes signals on to Python, but needs the number of cores as an option.
srun --ntasks=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" \
  {{ command }} --worker "{{ "$worker" if n_arrays > 1 else "$SLURM_ARRAY_TASK_ID" }}/{{ workers }}"{{ " " ~ again if again }}
code=$?

# 75: stopped cleanly. 138 and 143: stopped while starting. Slurm then runs this task again, unless
# it was cancelled (scancel) or stopped too often. 0 (complete) and 3 (some clips failed) end it.
# It ends too if this start and the one before finished no clip: others would be like them.
idle={{ log_folder }}/{{ name }}-$task.idle
# A busy Slurm does not answer at once; a variable such as SQUEUE_STATES would change the answer.
unset "${!SQUEUE_@}"
ask() { for _ in 1 2 3 4; do "$@" && return; sleep 5; done; }
state=$(ask squeue --noheader --jobs="$task" --format=%T/%r)
case "$code:$state" in
  75:RUNNING/* | 138:RUNNING/* | 143:RUNNING/* | 75:*/TimeLimit)
    if [ "$(finished)" != "$before" ]; then
      rm -f "$idle"
    elif [ ! -e "$idle" ]; then
      touch "$idle"
    else
      rm -f "$idle"
      echo "two starts in a row finished no clip in {{ limit }}: submit it again with --resume --time {{ limit_that_would_do }}"
      exit 1
    fi
    if [ "${SLURM_RESTART_COUNT:-0}" -lt {{ most_restarts }} ]; then
      ask scontrol requeue "$task"
    fi ;;
  0:* | 3:*) rm -f "$idle" ;;
esac
exit "$code"

# SPDX-License-Identifier: GPL-2.0-only
# Runs the steps that the host has listed in /steps/list, one per line: NAME LIMIT_S SCRIPT ARGUMENT. Writes one line
# per step to /out/results: NAME STATUS CENTISECONDS. No scheduler may be loaded after a step.
. /steps/lib.sh

centiseconds() { cut -d' ' -f1 /proc/uptime | tr -d .; }

mkdir -p /out/log
all=0
while read -r name limit script argument <&3; do
    begin=$(centiseconds)
    STEP=$name timeout -k 5 "$limit" sh "/steps/$script.sh" "$argument" >"/out/log/$name" 2>&1
    status=$?
    if ! eventually 10 disabled; then
        echo "FAILED: a scheduler is still loaded: $(cd $SCX && cat root/ops)" >>"/out/log/$name"
        [ "$status" = 0 ] && status=1
        echo S >/proc/sysrq-trigger
    fi
    # A step that timed out leaves its children, and CPUs offline.
    killall -q -KILL weir stress-ng yes
    for cpu in $(movable_cpus); do set_cpu "$cpu" 1 2>/dev/null; done
    spent=$(($(centiseconds) - begin))
    echo "$name $status $spent" >>/out/results
    why="status $status"
    [ "$spent" -lt $((limit * 100)) ] || why="$why after its limit of $limit s"
    case $status in
    0) echo "ok      $name ($((spent / 100)).$((spent / 10 % 10)) s)" ;;
    *) all=1 && echo "FAILED  $name ($why)" && tail -n 40 "/out/log/$name" | sed 's/^/        /' ;;
    esac
done 3</steps/list
exit $all
